//! Requests of clients to a store, decoded. `StoreRequest` of `js/binding/store.ts` is the other side.

use std::collections::BTreeSet;
use std::sync::Arc;

use perdure_engine::{EventId, ExecutionId, MessageBody, Payload};
use perdure_provider::{CheckRequest, InstanceKey, InstanceStatus, LogRequest, OverdueRequest, StateRequest};
use perdure_runtime::{Awaiting, ExecutionsQuery, HistoryRequest, RuntimeError, Store};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::listing::{self, history_text, status_json};
use crate::queues::{PauseQueue, QueueName, Queues, SetQueue};
use crate::sending::{Ask, KeyedStart, Send, Start};
use crate::streams;
use crate::texts;

/// A request to a store. The value that goes with some requests crosses beside the JSON, as text: to quote it as a part
/// of the JSON would take time for each of its characters.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum StoreRequest {
    /// Starts an instance. The value is its input.
    Start(Start),
    /// Starts an instance under a key. The value is its input. The reply says what became of it: `null` if it is there.
    KeyedStart(KeyedStart),
    /// Sends a message. The value is its content.
    Send(Send),
    /// Asks an instance for an answer. The value is the ask, and the reply is the answer.
    Ask(Ask),
    /// Asks an instance to cancel. The value is the reason.
    Cancel(Instance),
    /// Ends an instance at once. The value is the reason.
    Terminate(Instance),
    /// Suspends an instance until it is resumed. The value is the reason.
    Suspend(Instance),
    /// Resumes a suspended instance.
    Resume(Instance),
    /// Deletes an instance that has ended.
    Delete(Instance),
    /// Asks for the status of an instance. The reply is `null` if there is none.
    Status(Instance),
    /// Waits for the end of an instance, or its suspension. The reply is its status.
    WaitForEnd(EndWait),
    /// Waits for a change of the custom status. The reply is `null` if the instance ends without that.
    WaitForStatusChange(StatusWait),
    /// Asks for the state of an instance, or for one value of it. The reply is `null` if there is no such instance.
    State(StateOf),
    /// Waits for a change of the state. The reply is `null` if the instance ends without that.
    WaitForStateChange(StateWait),
    /// Asks for a page of a stream.
    ReadStream(streams::Place),
    /// Waits until a stream has an entry, or cannot have it any more.
    WaitForEntry(streams::Place),
    /// Asks for the streams of an instance. The reply is `null` if there is no such instance.
    Streams(Instance),
    /// Appends entries of an attempt to a stream. The value is the entries, and the reply says how the append ended.
    Append(streams::Append),
    /// Asks for the open work of an instance.
    OpenWork(Instance),
    /// Asks for lines that an instance logged.
    Logs(Logs),
    /// Asks for a page of a history.
    History(History),
    /// Asks for a page of the executions of an instance, the newest first.
    Executions(Executions),
    /// Asks for the room that an instance takes.
    Footprint(Instance),
    /// Asks for the takeovers of dead workers that an instance lived through.
    Takeovers(Instance),
    /// Asks for a page of the instances that match a filter.
    List(List),
    /// Deletes ended instances. The reply is their number.
    Prune(Prune),
    /// Deletes the histories of former executions. The reply is their number.
    PruneExecutions(PruneExecutions),
    /// Removes the rows that deleted instances have left.
    Sweep,
    /// Asks for texts of a table.
    Texts(Texts),
    /// Replaces texts of a table, each only if it has not changed since it was read. The value is JSON of the changes.
    /// The reply is the number of replaced texts.
    ReplaceTexts(Table),
    /// Sets the limits of a queue.
    SetQueue(SetQueue),
    /// Pauses a queue, or ends its pause.
    PauseQueue(PauseQueue),
    /// Deletes a queue that no instance is in.
    DeleteQueue(QueueName),
    /// Asks for a queue, or for all queues.
    Queues(Queues),
    /// Asks for the counts of the store.
    Stats,
    StoreId,
    /// Asks for work that no worker takes.
    Overdue(Overdue),
    /// Asks for the settings of the store and the workers on it.
    Inspect,
    /// Runs a step of the check of the store's rows.
    Check(Check),
    /// Copies the store into another file while it is in use. The reply is the size in bytes.
    BackUp(BackUp),
    /// Closes the store, once no runtime uses it.
    Close,
}

