//! Details of heartbeats. They are kept until the activity is over, as a turn or a completed attempt says, or until the
//! instance is terminated.

use perdure_provider::{Heartbeat, Outcome, Reporter};

use crate::error::Failure;
use crate::params::P;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

pub(super) async fn keep(session: &Session<'_>, heartbeat: &Heartbeat) -> Result<Outcome, Failure> {
    let activity = Activity {
        key: P::Int(heartbeat.key.0),
        execution: P::Int(integer(heartbeat.execution.0)),
        scheduled: P::Int(integer(heartbeat.scheduled.0)),
    };
    let Activity {
        key,
        execution,
        scheduled,
    } = activity;
    let worker = P::Text(&heartbeat.worker.0);
    let fence =
        match heartbeat.by {
            Reporter::Owner(epoch) => {
                named!(
                    session.query_optional,
                    "SELECT 1 FROM {schema}.instances WHERE key = $key AND execution = $execution AND owner = $owner
                     AND epoch = $epoch",
                    { key: key, execution: execution, owner: worker, epoch: P::Int(integer(epoch.0)) }
                )
                .await?
            }
            Reporter::Runner { attempt } => named!(
                session.query_optional,
                "SELECT 1 FROM {schema}.tasks
                 WHERE instance_key = $key AND execution = $execution AND event_id = $event AND owner = $owner
                 AND attempt = $attempt",
                { key: key, execution: execution, event: scheduled, owner: worker, attempt: P::Int(i64::from(attempt)) }
            )
            .await?,
        };
    if fence.is_none() {
        return Ok(Outcome::Fenced);
    }
    match &heartbeat.details {
        Some(details) => {
            named!(
                session.query,
                "INSERT INTO {schema}.heartbeats ({columns}) VALUES ({values})
                 ON CONFLICT (instance_key, execution, event_id) DO UPDATE SET details = excluded.details,
                 time = excluded.time",
                {
                    instance_key: key,
                    execution: execution,
                    event_id: scheduled,
                    details: P::Text(&encode(details)),
                    time: P::Int(heartbeat.time_ms),
                }
            )
            .await?;
        }
        None => {
            forget(session, activity).await?;
        }
    }
    Ok(Outcome::Noted)
}

/// The activity of an execution whose details are kept.
#[derive(Clone, Copy)]
pub(super) struct Activity {
    pub(super) key: P<'static>,
    pub(super) execution: P<'static>,
    pub(super) scheduled: P<'static>,
}

/// Deletes the details of one activity.
pub(super) async fn forget(session: &Session<'_>, activity: Activity) -> Result<(), Failure> {
    named!(
        session.query,
        "DELETE FROM {schema}.heartbeats WHERE instance_key = $key AND execution = $execution AND event_id = $event",
        { key: activity.key, execution: activity.execution, event: activity.scheduled }
    )
    .await?;
    Ok(())
}
