//! `Store`: an opened provider and the operations of clients.

use std::cell::Cell;
use std::sync::Arc;

use napi::bindgen_prelude::{AsyncTask, Float64Array, Function};
use napi::{Env, Task};
use napi_derive::napi;
use perdure_engine::{EventId, ExecutionId, Mailbox, MessageBody};
use perdure_provider::{CheckRequest, Filter, InstanceKey, InstanceStatus, Overdue, Provider, ProviderError};
use perdure_provider_postgres::{PostgresOptions, PostgresProvider};
use perdure_provider_sqlite::{Durability, SqliteOptions, SqliteProvider};
use perdure_runtime::{Awaiting, Conflict, HistoryRequest, RuntimeError, StartRequest, ThisMachine};
use serde_json::json;

use crate::answer::{NUMBERS, Numbers};
use crate::codec::{self, Bridge};
use crate::errors::{argument, thrown};
use crate::listing::{self, history_text, status_json};
use crate::passwords::{self, Asking, Given};
use crate::port::Wake;
use crate::postgres;
use crate::process;
use crate::replies::Replies;
use crate::texts;
use crate::tokio_threads;

/// An opened store.
#[napi]
pub struct Store {
    pub(crate) inner: Arc<perdure_runtime::Store>,
    pub(crate) replies: Replies,
    /// Number of this handle to the store: each thread has a handle of its own.
    number: u32,
    is_attached: Cell<bool>,
    warning: Option<String>,
}

fn bridge(codec: Option<Function<'_, String, ()>>, required: bool) -> napi::Result<Option<Arc<Bridge>>> {
    codec.map(|codec| Bridge::new(&codec, required)).transpose()
}

fn filter_of(text: &str) -> napi::Result<Filter> {
    listing::filter(text).map_err(|e| thrown(&e))
}

/// Opens a SQLite store off the JavaScript thread.
pub struct OpenSqlite {
    path: Option<String>,
    durability: Durability,
    migrate: bool,
    codec: Option<Arc<Bridge>>,
}

impl Task for OpenSqlite {
    type Output = Result<SqliteProvider, ProviderError>;
    type JsValue = Store;

    fn compute(&mut self) -> napi::Result<Self::Output> {
        let options = SqliteOptions {
            durability: self.durability,
            migrate: self.migrate,
            ..SqliteOptions::default()
        };
        Ok(match &self.path {
            Some(path) => SqliteProvider::open(path, options),
            None => SqliteProvider::in_memory(options),
        })
    }

    fn resolve(&mut self, _env: Env, opened: Self::Output) -> napi::Result<Store> {
        let provider = opened.map_err(|error| thrown(&RuntimeError::Provider(error)))?;
        Store::new(Arc::new(provider), self.codec.as_ref())
    }
}

/// Connects to a Postgres store off the JavaScript thread.
pub struct ConnectPostgres {
    url: String,
    options: PostgresOptions,
    codec: Option<Arc<Bridge>>,
}

impl Task for ConnectPostgres {
    type Output = Result<PostgresProvider, ProviderError>;
    type JsValue = Store;

    fn compute(&mut self) -> napi::Result<Self::Output> {
        let connected = PostgresProvider::connect(&self.url, self.options.clone());
        Ok(tokio_threads::handle()?.block_on(connected))
    }

    fn resolve(&mut self, _env: Env, opened: Self::Output) -> napi::Result<Store> {
        let provider = opened.map_err(|error| thrown(&RuntimeError::Provider(error)))?;
        let warning = provider.warning();
        let store = Store::new(Arc::new(provider), self.codec.as_ref())?;
        Ok(Store { warning, ..store })
    }
}

#[napi]
impl Store {
    fn new(provider: Arc<dyn Provider>, codec: Option<&Arc<Bridge>>) -> napi::Result<Self> {
        let provider = codec::behind(provider, codec).map_err(|error| thrown(&RuntimeError::Provider(error)))?;
        let inner = perdure_runtime::Store::new(provider, Arc::new(ThisMachine::read()), tokio_threads::handle()?);
        let store = Self::on(inner);
        let replies = store.replies.clone();
        store.inner.on_answer_coming(Box::new(move || replies.announce()));
        Ok(store)
    }

