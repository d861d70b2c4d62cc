//! Attempts that any worker may run (P12): they are offered and withdrawn with a turn.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{
    ATTEMPT_VERSION, EntryKey, InstanceKey, ROUTE_ANY, ROUTE_LINE, ROUTE_OPEN, TaskOffer, WorkerId,
};
use rusqlite::{Row, params};

use crate::error::Failure;
use crate::queues::{self, NewPlace};
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

pub(super) fn offer(
    session: &Session<'_>,
    key: InstanceKey,
    execution: ExecutionId,
    offer: &TaskOffer,
) -> Result<(), Failure> {
    let due_at_ms = offer.waits_from_ms(session.now_ms());
    let place = enter(session, offer, due_at_ms)?;
    let route = match offer.session {
        _ if place.is_some() => ROUTE_LINE,
        None => ROUTE_ANY,
        Some(_) => ROUTE_OPEN,
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
        start_within: offer.start_within_ms,
        start_by: offer.start_by_ms(session.now_ms()),
        session: offer.session,
        route: route,
        place_key: place.map(|entry| entry.0),
    })?;
    Ok(())
}

/// Gives an attempt a place in its queue, if the limits of that concern the attempt (P27).
fn enter(session: &Session<'_>, offer: &TaskOffer, due_at_ms: i64) -> Result<Option<EntryKey>, Failure> {
    let Some(key) = &offer.key else { return Ok(None) };
    if !queues::exists(session, &offer.queue)? {
        return Ok(None);
    }
    let entry = queues::next_attempt(session)?;
    let place = NewPlace {
        entry,
        queue: &offer.queue,
        key,
        name: &offer.name,
        version: ATTEMPT_VERSION,
        priority: offer.priority,
        due_at_ms,
    };
    place.enter(session, None)?;
    Ok(Some(entry))
}

/// Deletes a task. Returns the worker that runs it, if there is one.
pub(super) fn withdraw(
    session: &Session<'_>,
    key: InstanceKey,
    execution: ExecutionId,
    scheduled: EventId,
) -> Result<Option<WorkerId>, Failure> {
    let withdrawn = session.query_optional(
        "DELETE FROM tasks WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3 RETURNING owner, place_key",
        params![key.0, integer(execution.0), integer(scheduled.0)],
        Withdrawn::read,
    )?;
    withdrawn.map_or(Ok(None), |withdrawn| withdrawn.leave(session))
}

/// Deletes all tasks of an instance. Returns the workers that run them.
pub(super) fn withdraw_all(session: &Session<'_>, key: InstanceKey) -> Result<Vec<WorkerId>, Failure> {
    let all = session.query_all(
        "DELETE FROM tasks WHERE instance_key = ?1 RETURNING owner, place_key",
        params![key.0],
        Withdrawn::read,
    )?;
    let mut workers = Vec::new();
    for withdrawn in all {
        workers.extend(withdrawn.leave(session)?);
    }
    Ok(workers)
}

/// A task that was deleted.
struct Withdrawn {
    owner: Option<String>,
    place_key: Option<i64>,
}

impl Withdrawn {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            owner: row.get(0)?,
            place_key: row.get(1)?,
        })
    }

    /// Deletes the place of the task. Returns the worker that runs it, if there is one.
    fn leave(self, session: &Session<'_>) -> Result<Option<WorkerId>, Failure> {
        if let Some(key) = self.place_key {
            queues::leave(session, EntryKey(key))?;
        }
        Ok(self.owner.map(|owner| WorkerId(owner.into())))
    }
}
