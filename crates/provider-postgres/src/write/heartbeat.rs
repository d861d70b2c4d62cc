//! Details of heartbeats. They are kept until the activity is over, as a turn or a completed attempt says, or until the
//! instance is terminated.

use perdure_provider::{Heartbeat, Outcome};

use super::attempt::{self, Activity};
use crate::error::Failure;
use crate::params::P;
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

pub(super) async fn keep(session: &Session<'_>, heartbeat: &Heartbeat) -> Result<Outcome, Failure> {
    let activity = Activity::of(heartbeat.key, heartbeat.execution, heartbeat.scheduled);
    if !attempt::is_run_by(session, activity, &heartbeat.worker, heartbeat.by).await? {
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
                    instance_key: activity.key,
                    execution: activity.execution,
                    event_id: activity.scheduled,
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
