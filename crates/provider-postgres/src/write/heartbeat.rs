//! Details of heartbeats. They are kept until the activity is over, as a turn or a completed attempt says, or until the
//! instance is terminated.

use perdure_provider::{Heartbeat, Outcome, Reporter};

use crate::error::Failure;
use crate::params::P;
use crate::rows::integer;
use crate::session::Session;
use crate::text::encode;

pub(super) async fn keep(session: &Session<'_>, heartbeat: &Heartbeat) -> Result<Outcome, Failure> {
    let activity = [
        P::Int(heartbeat.key.0),
        P::Int(integer(heartbeat.execution.0)),
        P::Int(integer(heartbeat.scheduled.0)),
    ];
    let [key, execution, scheduled] = activity;
    let worker = P::Text(&heartbeat.worker.0);
    let fence =
        match heartbeat.by {
            Reporter::Owner(epoch) => session
                .query_optional(
                    "SELECT 1 FROM {schema}.instances WHERE key = $1 AND execution = $2 AND owner = $3 AND epoch = $4",
                    &[key, execution, worker, P::Int(integer(epoch.0))],
                )
                .await?,
            Reporter::Runner { attempt } => {
                session
                    .query_optional(
                        "SELECT 1 FROM {schema}.tasks
                     WHERE instance_key = $1 AND execution = $2 AND event_id = $3 AND owner = $4 AND attempt = $5",
                        &[key, execution, scheduled, worker, P::Int(i64::from(attempt))],
                    )
                    .await?
            }
        };
    if fence.is_none() {
        return Ok(Outcome::Fenced);
    }
    match &heartbeat.details {
        Some(details) => {
            session
                .query(
                    "INSERT INTO {schema}.heartbeats (instance_key, execution, event_id, details) VALUES ($1, $2, $3, $4)
                     ON CONFLICT (instance_key, execution, event_id) DO UPDATE SET details = excluded.details",
                    &[key, execution, scheduled, P::Text(&encode(details))],
                )
                .await?;
        }
        None => {
            session.query(FORGET, &activity).await?;
        }
    }
    Ok(Outcome::Noted)
}

/// Deletes the details of one activity.
pub(super) const FORGET: &str =
    "DELETE FROM {schema}.heartbeats WHERE instance_key = $1 AND execution = $2 AND event_id = $3";
