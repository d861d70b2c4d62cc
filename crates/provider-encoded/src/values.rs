//! The values in the records that are written and read, and the place of each.

use std::sync::Arc;

use perdure_engine::{
    Answer, AnsweredAsk, AttemptResult, EventId, EventKind, EventRecord, ExecutionId, Mailbox, Message, MessageBody,
    Payload, Settlement, StateChange, StreamAppend,
};
use perdure_provider::{
    AfterTurn, AskName, AskState, InstanceKey, InstanceStatus, Loaded, NewInstance, NewMessage, OpenWork, StateValue,
    Status, StoredState, StreamChunk, StreamName, Task, TurnCommit, Write,
};
use serde_json::Value as Json;

use crate::names::{Child, Names};
use crate::place::Place;
use crate::slot::{Value, Values, add_entries, add_inner};

/// Returns the value that a payload is, or `None` if there is no payload.
pub(crate) fn of_text(place: Place, payload: &mut Payload) -> Option<Value<'_>> {
    Some(Value::of_text(place, payload.as_mut()?))
}

fn add<'a>(to: &mut Values<'a>, place: Place, payload: &'a mut Payload) {
    to.extend(of_text(place, payload));
}

/// Adds the reason in the report of a suspension, if the report has one.
fn of_report<'a>(id: &Arc<str>, report: &'a mut String, to: &mut Values<'a>) {
    add_inner(to, report, |_| vec![(REASON.to_owned(), Place::suspension(id))]);
}

/// Adds the values in the meta of a first event: the custom status, and the state.
fn of_start_meta<'a>(id: &Arc<str>, meta: &'a mut String, to: &mut Values<'a>) {
    let may_hold = |field: &str| meta.contains(field);
    if !may_hold("\"customStatus\"") && !may_hold("\"state\"") {
        return;
    }
    add_inner(to, meta, |json| {
        let names = json.get("state").and_then(Json::as_object);
        let names = names.into_iter().flat_map(|state| state.keys());
        let values = names.map(|name| {
            let pointer = format!("/state/{}", name.replace('~', "~0").replace('/', "~1"));
            (pointer, Place::state(id, name))
        });
        std::iter::once((CUSTOM_STATUS.to_owned(), Place::status(id)))
            .chain(values)
            .collect()
    });
}

/// Path of the reason in the report of a suspension.
const REASON: &str = "/details/reason";

/// Path of the custom status in the meta of a first event.
const CUSTOM_STATUS: &str = "/customStatus";

/// The instance and execution that events or messages belong to. An instance that is being started has no key yet.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'o> {
    pub(crate) key: InstanceKey,
    pub(crate) id: &'o Arc<str>,
    pub(crate) execution: ExecutionId,
}

fn meta_text(meta: Option<&str>, field: &str) -> Arc<str> {
    let json: Option<Json> = meta.and_then(|meta| serde_json::from_str(meta).ok());
    let text = json.as_ref().and_then(|json| json.get(field)).and_then(Json::as_str);
    text.unwrap_or_default().into()
}

/// Returns the id of the child that an event schedules, if it schedules one.
pub(crate) fn child_of(event: &EventRecord) -> Option<Arc<str>> {
    (event.kind == EventKind::ChildScheduled).then(|| meta_text(event.meta.as_deref(), "id"))
}

/// Returns the event that scheduled a child, if the given event records the end of that child.
pub(crate) fn tells_end_of(event: &EventRecord) -> Option<EventId> {
    matches!(event.kind, EventKind::ChildCompleted | EventKind::ChildFailed)
        .then_some(event.ref_id)
        .flatten()
}

/// Like [`tells_end_of`], for a message. Returns the execution of the parent, too.
pub(crate) fn message_tells_end_of(message: &MessageBody) -> Option<(ExecutionId, EventId)> {
    match message {
        MessageBody::Settled {
            execution,
            scheduled,
            settlement: Settlement::Completed(_) | Settlement::Failed(..),
        } => Some((*execution, *scheduled)),
        _ => None,
    }
}

