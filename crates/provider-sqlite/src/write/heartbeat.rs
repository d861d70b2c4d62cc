//! Details of a heartbeat. They are kept until a turn says that the activity is over, or the instance is terminated.

use perdure_provider::{Heartbeat, Outcome};
use rusqlite::params;

use super::attempt;
use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn keep(session: &Session<'_>, heartbeat: &Heartbeat) -> Result<Outcome, Failure> {
    let activity = (heartbeat.key, heartbeat.execution, heartbeat.scheduled);
    if !attempt::is_run_by(session, activity, &heartbeat.worker, heartbeat.by)? {
        return Ok(Outcome::Fenced);
    }
    let (key, execution) = (heartbeat.key.0, integer(heartbeat.execution.0));
    let scheduled = integer(heartbeat.scheduled.0);
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