    pub(crate) fn on(inner: Arc<perdure_runtime::Store>) -> Self {
        Self {
            number: process::STORES.number(&inner),
            inner,
            replies: Replies::default(),
            is_attached: Cell::new(false),
            warning: None,
        }
    }

    /// Number of the store, by which other threads of this process find it.
    #[napi]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the store with this number, which another thread of this process has opened and will close.
    #[napi(factory)]
    pub fn join(number: u32) -> napi::Result<Self> {
        Ok(Self::on(process::STORES.get(number)?))
    }

    /// Opens a SQLite file; `durability` is `full` or `normal`. Without `migrate`, a file that is missing or has an
    /// older schema is refused. `codec` is called with questions, which `giveTexts` answers; `required`: it is asked
    /// about plain text, too.
    #[napi(ts_return_type = "Promise<Store>")]
    pub fn open_sqlite(
        path: String,
        durability: String,
        migrate: bool,
        codec: Option<Function<'_, String, ()>>,
        required: bool,
    ) -> napi::Result<AsyncTask<OpenSqlite>> {
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
            migrate,
            codec: bridge(codec, required)?,
        }))
    }

    /// Opens a SQLite store in memory.
    #[napi(ts_return_type = "Promise<Store>")]
    pub fn sqlite_in_memory(
        codec: Option<Function<'_, String, ()>>,
        required: bool,
    ) -> napi::Result<AsyncTask<OpenSqlite>> {
        Ok(AsyncTask::new(OpenSqlite {
            path: None,
            durability: Durability::Normal,
            migrate: true,
            codec: bridge(codec, required)?,
        }))
    }

    /// Connects to a Postgres store; the options are JSON, see [`postgres`]. `ask` is called with a number for each
    /// password that is needed, which `givePassword` answers.
    #[napi(ts_return_type = "Promise<Store>")]
    pub fn connect_postgres(
        url: String,
        options: String,
        ask: Option<Function<'_, u32, ()>>,
        codec: Option<Function<'_, String, ()>>,
        required: bool,
    ) -> napi::Result<AsyncTask<ConnectPostgres>> {
        let mut options = postgres::parse(&options).map_err(|e| thrown(&e))?;
        if let Some(ask) = ask {
            options.password = Some(Arc::new(Asking::new(&ask)?));
        }
        let codec = bridge(codec, required)?;
        Ok(AsyncTask::new(ConnectPostgres { url, options, codec }))
    }

    /// Answers a question for a password; without one, `why_not` gives the reason.
    #[napi]
    pub fn give_password(question: u32, password: Option<String>, why_not: String) {
        passwords::answer(question, Given { password, why_not });
    }

    /// Answers a question for texts with a JSON list: for each text `{ text }`, or `{ why, later }` if there is none.
    #[napi]
    pub fn give_texts(question: u32, texts: String) {
        codec::answer(question, texts);
    }

    /// Warning for the user about the connection to the store, once it is open.
    #[napi]
    pub fn warning(&self) -> Option<String> {
        self.warning.clone()
    }

    /// Attaches this thread to the replies of the store. `wake` is called when replies are there; it does not keep the
    /// process alive. `numbers` receives the numbers of the replies. Returns the function that gives the next reply:
    /// its kind (1 for success, 0 for an error), the request that it answers, and the JSON text of the result or the
    /// error. It returns `null` if there is no reply; `wake` is then called for the next one.
    #[napi]
    pub fn attach<'env>(
        &self,
        env: &'env Env,
        wake: Function<'_, (), ()>,
        numbers: Float64Array,
    ) -> napi::Result<Function<'env, (), Option<String>>> {
        let numbers = Numbers::new(numbers).ok_or_else(|| argument(format!("{NUMBERS} numbers are needed")))?;
        if self.is_attached.replace(true) {
            return Err(argument("a store is attached once".to_owned()));
        }
        self.replies.attach(Wake::new(&wake)?);
        let replies = self.replies.clone();
        env.create_function_from_closure("nextReply", move |_| {
            let Some(answer) = replies.next() else {
                return Ok(None);
            };
            let request = answer.request;
            let (ok, text) = answer.into_text();
            let text = numbers.answer(u32::from(ok), [request], [text], "the answer of the store");
            text.map(Some).map_err(|error| thrown(&error))
        })
    }

    /// Stops waking this thread, and releases the wake function.
    #[napi]
    pub fn detach(&self) {
        self.replies.detach();
    }

    /// Starts an instance; `on_conflict` is `error`, `return` or `restartIfTerminal`.
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
        trace: Option<String>,
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
            trace,
            conflict,
        };
        self.inner.start(start, self.replies.to(request, |()| None));
        Ok(())
    }

    /// Sends a message; `kind` is `event` or `queue`, `unread_max` the maximum number of messages that may then wait.
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

    /// Asks an instance to cancel.
    #[napi]
    pub fn cancel(&self, request: f64, id: String, reason: Option<String>) {
        let body = MessageBody::Cancel { reason };
        self.inner.send(id, body, u64::MAX, self.replies.to(request, |()| None));
    }

    /// Ends an instance at once.
    #[napi]
    pub fn terminate(&self, request: f64, id: String, reason: Option<String>) {
        self.inner.terminate(id, reason, self.replies.to(request, |()| None));
    }

    /// Suspends an instance until it is resumed.
    #[napi]
    pub fn suspend(&self, request: f64, id: String, reason: Option<String>) {
        self.inner.suspend(id, reason, self.replies.to(request, |()| None));
    }

    /// Resumes a suspended instance.
    #[napi]
    pub fn resume(&self, request: f64, id: String) {
        self.inner.resume(id, self.replies.to(request, |()| None));
    }

    /// Replies with the status of an instance, or `null`.
    #[napi]
    pub fn status(&self, request: f64, id: String) {
        self.inner.status(
            id,
            self.replies.to(request, |status: Option<InstanceStatus>| {
                status.map(|s| status_json(&s).to_string())
            }),
        );
    }

    /// Replies with the status of an instance once it has ended.
    #[napi]
    pub fn wait_for_end(&self, request: f64, id: String) {
        self.inner.wait(
            (self.number, request as u64),
            id,
            Awaiting::End,
            self.replies
                .to(request, |status| Some(status_json(&status).to_string())),
        );
    }

    /// Replies with the custom status of an instance once its version is above `after_version`, or `null` if it ends
    /// without that.
    #[napi]
    pub fn wait_for_status_change(&self, request: f64, id: String, after_version: f64) {
        let after = after_version as u64;
        let text = move |status: InstanceStatus| {
            (status.custom_status_version > after).then(|| {
                json!({
                    "customStatus": status.custom_status,
                    "customStatusVersion": status.custom_status_version,
                    "status": status.status.as_str(),
                })
                .to_string()
            })
        };
        self.inner.wait(
            (self.number, request as u64),
            id,
            Awaiting::StatusAfter(after),
            self.replies.to(request, text),
        );
    }

    /// Abandons a wait; its reply does not come.
    #[napi]
    pub fn abandon(&self, request: f64) {
        self.inner.abandon((self.number, request as u64));
    }

    /// Replies with a page of the history of an instance's execution. `key` is that of the page before, 0 for the first
    /// one; `execution` 0 is the current one; `limit` is the maximum number of events of the page, 0 for no limit.
    #[napi]
    pub fn history(&self, request: f64, id: String, key: f64, execution: f64, from: f64, limit: f64) {
        let page = HistoryRequest {
            id,
            key: (key > 0.0).then_some(InstanceKey(key as i64)),
            execution: (execution > 0.0).then_some(ExecutionId(execution as u64)),
            from: EventId(from as u64),
            limit: if limit > 0.0 { limit as usize } else { usize::MAX },
        };
        self.inner
            .history(page, self.replies.to(request, |page| Some(history_text(&page))));
    }

    /// Replies with a page of the instances that match a filter, which is JSON, after a cursor.
    #[napi]
    pub fn list(&self, request: f64, filter: String, cursor: Option<String>, limit: f64) -> napi::Result<()> {
        let after = cursor.as_deref().map(listing::place).transpose();
        let (filter, after) = (filter_of(&filter)?, after.map_err(|e| thrown(&e))?);
        let reply = self.replies.to(request, |page| Some(listing::page_text(&page)));
        self.inner.list(filter, after, limit as usize, reply);
        Ok(())
    }

    /// Deletes an instance that has ended.
    #[napi]
    pub fn delete(&self, request: f64, id: String) {
        self.inner.delete(id, self.replies.to(request, |()| None));
    }

    /// Deletes ended instances that match a filter, `limit` at most. Replies with their number.
    #[napi]
    pub fn prune(&self, request: f64, filter: String, limit: Option<f64>) -> napi::Result<()> {
        let reply = self.replies.to(request, |deleted: u64| Some(deleted.to_string()));
        let limit = limit.map(|limit| limit as u64);
        self.inner.prune(filter_of(&filter)?, limit, reply);
        Ok(())
    }

    /// Deletes the histories of former executions of instances that match a filter, except the last `keep` of each
    /// instance. Replies with their number.
    #[napi]
    pub fn prune_executions(&self, request: f64, filter: String, keep: f64) -> napi::Result<()> {
        let reply = self.replies.to(request, |deleted: u64| Some(deleted.to_string()));
        self.inner.prune_executions(filter_of(&filter)?, keep as u64, reply);
        Ok(())
    }

    /// Replies with texts of a table (`messages`, `heartbeats`, `instances` or `history`) after a row, except those
    /// that begin with `except`; of each no more than `head` characters, if that is given.
    #[napi]
    pub fn texts(
        &self,
        request: f64,
        table: String,
        after: Option<String>,
        except: String,
        head: Option<u32>,
    ) -> napi::Result<()> {
        let table = texts::table(&table).map_err(|e| thrown(&e))?;
        let after = after.as_deref().map(texts::row).transpose().map_err(|e| thrown(&e))?;
        let reply = self.replies.to(request, |page| Some(texts::page_text(&page)));
        self.inner
            .texts(table, after, except, head.map(|head| head as usize), reply);
        Ok(())
    }

    /// Replaces texts of a table, each only if it has not changed since it was read. The changes are JSON. Replies with
    /// the number of replaced texts.
    #[napi]
    pub fn replace_texts(&self, request: f64, table: String, changes: String) -> napi::Result<()> {
        let table = texts::table(&table).map_err(|e| thrown(&e))?;
        let changes = texts::changes(table, &changes).map_err(|e| thrown(&e))?;
        let reply = self.replies.to(request, |replaced: usize| Some(replaced.to_string()));
        self.inner.replace_texts(changes, reply);
        Ok(())
    }

    /// Removes the rows that deleted instances have left.
    #[napi]
    pub fn sweep(&self, request: f64) {
        self.inner.sweep_all(self.replies.to(request, |()| None));
    }

    /// Replies with the counts of the store.
    #[napi]
    pub fn stats(&self, request: f64) {
        let reply = self.replies.to(request, |stats| Some(listing::stats_text(&stats)));
        self.inner.stats(reply);
    }

    /// Replies with the work that no worker takes, by orchestration and version.
    #[napi]
    pub fn overdue(&self, request: f64) {
        let reply = self
            .replies
            .to(request, |sorts: Vec<Overdue>| Some(listing::overdue_text(&sorts)));
        self.inner.overdue(reply);
    }

    /// Replies with the settings of the store and the workers on it.
    #[napi]
    pub fn inspect(&self, request: f64) {
        let text = |(info, found)| Some(listing::inspection_text(&info, &found));
        self.inner.inspect(self.replies.to(request, text));
    }

    /// Runs a step of the check of the store's rows after a cursor, which the step before returned.
    #[napi]
    pub fn check(&self, request: f64, cursor: Option<String>, limit: f64) -> napi::Result<()> {
        let after = cursor
            .map(|cursor| cursor.parse().map(InstanceKey))
            .transpose()
            .map_err(|_| argument("the cursor is none of a check"))?;
        let limit = limit as usize;
        let reply = self
            .replies
            .to(request, |checked| Some(listing::checked_text(&checked)));
        self.inner.check(CheckRequest { after, limit }, reply);
        Ok(())
    }

    /// Copies the store into another file while it is in use.
    #[napi]
    pub fn back_up(&self, request: f64, path: String, replace: bool) {
        let reply = self.replies.to(request, |bytes: u64| Some(bytes.to_string()));
        self.inner.back_up(path.into(), replace, reply);
    }

    /// Closes the store, once no runtime uses it.
    #[napi]
    pub fn close(&self, request: f64) {
        self.inner.close(self.replies.to(request, |()| None));
    }
}