/// Returns the place of an event's payload, or `None` if events of this kind have no payload.
fn place_of(owner: Owner<'_>, event: &EventRecord, names: &Names) -> Option<Place> {
    let Owner { key, id, execution } = owner;
    let (ref_id, meta) = (event.ref_id.unwrap_or(event.event_id), event.meta.as_deref());
    let name = || event.name.clone().unwrap_or_default();
    let child = || {
        names.child(&Child {
            key,
            execution,
            scheduled: ref_id,
        })
    };
    Some(match event.kind {
        EventKind::ExecutionStarted => Place::input(id, execution),
        EventKind::ActivityScheduled => Place::activity(id, execution, event.event_id, "input"),
        EventKind::ActivityCompleted => Place::activity(id, execution, ref_id, "output"),
        EventKind::ActivityAttemptFailed | EventKind::ActivityFailed => Place::activity(id, execution, ref_id, "error"),
        EventKind::ChildScheduled | EventKind::InstanceStarted => {
            Place::input(&meta_text(meta, "id"), ExecutionId::FIRST)
        }
        EventKind::ChildCompleted => Place::output(&child()),
        EventKind::ChildFailed if &*meta_text(meta, "failure") == "Terminated" => Place::termination(&child()),
        EventKind::ChildFailed => Place::error(&child()),
        EventKind::EventSent => Place::mail(&meta_text(meta, "instance"), &Mailbox::Event(name())),
        EventKind::QueueSent => Place::mail(&meta_text(meta, "instance"), &Mailbox::Queue(name())),
        EventKind::EventReceived => Place::mail(id, &Mailbox::Event(name())),
        EventKind::QueueReceived => Place::mail(id, &Mailbox::Queue(name())),
        EventKind::CancelRequested => Place::cancellation(id),
        EventKind::ExecutionContinuedAsNew => Place::input(id, execution.next()),
        EventKind::ExecutionCompleted => Place::output(id),
        EventKind::ExecutionFailed | EventKind::ExecutionCancelled => Place::error(id),
        EventKind::ExecutionTerminated => Place::termination(id),
        EventKind::EventAbsent
        | EventKind::QueueEmpty
        | EventKind::ExecutionBegan
        | EventKind::TimerCreated
        | EventKind::TimerFired
        | EventKind::OperationConfirmed
        | EventKind::OperationRefused
        | EventKind::OperationCancelled
        | EventKind::PatchApplied => return None,
    })
}

pub(crate) fn of_event<'a>(owner: Owner<'_>, event: &'a mut EventRecord, names: &Names, to: &mut Values<'a>) {
    let place = place_of(owner, event, names);
    let is_first = event.kind == EventKind::ExecutionStarted;
    let EventRecord { payload, meta, .. } = event;
    if let Some(place) = place {
        add(to, place, payload);
    }
    if let (true, Some(meta)) = (is_first, meta) {
        of_start_meta(owner.id, meta, to);
    }
}

pub(crate) fn of_events<'a>(owner: Owner<'_>, events: &'a mut [EventRecord], names: &Names, to: &mut Values<'a>) {
    for event in events {
        of_event(owner, event, names, to);
    }
}

/// Adds the values of a message for an instance.
pub(crate) fn of_body<'a>(
    key: InstanceKey,
    id: &Arc<str>,
    body: &'a mut MessageBody,
    names: &Names,
    to: &mut Values<'a>,
) {
    match body {
        MessageBody::Mail { mailbox, payload } => add(to, Place::mail(id, mailbox), payload),
        MessageBody::Cancel { reason } => add(to, Place::cancellation(id), reason),
        MessageBody::Settled {
            execution,
            scheduled,
            settlement,
        } => {
            let (execution, scheduled) = (*execution, *scheduled);
            let child = || {
                names.child(&Child {
                    key,
                    execution,
                    scheduled,
                })
            };
            match settlement {
                Settlement::Completed(output) => add(to, Place::output(&child()), output),
                Settlement::Failed(failure, error) => add(to, Place::of_failure(&child(), *failure), error),
                Settlement::Refused(_) => {}
                Settlement::Attempted { result, .. } => of_attempt(id, execution, scheduled, result, to),
            }
        }
    }
}

fn of_attempt<'a>(
    id: &Arc<str>,
    execution: ExecutionId,
    scheduled: EventId,
    result: &'a mut AttemptResult,
    to: &mut Values<'a>,
) {
    match result {
        AttemptResult::Completed(output) => add(to, Place::activity(id, execution, scheduled, "output"), output),
        AttemptResult::Failed { error, .. } => add(to, Place::activity(id, execution, scheduled, "error"), error),
    }
}

pub(crate) fn of_messages<'a>(
    key: InstanceKey,
    id: &Arc<str>,
    messages: &'a mut [Message],
    names: &Names,
    to: &mut Values<'a>,
) {
    for message in messages {
        of_body(key, id, &mut message.body, names, to);
    }
}

/// Adds the values of a loaded instance.
pub(crate) fn of_loaded<'a>(owner: Owner<'_>, loaded: &'a mut Loaded, names: &Names, to: &mut Values<'a>) {
    let Loaded {
        history,
        messages,
        heartbeats,
        ..
    } = loaded;
    of_events(owner, history, names, to);
    of_messages(owner.key, owner.id, &mut messages.messages, names, to);
    for (scheduled, details) in heartbeats {
        let place = Place::activity(owner.id, owner.execution, *scheduled, "heartbeat");
        to.push(Value::of_text(place, details));
    }
}

