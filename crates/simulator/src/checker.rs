//! The invariants that must hold when everything has ended: of the histories, of the answers to clients, and of the
//! rows that are left in the store.

mod replay;
mod rows;
mod streams;
mod time_limits;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use perdure_engine::{
    Answer, CommandEvent, DeliveryEvent, Event, EventId, EventKind, EventRecord, ExecutionId, Mailbox, MessageSeq,
    StateValues, TerminationEvent,
};
use perdure_provider::{
    AskName, AskState, InstanceKey, InstanceStatus, PageLimit, Provider, StateRequest, Status, StoredState,
};
#[cfg(test)]
pub(crate) use replay::OnEngine;
use replay::{Replayed, replay};
pub(crate) use rows::{leftovers, lines, rows};
use streams::StoredStream;

use crate::cleanup;
use crate::code::{instance_of, is_refused, program_of};
use crate::entries::Entries;
use crate::fibers::Rules;
use crate::plan::Plan;
use crate::program::{Kind, Origin, PlannedMessage, Program, output};
use crate::requests::Requests;
use crate::witness::{KnownInstance, Witness};

/// An instance with all that the store keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) status: InstanceStatus,
    /// The histories, by execution.
    pub(crate) histories: Vec<Vec<EventRecord>>,
    pub(crate) waiting: usize,
    pub(crate) state: StoredState,
    pub(crate) streams: Vec<StoredStream>,
}

impl Record {
    /// A line for the row and one for each event, without the store's own key of the instance.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self {
            status,
            histories,
            waiting,
            state: StoredState { version, values, .. },
            streams,
        } = self;
        let status = InstanceStatus {
            key: InstanceKey(0),
            ..status.clone()
        };
        let id = &status.id;
        let mut lines = vec![
            format!("{status:?} with {waiting} messages"),
            format!("{id} has the state {version} {values:?}"),
        ];
        for (execution, history) in (1..).zip(histories) {
            lines.extend(history.iter().map(|event| format!("{id} {execution} {event:?}")));
        }
        lines.extend(streams::lines(id, streams));
        lines
    }
}

/// The longest time until an instance hears that it is cancelled, with any faults, ms.
const HEARD_MS: i64 = 60_000;
/// More events than any program here makes.
const EVENTS_MAX: usize = 100_000;

/// Reads all instances that the witness knows.
pub(crate) async fn read(provider: &dyn Provider, witness: &Witness) -> Vec<Record> {
    let mut records = Vec::new();
    for (key, KnownInstance { id, .. }) in witness.instances() {
        let status = provider
            .statuses(vec![id.clone()])
            .await
            .expect("the store answers")
            .remove(0);
        let Some(status) = status else {
            witness.report(format!("S1: {id} was stored and is gone"));
            continue;
        };
        let mut histories = Vec::new();
        for execution in 1..=status.execution.0 {
            let history = provider
                .read_history(key, ExecutionId(execution), EventId::FIRST, PageLimit::rows(EVENTS_MAX))
                .await;
            histories.push(history.expect("the store answers"));
        }
        let waiting = provider
            .read_messages(key, None, PageLimit::rows(EVENTS_MAX))
            .await
            .expect("the store answers");
        let request = StateRequest {
            id: id.clone(),
            name: None,
        };
        let state = provider.state(request).await.expect("the store answers");
        records.push(Record {
            state: state.expect("its status was there"),
            streams: streams::read(provider, &id).await,
            status,
            histories,
            waiting: waiting.messages.len(),
        });
    }
    // Stores number instances as they like.
    records.sort_by(|one, other| one.status.id.cmp(&other.status.id));
    records
}

/// S30: what a client was told of its ask stands in the store, and each accepted ask has its answer.
pub(crate) async fn asks(provider: &dyn Provider, requests: &Requests, witness: &Witness, records: &[Record]) {
    let read = async |instance: &str, ask: i64| {
        let name = AskName {
            instance: instance.to_owned(),
            ask: ask.to_string(),
        };
        let states = provider.asks(vec![name]).await;
        states.expect("the store answers").pop().flatten()
    };
    for (ask, (program, told)) in &requests.told {
        let stored = read(&instance_of(*program), *ask).await;
        if stored.as_ref() != Some(told) {
            witness.report(format!(
                "S30: ask {ask} was answered {told:?}, and {stored:?} is stored"
            ));
        }
    }
    for record in records {
        let id = &record.status.id;
        for ask in record.histories.iter().flatten().filter_map(accepted_ask) {
            let stored = read(id, ask).await;
            if is_refused(ask) || !matches!(stored, Some(AskState::Answered(Answer::Value(_)))) {
                witness.report(format!("S30: {id} has accepted ask {ask}, and {stored:?} is stored"));
            }
        }
    }
}

