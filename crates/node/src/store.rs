//! `Store`: an opened provider and the operations of clients.

use std::cell::OnceCell;
use std::sync::Arc;

use napi::bindgen_prelude::{AsyncTask, Float64Array, Function};
use napi::{Env, Task};
use napi_derive::napi;
use perdure_engine::{EventRecord, ExecutionId, Mailbox, MessageBody};
use perdure_provider::{InstanceStatus, Provider, ProviderError, SystemClock};
use perdure_provider_sqlite::{Durability, SqliteOptions, SqliteProvider};
use perdure_runtime::{Awaiting, Conflict, RuntimeError, StartRequest};
use serde_json::json;

use crate::answer::{NUMBERS, Numbers};
use crate::errors::{argument, thrown};
use crate::port::Wake;
use crate::replies::Replies;
use crate::tokio_threads;

/// An opened store.
#[napi]
pub struct Store {
    pub(crate) inner: Arc<perdure_runtime::Store>,
    pub(crate) replies: Replies,
    numbers: OnceCell<Numbers>,
}

/// Opens a SQLite store off the JavaScript thread.
pub struct OpenSqlite {
    path: Option<String>,
    durability: Durability,
}

impl Task for OpenSqlite {
    type Output = Result<SqliteProvider, ProviderError>;
    type JsValue = Store;

    fn compute(&mut self) -> napi::Result<Self::Output> {
        let options = SqliteOptions {
            durability: self.durability,
            ..SqliteOptions::default()
        };
        Ok(match &self.path {
            Some(path) => SqliteProvider::open(path, options),
            None => SqliteProvider::in_memory(options),
        })
    }

    fn resolve(&mut self, _env: Env, opened: Self::Output) -> napi::Result<Store> {
        let provider = opened.map_err(|error| thrown(&RuntimeError::Provider(error)))?;
        Store::new(Arc::new(provider))
    }
}

#[napi]
impl Store {
    fn new(provider: Arc<dyn Provider>) -> napi::Result<Self> {
        let inner = perdure_runtime::Store::new(provider, Arc::new(SystemClock), tokio_threads::handle()?);
        Ok(Self {
            inner,
            replies: Replies::default(),
            numbers: OnceCell::new(),
        })
    }

    /// Open a SQLite file; `durability` is `full` or `normal`.
    #[napi(ts_return_type = "Promise<Store>")]
    pub fn open_sqlite(path: String, durability: String) -> napi::Result<AsyncTask<OpenSqlite>> {
        let durability = match durability.as_str() {
            "full" => Durability::Full,
            "normal" => Durability::Normal,
            other => {
                return Err(argument(format!(
                    "durability must be 'full' or 'normal', not '{other}'"
                )));
            }
        };
        Ok(AsyncTask::new(OpenSqlite {
            path: Some(path),
            durability,
        }))
    }

    /// Open a SQLite store in memory.
    #[napi(ts_return_type = "Promise<Store>")]
    pub fn sqlite_in_memory() -> AsyncTask<OpenSqlite> {
        AsyncTask::new(OpenSqlite {
            path: None,
            durability: Durability::Normal,
        })
    }

    /// Say how this thread is woken when replies are there, and where they put their numbers. It does not keep the process alive.
    #[napi]
    pub fn attach(&self, wake: Function<'_, (), ()>, numbers: Float64Array) -> napi::Result<()> {
        let numbers = Numbers::new(numbers).ok_or_else(|| argument(format!("{NUMBERS} numbers are needed")))?;
        if self.numbers.set(numbers).is_err() {
            return Err(argument("a store is attached once".to_owned()));
        }
        self.replies.attach(Wake::new(&wake)?);
        Ok(())
    }

    /// The next reply: whether it succeeded (kind 1) or not (0), the request that it answers, and JSON text of the result or the error.
    /// `null` when there is none, then `wake` is called for the next one.
    #[napi]
    pub fn next_reply(&self) -> Option<String> {
        let numbers = self.numbers.get()?;
        let answer = self.replies.next()?;
        let request = answer.request;
        let (ok, text) = answer.into_text();
        Some(numbers.answer(u32::from(ok), [request], [text]))
    }

