//! Details of a heartbeat. They are kept until a turn says that the activity is over, or the instance is terminated.

use perdure_provider::{Heartbeat, Outcome, Reporter};
use rusqlite::params;

use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn keep(session: &Session<'_>, heartbeat: &Heartbeat) -> Result<Outcome, Failure> {
    let (key, execution) = (heartbeat.key.0, integer(heartbeat.execution.0));
    let scheduled = integer(heartbeat.scheduled.0);
    let worker = &*heartbeat.worker.0;
    let fence = match heartbeat.by {
        Reporter::Owner(epoch) => session.query_optional(
            "SELECT 1 FROM instances WHERE key = ?1 AND owner = ?2 AND epoch = ?3 AND execution = ?4",
            params![key, worker, integer(epoch.0), execution],
            |_| Ok(()),
        ),
        Reporter::Runner { attempt } => session.query_optional(
            "SELECT 1 FROM tasks WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3 AND attempt = ?4
             AND owner = ?5",
            params![key, execution, scheduled, attempt, worker],
            |_| Ok(()),
        ),
    };
    if fence?.is_none() {
        return Ok(Outcome::Fenced);
    }
    match &heartbeat.details {
        Some(details) => session.execute(
            "INSERT INTO heartbeats (instance_key, execution, event_id, details, time) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET details = excluded.details, time = excluded.time",
            params![key, execution, scheduled, details, heartbeat.time_ms],
        )?,
        None => session.execute(FORGET, params![key, execution, scheduled])?,
    };
    Ok(Outcome::Noted)
}

/// Forgets the details of one activity.
pub(super) const FORGET: &str = "DELETE FROM heartbeats WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3";
