//! Suspension of an instance from outside, regardless of its owner.

use perdure_provider::{Outcome, Status, Suspend};

use super::found::find;
use crate::error::Failure;
use crate::params::P;
use crate::queues::release_next;
use crate::revocation;
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

pub(super) async fn suspend(session: &Session<'_>, suspension: &Suspend) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, &suspension.id).await? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status.is_terminal() {
        return Ok(Outcome::Ended {
            status: instance.status,
        });
    }
    if instance.status != Status::Suspended {
        // The owner is cleared (P7): none of its commits matches any more, and the epoch goes on from its former value.
        // An instance that has no slot yet leaves the line, and the next pass looks at its key.
        named!(
            session.query,
            concat!(
                "WITH let AS (",
                release_next!("(SELECT queue, queue_key FROM {schema}.queue_places WHERE key = $key AND place = 0)"),
                "), waiting AS (
               UPDATE {schema}.queue_places SET place = 4 WHERE key = $key AND place <> 2
             )
             UPDATE {schema}.instances SET status = 'Suspended', owner = NULL, wake_at = NULL,
             start_at = CASE WHEN epoch = 0 THEN wake_at END, report = $report, updated_at = $time
             WHERE key = $key"
            ),
            {
                key: P::Int(instance.key.0),
                report: P::Text(&encode(&suspension.report)),
                time: P::Int(suspension.time_ms),
            }
        )
        .await?;
        revocation::note(session, instance.owner.as_ref(), instance.key, instance.epoch).await?;
    }
    Ok(Outcome::Suspended {
        key: instance.key,
        epoch: instance.epoch,
        owner: instance.owner,
    })
}
