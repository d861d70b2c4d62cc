//! Attempts that any worker may run (P12): they are offered and withdrawn with a turn.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, ROUTE_ANY, ROUTE_OPEN, TaskOffer, WorkerId};
use rusqlite::params;

use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

pub(super) fn offer(
    session: &Session<'_>,
    key: InstanceKey,
    execution: ExecutionId,
    offer: &TaskOffer,
) -> Result<(), Failure> {
    // A wait for the worker of the session counts from now on.
    let (route, due_at_ms) = match offer.session {
        None => (ROUTE_ANY, offer.due_at_ms),
        Some(_) => (ROUTE_OPEN, offer.due_at_ms.max(session.now_ms())),
    };
    named!(session.execute, "INSERT INTO tasks ({columns}) VALUES ({values})", {
        instance_key: key.0,
        execution: integer(execution.0),
        event_id: integer(offer.scheduled.0),
        attempt: offer.attempt,
        queue: offer.queue,
        name: offer.name,
        priority: offer.priority,
        due_at: due_at_ms,
        deadline: offer.deadline_ms,
        session: offer.session,
        route: route,
    })?;
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