/// The instance that a request is about.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Instance {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EndWait {
    id: String,
    /// True if the wait is also over once the instance is suspended.
    or_suspension: bool,
}

/// The work that a request asks for, and the work that is left out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Overdue {
    for_ms: i64,
    /// Names and versions of orchestrations.
    served_orchestrations: BTreeSet<(String, String)>,
    /// Queues and names of activities.
    served_activities: BTreeSet<(String, String)>,
}

impl From<Overdue> for OverdueRequest {
    fn from(overdue: Overdue) -> Self {
        Self {
            for_ms: overdue.for_ms,
            served_orchestrations: overdue.served_orchestrations,
            served_activities: overdue.served_activities,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StatusWait {
    id: String,
    /// The wait is over when the version of the custom status is above this one.
    after_version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateOf {
    id: String,
    /// `None`: all values.
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StateWait {
    id: String,
    /// The wait is over when the version of the state is above this one.
    after_version: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct History {
    id: String,
    /// Key of the page before; `None` for the first one.
    key: Option<i64>,
    /// `None`: the current execution.
    execution_id: Option<u64>,
    /// Id of the first event.
    from: u64,
    /// Most events of the page; `None`: as many as a page may have.
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Logs {
    id: String,
    /// `None`: all.
    execution_id: Option<u64>,
    /// The cursor of the page before.
    cursor: Option<String>,
    limit: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Executions {
    id: String,
    /// Key of the page before; `None` for the first one.
    key: Option<i64>,
    /// The newest execution of the page; `None`: the current one.
    from: Option<u64>,
    limit: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    filter: Value,
    cursor: Option<String>,
    limit: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prune {
    filter: Value,
    limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PruneExecutions {
    filter: Value,
    /// Number of the last former executions of each instance that stay.
    keep: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Texts {
    table: String,
    /// The row of the page before.
    after: Option<String>,
    /// Texts that begin with this are left out.
    except: String,
    /// Most characters to return of each text; `None`: all.
    head: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    table: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    /// The cursor of the step before.
    cursor: Option<String>,
    limit: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackUp {
    path: String,
    /// True if the copy replaces an existing file.
    replace: bool,
}

fn status_text(status: Option<InstanceStatus>) -> Option<String> {
    status.map(|status| status_json(&status).to_string())
}

impl StoreRequest {
    /// Decodes a request.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Argument`]: the text is no request.
    pub(crate) fn parse(text: &str) -> Result<Self, RuntimeError> {
        serde_json::from_str(text).map_err(|e| RuntimeError::Argument(format!("the store has no such request: {e}")))
    }

    /// Makes the request.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Argument`]: there is no such filter, cursor, table or row. The request has no reply then.
    pub(crate) fn make(self, store: &Arc<Store>, value: Payload, caller: &Caller<'_>) -> Result<(), RuntimeError> {
        match self {
            Self::Start(start) => store.start(start.with(value), caller.done()),
            Self::KeyedStart(keyed) => keyed.make(store, value, caller),
            Self::Send(send) => send.make(store, value, caller.done()),
            Self::Ask(ask) => ask.make(store, value, caller),
            Self::Cancel(Instance { id }) => store.send(id, MessageBody::Cancel { reason: value }, None, caller.done()),
            Self::Terminate(Instance { id }) => store.terminate(id, value, caller.done()),
            Self::Suspend(Instance { id }) => store.suspend(id, value, caller.done()),
            Self::Resume(Instance { id }) => store.resume(id, caller.done()),
            Self::Delete(Instance { id }) => store.delete(id, caller.done()),
            Self::OpenWork(Instance { id }) => store.open_work(id, caller.text(listing::open_work_text)),
            Self::Logs(logs) => {
                let (request, cursor) = logs.decode()?;
                store.logs(request, caller.text(|page| listing::logs_text(page, cursor)));
            }
            Self::Status(Instance { id }) => store.status(id, caller.replies.to(caller.request, status_text)),
            Self::WaitForEnd(wait) => wait.make(store, caller),
            Self::WaitForStatusChange(wait) => wait.make(store, caller),
            Self::SetQueue(request) => request.make(store, caller)?,
            Self::PauseQueue(PauseQueue { name, paused }) => store.pause_queue(name, paused, caller.done()),
            Self::DeleteQueue(QueueName { name }) => store.delete_queue(name, caller.done()),
            Self::Queues(request) => request.make(store, caller),
            Self::State(request) => store.state(request.into(), caller.text(listing::state_text)),
            Self::WaitForStateChange(wait) => wait.make(store, caller),
            Self::ReadStream(place) => place.read(store, caller),
            Self::WaitForEntry(place) => place.await_entry(store, caller),
            Self::Streams(Instance { id }) => store.streams_of(id, caller.text(streams::list_text)),
            Self::Append(append) => append.make(value, caller)?,
            Self::History(history) => store.history(history.into(), caller.text(|page| history_text(&page))),
            Self::Executions(request) => {
                store.executions(request.into(), caller.text(|page| listing::executions_text(&page)));
            }
            Self::Takeovers(Instance { id }) => store.takeovers(id, caller.text(listing::takeovers_text)),
            Self::Footprint(Instance { id }) => {
                store.footprint(id, caller.text(|footprint| listing::footprint_text(&footprint)));
            }
            Self::List(list) => {
                let after = list.cursor.as_deref().map(listing::place).transpose()?;
                let reply = caller.text(|page| listing::page_text(&page));
                store.list(listing::filter(&list.filter)?, after, list.limit, reply);
            }
            Self::Prune(prune) => prune.make(store, caller)?,
            Self::PruneExecutions(prune) => prune.make(store, caller)?,
            Self::Sweep => store.sweep_all(caller.done()),
            Self::Texts(request) => {
                let after = request.after.as_deref().map(texts::row).transpose()?;
                let (table, reply) = (
                    texts::table(&request.table)?,
                    caller.text(|page| texts::page_text(&page)),
                );
                store.texts(table, after, request.except, request.head, reply);
            }
            Self::ReplaceTexts(Table { table }) => {
                let changes = texts::changes(texts::table(&table)?, &value.unwrap_or_default())?;
                store.replace_texts(changes, caller.number());
            }
            Self::StoreId => store.store_id(caller.text(|id| id)),
            Self::Stats => store.stats(caller.text(|stats| listing::stats_text(&stats))),
            Self::Overdue(overdue) => {
                store.overdue(overdue.into(), caller.text(|work| listing::overdue_text(&work)));
            }
            Self::Inspect => store.inspect(caller.text(|(info, found)| listing::inspection_text(&info, &found))),
            Self::Check(check) => store.check(check.decode()?, caller.text(|checked| listing::checked_text(&checked))),
            Self::BackUp(BackUp { path, replace }) => store.back_up(path.into(), replace, caller.number()),
            Self::Close => store.close(caller.done()),
        }
        Ok(())
    }
}

impl EndWait {
    fn make(self, store: &Store, caller: &Caller<'_>) {
        let reply = caller.text(|status| status_json(&status).to_string());
        let awaiting = if self.or_suspension {
            Awaiting::EndOrSuspension
        } else {
            Awaiting::End
        };
        store.wait(caller.wait_id(), self.id, awaiting, reply);
    }
}

impl Prune {
    fn make(self, store: &Arc<Store>, caller: &Caller<'_>) -> Result<(), RuntimeError> {
        let filter = listing::filter(&self.filter)?;
        store.prune(caller.wait_id(), filter, self.limit, caller.number());
        Ok(())
    }
}

impl PruneExecutions {
    fn make(self, store: &Arc<Store>, caller: &Caller<'_>) -> Result<(), RuntimeError> {
        let filter = listing::filter(&self.filter)?;
        store.prune_executions(caller.wait_id(), filter, self.keep, caller.number());
        Ok(())
    }
}

impl StatusWait {
    fn make(self, store: &Store, caller: &Caller<'_>) {
        let after = self.after_version;
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
        let reply = caller.replies.to(caller.request, text);
        store.wait(caller.wait_id(), self.id, Awaiting::StatusAfter(after), reply);
    }
}

impl From<StateOf> for StateRequest {
    fn from(StateOf { id, name }: StateOf) -> Self {
        Self { id, name }
    }
}

impl StateWait {
    fn make(self, store: &Store, caller: &Caller<'_>) {
        let after = self.after_version;
        let text =
            move |status: InstanceStatus| (status.state_version > after).then(|| status.state_version.to_string());
        let reply = caller.replies.to(caller.request, text);
        store.wait(caller.wait_id(), self.id, Awaiting::StateAfter(after), reply);
    }
}

impl From<History> for HistoryRequest {
    fn from(request: History) -> Self {
        Self {
            id: request.id,
            key: request.key.map(InstanceKey),
            execution: request.execution_id.map(ExecutionId),
            from: EventId(request.from),
            limit: request.limit.unwrap_or(usize::MAX),
        }
    }
}

impl From<Executions> for ExecutionsQuery {
    fn from(request: Executions) -> Self {
        Self {
            id: request.id,
            key: request.key.map(InstanceKey),
            from: request.from.map(ExecutionId),
            limit: request.limit,
        }
    }
}

impl Logs {
    /// Returns the request and its cursor.
    fn decode(self) -> Result<(LogRequest, Option<String>), RuntimeError> {
        let request = LogRequest {
            id: self.id,
            execution: self.execution_id.map(ExecutionId),
            after: self.cursor.as_deref().map(listing::log_place).transpose()?,
            limit: self.limit,
        };
        Ok((request, self.cursor))
    }
}

impl Check {
    fn decode(self) -> Result<CheckRequest, RuntimeError> {
        let after = self.cursor.map(|cursor| cursor.parse().map(InstanceKey)).transpose();
        Ok(CheckRequest {
            after: after.map_err(|_| RuntimeError::Argument("the cursor is not from an earlier check".into()))?,
            limit: self.limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_decoded() {
        for text in [
            concat!(
                r#"{"kind":"start","id":"i","name":"o","version":null,"tags":null,"priority":0,"#,
                r#""onConflict":"return","trace":null}"#
            ),
            r#"{"kind":"send","id":"i","mailbox":"event","name":"n","unreadMax":9007199254740991}"#,
            r#"{"kind":"waitForStatusChange","id":"i","afterVersion":3}"#,
            r#"{"kind":"history","id":"i","key":null,"executionId":2,"from":1,"limit":null}"#,
            r#"{"kind":"sweep"}"#,
        ] {
            assert!(StoreRequest::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_misspelt_request_is_refused() {
        for (text, wrong) in [
            (r#"{"kind":"stat"}"#, "stat"),
            (r#"{"kind":"cancel","id":"i","reason":"r"}"#, "reason"),
            (r#"{"kind":"status"}"#, "id"),
            (
                r#"{"kind":"send","id":"i","mailbox":"box","name":"n","unreadMax":1}"#,
                "box",
            ),
        ] {
            let Err(RuntimeError::Argument(message)) = StoreRequest::parse(text) else {
                panic!("{text} is refused");
            };
            assert!(message.contains(wrong), "{message}");
        }
    }
}