pub(crate) fn of_task<'a>(task: &'a mut Task, to: &mut Values<'a>) {
    let id: Arc<str> = task.instance_id.as_str().into();
    let (execution, scheduled) = (task.task.execution, task.task.scheduled);
    add(to, Place::activity(&id, execution, scheduled, "input"), &mut task.input);
    let heartbeat = Place::activity(&id, execution, scheduled, "heartbeat");
    add(to, heartbeat, &mut task.last_heartbeat);
}

pub(crate) fn of_open_work<'a>(work: &'a mut OpenWork, to: &mut Values<'a>) {
    let id: Arc<str> = work.status.id.as_str().into();
    let execution = work.status.execution;
    of_status(&mut work.status, to);
    for heartbeat in &mut work.heartbeats {
        let place = Place::activity(&id, execution, heartbeat.scheduled, "heartbeat");
        add(to, place, &mut heartbeat.details);
    }
}

pub(crate) fn of_status<'a>(status: &'a mut InstanceStatus, to: &mut Values<'a>) {
    let id: Arc<str> = status.id.as_str().into();
    add(to, Place::status(&id), &mut status.custom_status);
    let result = &mut status.result;
    match status.status {
        Status::Completed => add(to, Place::output(&id), result),
        Status::Failed | Status::Cancelled => add(to, Place::error(&id), result),
        Status::Terminated => add(to, Place::termination(&id), result),
        Status::Suspended => {
            if let Some(report) = result {
                of_report(&id, report, to);
            }
        }
        Status::Pending | Status::Running => {}
    }
}

pub(crate) fn of_state<'a>(id: &Arc<str>, state: &'a mut StoredState, to: &mut Values<'a>) {
    for StateValue { name, value, .. } in &mut state.values {
        add(to, Place::state(id, name), value);
    }
}

/// Adds the answer of an ask, if it has one.
pub(crate) fn of_ask<'a>(name: &AskName, state: &'a mut AskState, to: &mut Values<'a>) {
    if let AskState::Answered(answer) = state {
        of_answer(&name.instance.as_str().into(), &name.ask, answer, to);
    }
}

fn of_append<'a>(id: &Arc<str>, append: &'a mut StreamAppend, to: &mut Values<'a>) {
    add_entries(&Place::stream(id, &append.stream), &mut append.entries, to);
}

pub(crate) fn of_chunks<'a>(name: &StreamName, chunks: &'a mut [StreamChunk], to: &mut Values<'a>) {
    let id: Arc<str> = name.instance.as_str().into();
    let place = Place::stream(&id, &name.stream);
    for chunk in chunks {
        add_entries(&place, &mut chunk.entries, to);
    }
}

fn of_answer<'a>(id: &Arc<str>, ask: &str, answer: &'a mut Answer, to: &mut Values<'a>) {
    let (part, payload) = match answer {
        Answer::Value(value) => ("output", value),
        Answer::Error(error) => ("error", error),
    };
    add(to, Place::answer(id, ask, part), payload);
}

pub(crate) fn of_write<'a>(write: &'a mut Write, names: &Names, to: &mut Values<'a>) {
    match write {
        Write::Start(start) => of_start(start, names, to),
        Write::KeyedStart(keyed) => {
            let id: Arc<str> = keyed.start.id.as_str().into();
            of_start(&mut keyed.start, names, to);
            if let Some(input) = &mut keyed.input {
                of_body(names.placeholder_key(), &id, input, names, to);
            }
        }
        Write::Message(message) => of_message(message, names, to),
        Write::StartWithMessage(both) => {
            of_start(&mut both.start, names, to);
            of_message(&mut both.message, names, to);
        }
        Write::Ask(ask) => of_message(&mut ask.message, names, to),
        Write::Terminate(terminate) => {
            let id: Arc<str> = terminate.id.as_str().into();
            add(to, Place::termination(&id), &mut terminate.reason);
        }
        Write::Suspend(suspend) => {
            let id: Arc<str> = suspend.id.as_str().into();
            of_report(&id, &mut suspend.report, to);
        }
        Write::Turn(turn) => {
            let id = names.id(turn.key);
            of_turn(&id, turn, names, to);
        }
        Write::Heartbeat(heartbeat) => {
            let id = names.id(heartbeat.key);
            let place = Place::activity(&id, heartbeat.execution, heartbeat.scheduled, "heartbeat");
            add(to, place, &mut heartbeat.details);
        }
        Write::Append(append) => of_append(&names.id(append.key), &mut append.append, to),
        Write::TaskDone(done) => {
            let id = names.id(done.task.key);
            of_attempt(&id, done.task.execution, done.task.scheduled, &mut done.result, to);
        }
        Write::Resume { .. }
        | Write::Delete { .. }
        | Write::Probation(_)
        | Write::ReleaseInstance(_)
        | Write::ReleaseTask(_) => {}
    }
}

