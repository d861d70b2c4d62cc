//! The end of an instance from outside, whoever owns it.

use perdure_engine::{Event, EventRecord};
use perdure_provider::{Outcome, Status, Terminate};
use rusqlite::params;

use super::{find, others, task};
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
    let event = Event::ExecutionTerminated {
        reason: termination.reason.clone(),
    };
    let event = EventRecord::new(instance.next_event_id, termination.time_ms, event);
    session.append_event(instance.key, integer(instance.execution.0), &event)?;
    // The owner is cleared (P7) and the next event id moves on: what the former owner still sends is fenced off twice.
    session.execute(
        "UPDATE instances SET status = 'Terminated', next_event_id = next_event_id + 1, owner = NULL, wake_at = NULL,
           unread = 0, report = NULL, unfit_code = NULL, updated_at = ?2, completed_at = ?2
         WHERE key = ?1",
        params![instance.key.0, termination.time_ms],
    )?;
    revocation::note(session, instance.owner.as_ref(), instance.key, instance.epoch)?;
    session.execute("DELETE FROM messages WHERE instance_key = ?1", params![instance.key.0])?;
    session.execute(
        "DELETE FROM heartbeats WHERE instance_key = ?1",
        params![instance.key.0],
    )?;
    let mut receivers = Vec::new();
    if let Some(parent) = others::parent_of(session, instance.key)? {
        let settlement = others::settlement(Status::Terminated, termination.reason.clone());
        others::tell(session, &parent, settlement, termination.time_ms, &mut receivers)?;
    }
    others::cancel_children(session, instance.key, termination.time_ms, &mut receivers)?;
    Ok(Outcome::Terminated {
        key: instance.key,
        owner: instance.owner,
        receivers,
        stopped: task::withdraw_all(session, instance.key)?,
    })
}
