//! The end of an instance that none of its own turns brings about.

use perdure_engine::{Event, EventRecord, Payload};
use perdure_provider::{Affected, Epoch, Status, settlement};
use rusqlite::params;

use super::found::{Found, parent_of};
use super::{mailbox, offer};
use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;
use crate::{queues, revocation};

/// Ends an instance that has not ended, with these events, the last of which says how. Its parent is told; its children
/// are left to the caller.
pub(super) fn end(
    session: &mut Session<'_>,
    instance: &Found,
    status: Status,
    events: impl IntoIterator<Item = Event>,
    result: Payload,
    time_ms: i64,
    affected: &mut Affected,
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
           unread = 0, open_work = NULL, report = NULL, start_at = NULL, mismatched_code = NULL, updated_at = ?2,
           completed_at = ?2
         WHERE key = ?1",
        params![instance.key.0, time_ms, status.as_str(), integer(next.0)],
    )?;
    if instance.epoch == Epoch(0) {
        queues::leave(session, instance.key)?;
    }
    revocation::note(session, instance.owner.as_ref(), instance.key, instance.epoch)?;
    session.execute("DELETE FROM messages WHERE instance_key = ?1", params![instance.key.0])?;
    session.execute(
        "DELETE FROM heartbeats WHERE instance_key = ?1",
        params![instance.key.0],
    )?;
    if let Some(parent) = parent_of(session, instance.key)? {
        let settlement = settlement(status, result);
        mailbox::settle(session, &parent, settlement, time_ms, &mut affected.receivers)?;
    }
    affected.ended = true;
    affected.stopped.extend(offer::withdraw_all(session, instance.key)?);
    Ok(())
}
