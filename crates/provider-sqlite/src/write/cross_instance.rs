//! The effects of a write on other instances than its own (P11): it starts them, sends to them, and tells parents and
//! children.

use perdure_engine::{ChildFailure, EventId, ExecutionId, MessageBody, Payload, Refusal, Settlement};
use perdure_provider::{CrossInstanceEffects, CrossInstanceOutcome, InstanceKey, Outcome, Receivers, Status, WorkerId};
use rusqlite::params;

use super::{Found, cancel, find, find_by_key, find_children, message, start, task_done};
use crate::error::Failure;
use crate::session::Session;

/// The execution that a child tells of its end.
pub(super) struct Parent {
    pub(super) key: InstanceKey,
    pub(super) execution: ExecutionId,
    pub(super) event: EventId,
}

/// The execution that affects others, and the time of that.
#[derive(Clone, Copy)]
pub(super) struct Doer {
    pub(super) key: InstanceKey,
    pub(super) execution: ExecutionId,
    pub(super) time_ms: i64,
}

/// Carries out the effects of a turn on other instances.
pub(super) fn carry_out(
    session: &mut Session<'_>,
    doer: Doer,
    cross_instance: &CrossInstanceEffects,
) -> Result<CrossInstanceOutcome, Failure> {
    let mut others = CrossInstanceOutcome::default();
    let mut refused = Vec::new();
    for other in &cross_instance.starts {
        let parent = other.is_child.then_some(Parent {
            key: doer.key,
            execution: doer.execution,
            event: other.scheduled,
        });
        let outcome = start::start(session, &other.instance, parent.as_ref())?;
        if outcome == Outcome::Exists {
            refused.push((other.scheduled, Refusal::InstanceExists));
        }
        others.started.push(outcome);
    }
    for other in &cross_instance.messages {
        match find(session, &other.message.instance)? {
            None => refused.push((other.scheduled, Refusal::InstanceNotFound)),
            Some(receiver) if receiver.status.is_terminal() => refused.push((other.scheduled, Refusal::InstanceEnded)),
            Some(receiver) => match message::full_at(&receiver, &other.message) {
                Some(max) => refused.push((other.scheduled, Refusal::MailboxFull { max })),
                None => {
                    message::put(session, &receiver, &other.message.body, other.message.time_ms)?;
                    add(&mut others.receivers, receiver.owner);
                }
            },
        }
    }
    for event in &cross_instance.cancelled {
        let child = find_children(session, doer.key, Some((doer.execution, *event)))?;
        let mut told = Told::default();
        cancel_all(session, child, doer.time_ms, &mut told)?;
        told.receivers
            .into_iter()
            .for_each(|owner| add(&mut others.receivers, owner));
        others.stopped.extend(told.stopped);
        others.ended |= told.ended;
    }
    for (scheduled, refusal) in refused {
        let to_itself = Parent {
            key: doer.key,
            execution: doer.execution,
            event: scheduled,
        };
        let settlement = Settlement::Refused(refusal);
        others.refused |= tell(session, &to_itself, settlement, doer.time_ms, &mut others.receivers)?;
    }
    for offer in &cross_instance.offers {
        task_done::offer(session, doer.key, doer.execution, offer)?;
    }
    for scheduled in &cross_instance.withdrawn {
        let owner = task_done::withdraw(session, doer.key, doer.execution, *scheduled)?;
        others.stopped.extend(owner);
    }
    Ok(others)
}

/// Tells the execution that waits for a child how the operation settled. Returns false if the execution no longer
/// waits.
pub(super) fn tell(
    session: &Session<'_>,
    parent: &Parent,
    settlement: Settlement,
    time_ms: i64,
    receivers: &mut Receivers,
) -> Result<bool, Failure> {
    let waiting = find_by_key(session, parent.key)?
        .filter(|found| !found.status.is_terminal() && found.execution == parent.execution);
    let Some(found) = waiting else { return Ok(false) };
    let body = MessageBody::Settled {
        execution: parent.execution,
        scheduled: parent.event,
        settlement,
    };
    message::put(session, &found, &body, time_ms)?;
    add(receivers, found.owner);
    Ok(true)
}

/// The workers that are told of a write.
#[derive(Default)]
pub(super) struct Told {
    /// Owners of the instances that got a message.
    pub(super) receivers: Receivers,
    /// Workers that run attempts which are no longer awaited.
    pub(super) stopped: Vec<WorkerId>,
    /// True if instances have ended.
    pub(super) ended: bool,
}

/// Cancels the children of an instance, which has ended.
pub(super) fn cancel_children(
    session: &mut Session<'_>,
    parent: InstanceKey,
    time_ms: i64,
    told: &mut Told,
) -> Result<(), Failure> {
    let children = find_children(session, parent, None)?;
    cancel_all(session, children, time_ms, told)
}

fn cancel_all(session: &mut Session<'_>, children: Vec<Found>, time_ms: i64, told: &mut Told) -> Result<(), Failure> {
    for held in ask(session, children, time_ms, told)? {
        cancel::end_held(session, held, None, time_ms, told)?;
    }
    Ok(())
}

/// Asks the children of an instance, which has ended, to cancel. Suspended children get no message, and are returned.
pub(super) fn ask_children(
    session: &Session<'_>,
    parent: InstanceKey,
    time_ms: i64,
    told: &mut Told,
) -> Result<Vec<Found>, Failure> {
    let children = find_children(session, parent, None)?;
    ask(session, children, time_ms, told)
}

fn ask(session: &Session<'_>, children: Vec<Found>, time_ms: i64, told: &mut Told) -> Result<Vec<Found>, Failure> {
    let mut held = Vec::new();
    for child in children {
        if child.status == Status::Suspended {
            held.push(child);
            continue;
        }
        message::put(session, &child, &MessageBody::Cancel { reason: None }, time_ms)?;
        add(&mut told.receivers, child.owner);
    }
    Ok(held)
}

fn add(receivers: &mut Receivers, owner: Option<WorkerId>) {
    if receivers.last() != Some(&owner) {
        receivers.push(owner);
    }
}

/// Returns the parent of an instance, if one may wait for it.
pub(super) fn parent_of(session: &Session<'_>, key: InstanceKey) -> Result<Option<Parent>, Failure> {
    session.query_one(
        "SELECT parent_key, parent_execution, parent_event FROM instances WHERE key = ?1",
        params![key.0],
        parent,
    )
}

/// Reads the parent in a row of its three columns.
pub(super) fn parent(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Parent>> {
    let Some(key) = row.get(0)? else { return Ok(None) };
    Ok(Some(Parent {
        key: InstanceKey(key),
        execution: ExecutionId(crate::rows::number(row, 1)?),
        event: EventId(crate::rows::number(row, 2)?),
    }))
}

/// Returns the settlement that tells a parent of a child that ended as `status`, with `result`.
pub(super) fn settlement(status: Status, result: Payload) -> Settlement {
    match status {
        Status::Failed => Settlement::Failed(ChildFailure::Failed, result),
        Status::Cancelled => Settlement::Failed(ChildFailure::Cancelled, result),
        Status::Terminated => Settlement::Failed(ChildFailure::Terminated, result),
        _ => Settlement::Completed(result),
    }
}