/// Returns the ask that an event records.
fn accepted_ask(event: &EventRecord) -> Option<i64> {
    match event.clone().into_event() {
        Ok(Event::Delivery(DeliveryEvent::MessageReceived { mailbox, payload })) if mailbox.holds_asks() => {
            payload?.parse().ok()
        }
        _ => None,
    }
}

/// Checks the invariants of the module. Violations are reported to the witness.
pub(crate) fn check(plan: &Plan, requests: &Requests, witness: &Witness, records: &[Record]) {
    let checker = Checker {
        plan,
        requests,
        witness,
        by_id: records
            .iter()
            .map(|record| (record.status.id.as_str(), record))
            .collect(),
    };
    for record in records {
        checker.histories(record);
        checker.end(record);
        checker.output(record);
        checker.children(record);
        checker.messages(record);
        checker.status(record);
        checker.replay(record);
        checker.streams(record);
        checker.time_limit(record);
        checker.cancellation(record);
    }
}

struct Checker<'a> {
    plan: &'a Plan,
    requests: &'a Requests,
    witness: &'a Witness,
    by_id: BTreeMap<&'a str, &'a Record>,
}

impl Checker<'_> {
    fn wrong(&self, what: String) {
        self.witness.report(what);
    }

    fn programs(&self) -> &[Program] {
        &self.plan.programs.all
    }

    /// S3, S4, S7, S12, S16: the order of events, one terminal event, and continuations.
    fn histories(&self, record: &Record) {
        let id = &record.status.id;
        let last = record.histories.len();
        for (execution, history) in (1..).zip(&record.histories) {
            let at = format!("{id} {execution}");
            for (event, place) in history.iter().zip(1..) {
                if event.event_id.0 != place {
                    self.wrong(format!("S3: event {place} of {at} is {}", event.event_id));
                }
            }
            let terminals = history.iter().filter(|event| is_terminal(event.kind)).count();
            let ends = history.last().is_some_and(|event| is_terminal(event.kind));
            let is_over = execution < last || record.status.status.is_terminal();
            if terminals != usize::from(is_over) || ends != is_over {
                self.wrong(format!(
                    "S7: {at} has {terminals} terminal events, is over: {is_over}, ends with one: {ends}"
                ));
            }
            let continues = history
                .last()
                .is_some_and(|event| event.kind == EventKind::ExecutionContinuedAsNew);
            if continues != (execution < last) {
                self.wrong(format!("S16: {at} of {last} continues as new: {continues}"));
            }
            self.schedules(&at, history);
        }
    }

    /// Each completion belongs to one earlier schedule, and no timer fires early.
    fn schedules(&self, at: &str, history: &[EventRecord]) {
        let mut open: BTreeMap<EventId, &EventRecord> = BTreeMap::new();
        for event in history {
            if is_schedule(event.kind) {
                open.insert(event.event_id, event);
            }
            if !is_completion(event.kind) {
                continue;
            }
            let Some(schedule) = event.ref_id.and_then(|id| open.remove(&id)) else {
                self.wrong(format!(
                    "S4: event {} of {at} completes nothing that is open",
                    event.event_id
                ));
                continue;
            };
            if let Ok(Event::Command(CommandEvent::TimerCreated { fire_at_ms })) = schedule.clone().into_event()
                && event.time_ms < fire_at_ms
            {
                self.wrong(format!(
                    "S12: the timer #{} of {at} fired at {}, due at {fire_at_ms}",
                    schedule.event_id, event.time_ms
                ));
            }
        }
    }

    /// S7: the status of the row agrees with the last event.
    fn end(&self, record: &Record) {
        let Record { status, histories, .. } = record;
        let last = histories.last().and_then(|history| history.last());
        let expected = last.and_then(|event| match event.kind {
            EventKind::ExecutionCompleted => Some(Status::Completed),
            EventKind::ExecutionFailed => Some(Status::Failed),
            EventKind::ExecutionCancelled => Some(Status::Cancelled),
            EventKind::ExecutionTerminated => Some(Status::Terminated),
            _ => None,
        });
        if status.status.is_terminal()
            && (expected != Some(status.status) || last.map(|event| &event.payload) != Some(&status.result))
        {
            self.wrong(format!(
                "S7: {} is {} with {:?}, its last event is {last:?}",
                status.id, status.status, status.result
            ));
        }
    }

    /// S21: the output equals the value of the program.
    fn output(&self, record: &Record) {
        let status = &record.status;
        let number = program_of(&status.name);
        let Program { kind, origin, .. } = self.programs()[number];
        let is_given_up = match origin {
            Origin::Client => self.requests.given_up.contains(&number),
            // The parent may have given up the child.
            Origin::Parent => true,
            Origin::Detached => false,
        };
        let expected = match kind {
            Kind::Poison => Status::Suspended,
            Kind::Throws => Status::Failed,
            Kind::Overdue => Status::Cancelled,
            Kind::Plain | Kind::Blocking => Status::Completed,
        };
        if status.status != expected {
            if !(is_given_up && matches!(status.status, Status::Cancelled | Status::Terminated)) {
                self.wrong(format!(
                    "S21: {} is {}, not {expected}: {:?}",
                    status.id, status.status, status.result
                ));
            }
            return;
        }
        let output = output(number, self.programs(), &self.plan.programs.feeds).to_string();
        if expected == Status::Completed && status.result.as_ref() != Some(&output) {
            self.wrong(format!(
                "S21: {} came to {:?}, not to {output}",
                status.id, status.result
            ));
        }
    }

    /// S15: a parent is told the result that its child has, and no child runs on after its parent.
    fn children(&self, record: &Record) {
        for (execution, history) in (1..).zip(&record.histories) {
            let mut started: BTreeMap<EventId, String> = BTreeMap::new();
            for event in history {
                match event.clone().into_event() {
                    Ok(Event::Command(CommandEvent::ChildScheduled(start))) => {
                        drop(started.insert(event.event_id, start.id))
                    }
                    Ok(Event::Delivery(DeliveryEvent::ChildCompleted { scheduled, output })) => {
                        let child = started.get(&scheduled).and_then(|id| self.by_id.get(id.as_str()));
                        let result = child.map(|child| &child.status.result);
                        if result != Some(&output) {
                            let id = &record.status.id;
                            self.wrong(format!(
                                "S15: {id} {execution} was told {output:?} by #{scheduled}, which came to {result:?}"
                            ));
                        }
                    }
                    _ => {}
                }
            }
            for id in started.values() {
                let is_over = self
                    .by_id
                    .get(id.as_str())
                    .is_none_or(|child| child.status.status.is_terminal());
                if record.status.status.is_terminal() && !is_over {
                    self.wrong(format!("S15: {id} runs on after its parent {}", record.status.id));
                }
            }
        }
    }

    /// S1, S11, S20: each acknowledged message is consumed once and in order, or is dropped with the end of the
    /// instance.
    fn messages(&self, record: &Record) {
        let id = &record.status.id;
        if record.status.status.is_terminal() && record.waiting > 0 {
            self.wrong(format!(
                "S20: {} messages wait for {id}, which has ended",
                record.waiting
            ));
        }
        let mut received = BTreeSet::new();
        let mut newest: HashMap<Mailbox, MessageSeq> = HashMap::new();
        for event in record.histories.iter().flatten() {
            let Ok(Event::Delivery(DeliveryEvent::MessageReceived { mailbox, payload })) = event.clone().into_event()
            else {
                continue;
            };
            let number: i64 = payload
                .as_deref()
                .and_then(|number| number.parse().ok())
                .unwrap_or_default();
            if !received.insert(number) {
                self.wrong(format!("S11: {id} received {number} twice"));
            }
            let Some((key, seq)) = self.witness.message(number) else {
                continue;
            };
            if key != record.status.key {
                self.wrong(format!("S11: {id} received {number}, which was not sent to it"));
            }
            if newest.insert(mailbox, seq).is_some_and(|before| before > seq) {
                self.wrong(format!("S11: {id} received {number} after a later one"));
            }
            if !self.witness.is_consumed((key, seq)) {
                self.wrong(format!("S11: {id} received {number}, which still waits"));
            }
        }
        if record.status.status != Status::Completed {
            return;
        }
        let program = program_of(&record.status.name);
        let fed = self
            .plan
            .programs
            .feeds
            .iter()
            .filter(|feed| feed.to == program && record.status.parent_id.is_none());
        for PlannedMessage { number, .. } in fed {
            if !received.contains(number) {
                self.wrong(format!("S1: {id} has completed and never received {number}"));
            }
        }
    }

    /// S18: an instance that goes on for long after its cancellation was acknowledged has heard of it. One hears of it
    /// where its code waits, so executions that only begin and end prove nothing.
    fn cancellation(&self, record: &Record) {
        let InstanceStatus {
            id,
            name,
            parent_id,
            status,
            ..
        } = &record.status;
        let Some(asked_ms) = self
            .requests
            .cancelled
            .get(&program_of(name))
            .filter(|_| parent_id.is_none())
        else {
            return;
        };
        let mut events = record.histories.iter().flatten();
        let has_heard = events.any(|event| event.kind == EventKind::CancelRequested);
        let mut events = record.histories.iter().flatten();
        // The first event has the time of the caller that started the instance.
        let goes_on = events.any(|event| {
            event.event_id > EventId::FIRST && event.time_ms > asked_ms + HEARD_MS && !is_edge(event.kind)
        });
        if goes_on && !has_heard && *status != Status::Terminated {
            self.wrong(format!("S18: {id} was cancelled and has not heard of it"));
        }
    }

    /// S22: the custom status was set by the instance itself.
    fn status(&self, record: &Record) {
        let InstanceStatus { id, custom_status, .. } = &record.status;
        if let Some(status) = custom_status
            && status.split(' ').next() != Some(id)
        {
            self.wrong(format!("S22: the custom status of {id} is that of another: {status}"));
        }
    }

    /// S29: the state that an execution leaves is that of the next one at its start, or that in the store.
    fn state(&self, record: &Record, execution: u64, left: &StateValues) {
        let id = &record.status.id;
        let next = record.histories.get(usize::try_from(execution).unwrap_or(usize::MAX));
        let found: StateValues = match next.and_then(|history| history.first()) {
            Some(first) => match first.clone().into_event() {
                Ok(Event::Started(started)) => started.state,
                _ => return,
            },
            None => {
                let values = record.state.values.iter();
                values.map(|value| (value.name.clone(), value.value.clone())).collect()
            }
        };
        if found != *left {
            self.wrong(format!(
                "S29: {id} {execution} leaves the state {left:?}, and there is {found:?}"
            ));
        }
    }

    /// S13: the current code replays every history and comes to the same end. S28 is checked where the execution has
    /// the scoped rules.
    fn replay(&self, record: &Record) {
        let InstanceStatus { id, status, name, .. } = &record.status;
        // The entries of an execution without a history of its code are not known.
        let mut written = record
            .histories
            .iter()
            .all(|history| has_begun(history))
            .then(Entries::new);
        for (execution, history) in (1..).zip(&record.histories) {
            if history.len() == 1 {
                continue;
            }
            match replay(&self.plan.programs.all, id, ExecutionId(execution), history) {
                Err(mismatch) => {
                    written = None;
                    self.wrong(format!("S13: {id} {execution} cannot be replayed: {mismatch}"));
                }
                Ok(Replayed {
                    waits,
                    rules,
                    state,
                    entries,
                }) => {
                    if let Some(written) = &mut written {
                        streams::add(written, entries);
                    }
                    if has_begun(history) {
                        self.state(record, execution, &state);
                    }
                    let is_open = matches!(status, Status::Terminated | Status::Suspended) || ended_outside(history);
                    if let Some(waits) = waits.filter(|_| !is_open) {
                        self.wrong(format!("S20: {id} {execution} is {status} and waits: {waits}"));
                    }
                    let program = &self.programs()[program_of(name)];
                    let is_flat = rules == Some(Rules::Flat);
                    let done = cleanup::done(program, history);
                    self.witness.cleaned_up(done, is_flat && program.is_scoped);
                    if !is_flat {
                        let wrong = cleanup::wrong(program, history).into_iter();
                        wrong.for_each(|wrong| self.wrong(format!("S28: {id} {execution}: {wrong}")));
                    }
                }
            }
        }
        if let Some(written) = written {
            self.written(record, &written);
        }
    }
}