fn of_start<'a>(start: &'a mut NewInstance, names: &Names, to: &mut Values<'a>) {
    let id: Arc<str> = start.id.as_str().into();
    let owner = Owner {
        key: names.placeholder_key(),
        id: &id,
        execution: ExecutionId::FIRST,
    };
    of_event(owner, &mut start.first_event, names, to);
    if let Some(turn) = &mut start.first_turn {
        of_turn(&id, turn, names, to);
    }
}

/// Adds the values of a message that is sent. The end of a child is never sent: the store itself tells it.
fn of_message<'a>(message: &'a mut NewMessage, names: &Names, to: &mut Values<'a>) {
    let id: Arc<str> = message.instance.as_str().into();
    of_body(names.placeholder_key(), &id, &mut message.body, names, to);
}

fn of_turn<'a>(id: &Arc<str>, turn: &'a mut TurnCommit, names: &Names, to: &mut Values<'a>) {
    let owner = Owner {
        key: turn.key,
        id,
        execution: turn.execution,
    };
    of_events(owner, &mut turn.events, names, to);
    if let Some(status) = &mut turn.custom_status {
        add(to, Place::status(id), &mut status.value);
    }
    for change in &mut turn.state {
        if let StateChange::Set { name, value } = change {
            add(to, Place::state(id, name), value);
        }
    }
    for AnsweredAsk { ask, answer } in &mut turn.answers {
        of_answer(id, ask, answer, to);
    }
    for append in &mut turn.appends {
        of_append(id, append, to);
    }
    if let Some(others) = &mut turn.cross_instance {
        for start in &mut others.starts {
            of_start(&mut start.instance, names, to);
        }
        for message in &mut others.messages {
            of_message(&mut message.message, names, to);
        }
    }
    match &mut turn.after {
        AfterTurn::ContinueAsNew(next) => {
            let owner = Owner {
                execution: turn.execution.next(),
                ..owner
            };
            of_event(owner, &mut next.first_event, names, to);
        }
        AfterTurn::Suspend { report, .. } => of_report(id, report, to),
        AfterTurn::Hold | AfterTurn::Release { .. } | AfterTurn::End { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use perdure_engine::ChildFailure;

    use super::*;

    #[test]
    fn a_value_in_json_is_changed_where_it_stands() {
        let id: Arc<str> = "order".into();
        let mut report = r##"{"code":"SUSPENDED","details":{"reason":"#1"},"message":"x"}"##.to_owned();
        let mut values = Vec::new();
        of_report(&id, &mut report, &mut values);
        assert_eq!(values[0].text(), "#1");
        values[0].set("\"because\"".into());
        assert_eq!(values[0].text(), "\"because\"");
        drop(values);
        assert_eq!(
            report,
            r#"{"code":"SUSPENDED","details":{"reason":"\"because\""},"message":"x"}"#
        );
    }

    #[test]
    fn the_values_of_a_first_event_are_changed_together() {
        let id: Arc<str> = "order".into();
        let mut meta = r##"{"seed":"1","customStatus":"#s","state":{"a/~b":"#1","u":null,"x":"#1"}}"##.to_owned();
        let mut values = Vec::new();
        of_start_meta(&id, &mut meta, &mut values);
        let places: Vec<_> = values.iter().map(|value| (&*value.place.what, value.text())).collect();
        assert_eq!(places, [("status", "#s"), ("state:a/~b", "#1"), ("state:x", "#1")]);
        values[1].set("1".into());
        values[2].set("\"x\"".into());
        drop(values);
        assert_eq!(
            meta,
            r##"{"seed":"1","customStatus":"#s","state":{"a/~b":"1","u":null,"x":"\"x\""}}"##
        );
    }

    #[test]
    fn a_field_that_looks_like_a_value_stays() {
        let id: Arc<str> = "order".into();
        let mut meta = r##"{"parent":{"instance":"#1"},"state":{"instance":"#1"}}"##.to_owned();
        let mut values = Vec::new();
        of_start_meta(&id, &mut meta, &mut values);
        values[0].set("1".into());
        drop(values);
        assert_eq!(meta, r##"{"parent":{"instance":"#1"},"state":{"instance":"1"}}"##);
    }

    #[test]
    fn a_text_that_is_no_json_holds_none() {
        let id: Arc<str> = "order".into();
        let mut report = "a reason of the store's own".to_owned();
        let mut values = Vec::new();
        of_report(&id, &mut report, &mut values);
        assert!(values.is_empty());
    }

    #[test]
    fn the_end_of_a_child_is_the_childs() {
        let child: Arc<str> = "child".into();
        let places = [ChildFailure::Failed, ChildFailure::Cancelled, ChildFailure::Terminated]
            .map(|failure| Place::of_failure(&child, failure).what);
        assert_eq!(places, ["error", "error", "termination"]);
    }
}
