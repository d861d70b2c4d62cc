//! The suspension of an instance from outside, with any owner or none.

use perdure_provider::{Epoch, Outcome, Status, Suspend};
use rusqlite::params;

use super::found::find;
use crate::error::Failure;
use crate::session::Session;
use crate::{queues, revocation};

pub(super) fn suspend(session: &mut Session<'_>, suspension: &Suspend) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, &suspension.id)? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status.is_terminal() {
        return Ok(Outcome::Ended {
            status: instance.status,
        });
    }
    if instance.status != Status::Suspended {
        // The owner is cleared (P7): no commit of the owner matches any more, and the epoch goes on from where it was.
        session.execute(
            "UPDATE instances SET status = 'Suspended', owner = NULL, wake_at = NULL,
             start_at = CASE WHEN epoch = 0 THEN wake_at END, report = ?2, updated_at = ?3
             WHERE key = ?1",
            params![instance.key.0, suspension.report, suspension.time_ms],
        )?;
        if instance.epoch == Epoch(0) {
            queues::suspend(session, instance.key)?;
        }
        revocation::note(session, instance.owner.as_ref(), instance.key, instance.epoch)?;
    }
    Ok(Outcome::Suspended {
        key: instance.key,
        epoch: instance.epoch,
        owner: instance.owner,
    })
}