/// Returns true if it shows that the code of an execution has run.
fn has_begun(history: &[EventRecord]) -> bool {
    let may_be_from_outside = [
        EventKind::ExecutionStarted,
        EventKind::CancelRequested,
        EventKind::ExecutionCancelled,
        EventKind::ExecutionTerminated,
    ];
    history.iter().any(|event| !may_be_from_outside.contains(&event.kind))
}

/// True if an execution was cancelled while it was suspended, so that its code had no part in that.
fn ended_outside(history: &[EventRecord]) -> bool {
    let last = history.last().cloned().map(EventRecord::into_event);
    matches!(
        last,
        Some(Ok(Event::Termination(TerminationEvent::ExecutionCancelled { .. })))
    )
}

const fn is_terminal(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::ExecutionCompleted
            | EventKind::ExecutionFailed
            | EventKind::ExecutionCancelled
            | EventKind::ExecutionContinuedAsNew
            | EventKind::ExecutionTerminated
    )
}

const fn is_schedule(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityScheduled
            | EventKind::TimerCreated
            | EventKind::ChildScheduled
            | EventKind::InstanceStarted
            | EventKind::EventSent
            | EventKind::QueueSent
    )
}

pub(crate) const fn is_completion(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCompleted
            | EventKind::ActivityFailed
            | EventKind::TimerFired
            | EventKind::ChildCompleted
            | EventKind::ChildFailed
            | EventKind::OperationConfirmed
            | EventKind::OperationRefused
    )
}

/// True if an event is the beginning or the end of an execution.
fn is_edge(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::ExecutionBegan
            | EventKind::ExecutionContinuedAsNew
            | EventKind::ExecutionCompleted
            | EventKind::ExecutionFailed
    )
}
