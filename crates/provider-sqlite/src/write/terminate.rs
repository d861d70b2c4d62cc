//! The end of an instance from outside, with any owner or none.

use perdure_engine::{Event, EventRecord, Payload, TerminationEvent};
use perdure_provider::{Outcome, Status, Terminate};
use rusqlite::params;

use super::cross_instance::Told;
use super::{Found, cross_instance, find, task_done};
use crate::error::Failure;
use crate::revocation;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn terminate(session: &mut Session<'_>, termination: &Terminate) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, &termination.id)? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status.is_terminal() {
        return Ok(Outcome::Ended {
            status: instance.status,
        });
    }
    let (reason, time_ms) = (|| termination.reason.clone(), termination.time_ms);
    let event = Event::Termination(TerminationEvent::ExecutionTerminated { reason: reason() });
    let mut told = Told::default();
    end(
        session,
        &instance,
        Status::Terminated,
        [event],
        reason(),
        time_ms,
        &mut told,
    )?;
    cross_instance::cancel_children(session, instance.key, time_ms, &mut told)?;
    let Told { receivers, stopped, .. } = told;
    Ok(Outcome::Terminated {
        key: instance.key,
        owner: instance.owner,
        receivers,
        stopped,
    })
}

/// Ends an instance that has not ended, with these events, the last of which says how. Its parent is told; its children
/// are left to the caller.
pub(super) fn end(
    session: &mut Session<'_>,
    instance: &Found,
    status: Status,
    events: impl IntoIterator<Item = Event>,
    result: Payload,
    time_ms: i64,
    told: &mut Told,
) -> Result<(), Failure> {
    let mut next = instance.next_event_id;
    for event in events {
        let event = EventRecord::new(next, time_ms, event);
        session.append_event(instance.key, integer(instance.execution.0), &event)?;
        next = next.next();
    }
    // The owner is cleared (P7) and the next event id moves on, so that any later write of the former owner is fenced
    // off twice.
    session.execute(
        "UPDATE instances SET status = ?3, next_event_id = ?4, owner = NULL, wake_at = NULL,
           unread = 0, report = NULL, unfit_code = NULL, updated_at = ?2, completed_at = ?2
         WHERE key = ?1",
        params![instance.key.0, time_ms, status.as_str(), integer(next.0)],
    )?;
    revocation::note(session, instance.owner.as_ref(), instance.key, instance.epoch)?;
    session.execute("DELETE FROM messages WHERE instance_key = ?1", params![instance.key.0])?;
    session.execute(
        "DELETE FROM heartbeats WHERE instance_key = ?1",
        params![instance.key.0],
    )?;
    if let Some(parent) = cross_instance::parent_of(session, instance.key)? {
        let settlement = cross_instance::settlement(status, result);
        cross_instance::tell(session, &parent, settlement, time_ms, &mut told.receivers)?;
    }
    told.ended = true;
    told.stopped.extend(task_done::withdraw_all(session, instance.key)?);
    Ok(())
}
