//! The end of an attempt that a worker ran for another worker's instance (P12).

use perdure_engine::{AttemptResult, Settlement};
use perdure_provider::{EntryKey, Outcome, TaskDone};
use rusqlite::params;

use super::found::Parent;
use super::{heartbeat, mailbox};
use crate::activity_sessions;
use crate::error::Failure;
use crate::queues;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn done(session: &Session<'_>, done: &TaskDone) -> Result<Outcome, Failure> {
    let task = done.task;
    let row = params![
        task.key.0,
        integer(task.execution.0),
        integer(task.scheduled.0),
        task.attempt,
        &*done.worker.0
    ];
    let removed: Option<(String, Option<String>, Option<i64>)> = session.query_optional(
        "DELETE FROM tasks WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3 AND attempt = ?4
         AND owner = ?5 RETURNING queue, session, place_key",
        row,
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let Some((queue, of_session, place)) = removed else {
        return Ok(Outcome::Fenced);
    };
    if let Some(of_session) = of_session {
        activity_sessions::used(session, &queue, &of_session)?;
    }
    if let Some(key) = place {
        queues::leave(session, EntryKey(key))?;
    }
    if matches!(done.result, AttemptResult::Completed(_)) {
        let activity = params![task.key.0, integer(task.execution.0), integer(task.scheduled.0)];
        session.execute(heartbeat::FORGET, activity)?;
    }
    let waiting = Parent {
        key: task.key,
        execution: task.execution,
        event: task.scheduled,
    };
    let settlement = Settlement::Attempted {
        attempt: task.attempt,
        result: done.result.clone(),
    };
    let mut receivers = Vec::new();
    mailbox::settle(session, &waiting, settlement, done.time_ms, &mut receivers)?;
    Ok(Outcome::TaskDone {
        receivers,
        freed: place.is_some(),
    })
}
