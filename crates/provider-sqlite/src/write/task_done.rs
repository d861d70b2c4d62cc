//! Attempts that any worker may run. They are offered and withdrawn with a turn, and ended by the worker that ran them
//! (P12).

use perdure_engine::{AttemptResult, EventId, ExecutionId, Settlement};
use perdure_provider::{InstanceKey, Outcome, TaskDone, TaskOffer, WorkerId};
use rusqlite::params;

use super::cross_instance::{Parent, tell};
use super::heartbeat;
use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn offer(
    session: &Session<'_>,
    key: InstanceKey,
    execution: ExecutionId,
    offer: &TaskOffer,
) -> Result<(), Failure> {
    session.execute(
        "INSERT INTO tasks (instance_key, execution, event_id, attempt, queue, name, priority, due_at, deadline)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            key.0,
            integer(execution.0),
            integer(offer.scheduled.0),
            offer.attempt,
            offer.queue,
            offer.name,
            offer.priority,
            offer.due_at_ms,
            offer.deadline_ms,
        ],
    )?;
    Ok(())
}

/// Deletes a task. Returns the worker that runs it, if there is one.
pub(super) fn withdraw(
    session: &Session<'_>,
    key: InstanceKey,
    execution: ExecutionId,
    scheduled: EventId,
) -> Result<Option<WorkerId>, Failure> {
    let owner = session.query_optional(
        "DELETE FROM tasks WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3 RETURNING owner",
        params![key.0, integer(execution.0), integer(scheduled.0)],
        |row| row.get::<_, Option<String>>(0),
    )?;
    Ok(owner.flatten().map(|owner| WorkerId(owner.into())))
}

/// Deletes all tasks of an instance. Returns the workers that run them.
pub(super) fn withdraw_all(session: &Session<'_>, key: InstanceKey) -> Result<Vec<WorkerId>, Failure> {
    let owners = session.query_all(
        "DELETE FROM tasks WHERE instance_key = ?1 RETURNING owner",
        params![key.0],
        |row| row.get::<_, Option<String>>(0),
    )?;
    Ok(owners
        .into_iter()
        .flatten()
        .map(|owner| WorkerId(owner.into()))
        .collect())
}

pub(super) fn done(session: &Session<'_>, done: &TaskDone) -> Result<Outcome, Failure> {
    let task = done.task;
    let row = params![
        task.key.0,
        integer(task.execution.0),
        integer(task.scheduled.0),
        task.attempt,
        &*done.worker.0
    ];
    let removed = session.execute(
        "DELETE FROM tasks WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3 AND attempt = ?4 AND owner = ?5",
        row,
    )?;
    if removed == 0 {
        return Ok(Outcome::Fenced);
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
    tell(session, &waiting, settlement, done.time_ms, &mut receivers)?;
    Ok(Outcome::Told { receivers })
}