    /// Start an instance; `on_conflict` is `error`, `return` or `restartIfTerminal`.
    #[napi]
    #[allow(
        clippy::too_many_arguments,
        reason = "positional arguments cross the boundary fastest"
    )]
    pub fn start(
        &self,
        request: f64,
        id: String,
        name: String,
        version: Option<String>,
        input: Option<String>,
        tags: Option<String>,
        priority: i32,
        on_conflict: String,
    ) -> napi::Result<()> {
        let conflict = match on_conflict.as_str() {
            "error" => Conflict::Fail,
            "return" => Conflict::Return,
            "restartIfTerminal" => Conflict::RestartIfTerminal,
            other => {
                return Err(argument(format!(
                    "onConflict must be 'error', 'return' or 'restartIfTerminal', not '{other}'"
                )));
            }
        };
        let start = StartRequest {
            id,
            name,
            version,
            input,
            tags,
            priority,
            conflict,
        };
        self.inner.start(start, self.replies.to(request, |()| None));
        Ok(())
    }

    /// Send a message; `kind` is `event` or `queue`, `unread_max` how many may wait then.
    #[napi]
    pub fn send(
        &self,
        request: f64,
        id: String,
        kind: String,
        name: String,
        payload: Option<String>,
        unread_max: f64,
    ) -> napi::Result<()> {
        let mailbox = match kind.as_str() {
            "event" => Mailbox::Event(name),
            "queue" => Mailbox::Queue(name),
            other => {
                return Err(argument(format!(
                    "the kind of a message must be 'event' or 'queue', not '{other}'"
                )));
            }
        };
        self.inner.send(
            id,
            MessageBody::Mail { mailbox, payload },
            unread_max as u64,
            self.replies.to(request, |()| None),
        );
        Ok(())
    }

    /// Ask an instance to cancel.
    #[napi]
    pub fn cancel(&self, request: f64, id: String, reason: Option<String>) {
        let body = MessageBody::Cancel { reason };
        self.inner.send(id, body, u64::MAX, self.replies.to(request, |()| None));
    }

    /// End an instance at once.
    #[napi]
    pub fn terminate(&self, request: f64, id: String, reason: Option<String>) {
        self.inner.terminate(id, reason, self.replies.to(request, |()| None));
    }

    /// Let a suspended instance go on.
    #[napi]
    pub fn resume(&self, request: f64, id: String) {
        self.inner.resume(id, self.replies.to(request, |()| None));
    }

    /// Status of an instance, or `null`.
    #[napi]
    pub fn status(&self, request: f64, id: String) {
        self.inner.status(
            id,
            self.replies.to(request, |status: Option<InstanceStatus>| {
                status.map(|s| status_json(&s))
            }),
        );
    }

    /// Status of an instance once it has ended.
    #[napi]
    pub fn wait_for_end(&self, request: f64, id: String) {
        self.inner.wait(
            request as u64,
            id,
            Awaiting::End,
            self.replies.to(request, |status| Some(status_json(&status))),
        );
    }

    /// Custom status of an instance once its version is above `after_version`, or `null` when it ends without that.
    #[napi]
    pub fn wait_for_status_change(&self, request: f64, id: String, after_version: f64) {
        let after = after_version as u64;
        let text = move |status: InstanceStatus| {
            (status.custom_status_version > after).then(|| {
                json!({ "customStatus": status.custom_status, "customStatusVersion": status.custom_status_version })
                    .to_string()
            })
        };
        self.inner.wait(
            request as u64,
            id,
            Awaiting::StatusAfter(after),
            self.replies.to(request, text),
        );
    }

    /// Forget a wait; its reply does not come.
    #[napi]
    pub fn abandon(&self, request: f64) {
        self.inner.abandon(request as u64);
    }

    /// History of an instance's execution; 0: of the current one.
    #[napi]
    pub fn history(&self, request: f64, id: String, execution: f64) {
        let execution = (execution > 0.0).then_some(ExecutionId(execution as u64));
        self.inner.history(
            id,
            execution,
            self.replies
                .to(request, |events: Vec<EventRecord>| Some(history_json(&events))),
        );
    }

    /// Close the store, once no runtime uses it.
    #[napi]
    pub fn close(&self, request: f64) {
        self.inner.close(self.replies.to(request, |()| None));
    }
}

fn status_json(status: &InstanceStatus) -> String {
    json!({
        "id": status.id,
        "name": status.name,
        "version": status.version,
        "status": status.status.as_str(),
        "executionId": status.execution.0,
        "result": status.result,
        "customStatus": status.custom_status,
        "customStatusVersion": status.custom_status_version,
        "createdAt": status.created_at_ms,
        "updatedAt": status.updated_at_ms,
        "completedAt": status.completed_at_ms,
        "parentId": status.parent_id,
        "tags": status.tags,
    })
    .to_string()
}

fn history_json(events: &[EventRecord]) -> String {
    let events: Vec<_> = events
        .iter()
        .map(|e| {
            json!({
                "eventId": e.event_id.0,
                "timeMs": e.time_ms,
                "kind": e.kind.as_str(),
                "refId": e.ref_id.map(|id| id.0),
                "name": e.name,
                "payload": e.payload,
                "meta": e.meta,
            })
        })
        .collect();
    serde_json::Value::Array(events).to_string()
}
