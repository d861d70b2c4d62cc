//! Sessions of activities (P18): which worker holds which session, and the routes of their tasks.
//!
//! A task of a session is offered with an open route. A request for tasks routes it: to the worker that holds the
//! session, or, if no worker does, to the worker that asks, which then holds the session.

use std::collections::BTreeSet;

use perdure_provider::{
    ROUTE_LINE, ROUTE_OPEN, ROUTED_SESSIONS_MAX, ROUTED_TASKS_MAX, SessionLimits, TaskName, TaskRequest, WorkerId,
};
use rusqlite::params;

use crate::error::Failure;
use crate::rows::{integer, number};
use crate::session::Session;
use crate::tasks::due::{DueTask, Sort, any_of_route, sorts};

/// The result of routing.
#[derive(Default)]
pub(crate) struct Routed {
    /// True if tasks went to other workers.
    pub(crate) handed_on: bool,
    /// True if the worker can bind no further session now.
    pub(crate) is_full: bool,
}

/// Routes the due tasks whose routes are open and that the request may take or hand on.
pub(crate) fn route(session: &Session<'_>, request: &TaskRequest) -> Result<Routed, Failure> {
    let mut routed = Routed::default();
    if !any_of_route(session.connection(), ROUTE_OPEN)? {
        return Ok(routed);
    }
    unbind_idle(session, &request.worker)?;
    route_to_holder(session, &request.worker)?;
    let SessionLimits { max, .. } = request.sessions;
    let held = held(session, &request.worker)?;
    // A session that has to wait for a slot here may find one at another worker.
    let mut room = max
        .saturating_sub(held)
        .min(request.limit.rows)
        .min(ROUTED_SESSIONS_MAX);
    routed.is_full = held >= max;
    if room == 0 {
        return Ok(routed);
    }
    let mut due: Vec<DueTask> = Vec::new();
    for (queue, name) in sorts(session, request, ROUTE_OPEN)? {
        due.extend(Sort::of(session, ROUTE_OPEN, &queue, &name)?.collect(session, ROUTED_SESSIONS_MAX)?);
    }
    due.sort_unstable();
    let mut seen = BTreeSet::new();
    for DueTask { task, .. } in due {
        let Some((queue, name)) = session_of(session, task)? else {
            continue;
        };
        if seen.len() == ROUTED_SESSIONS_MAX || !seen.insert((queue.clone(), name.clone())) {
            continue;
        }
        let holder = holder(session, &queue, &name)?;
        match holder {
            Some(holder) => {
                used(session, &queue, &name)?;
                route_all(session, &queue, &name, &holder)?;
                routed.handed_on |= holder != *request.worker.0;
            }
            None if room > 0 => {
                bind(session, &queue, &name, request)?;
                route_all(session, &queue, &name, &request.worker.0)?;
                room -= 1;
            }
            None => {}
        }
    }
    routed.is_full = self::held(session, &request.worker)? >= max;
    Ok(routed)
}

/// Returns the session of a task, with its queue.
fn session_of(session: &Session<'_>, task: TaskName) -> Result<Option<(String, String)>, Failure> {
    session.query_optional(
        "SELECT queue, session FROM tasks
         WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3 AND session IS NOT NULL",
        params![task.key.0, integer(task.execution.0), integer(task.scheduled.0)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Returns the worker that holds a session which has a waiting task. A session is unbound if all its tasks came after
/// its idle time.
fn holder(session: &Session<'_>, queue: &str, name: &str) -> Result<Option<String>, Failure> {
    session.query_optional(
        "SELECT s.worker FROM sessions s JOIN workers w ON w.id = s.worker WHERE s.queue = ?1 AND s.session = ?2
         AND (s.used_at + s.idle_ms >= (SELECT min(due_at) FROM tasks INDEXED BY tasks_session
             WHERE session IS NOT NULL AND queue = ?1 AND session = ?2 AND route = ?3)
           OR EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_session
             WHERE session IS NOT NULL AND queue = ?1 AND session = ?2 AND route NOT IN (?3, ?4)))",
        params![queue, name, ROUTE_OPEN, ROUTE_LINE],
        |row| row.get(0),
    )
}

fn bind(session: &Session<'_>, queue: &str, name: &str, request: &TaskRequest) -> Result<(), Failure> {
    session.execute(
        "INSERT INTO sessions (queue, session, worker, idle_ms, used_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (queue, session) DO UPDATE SET worker = excluded.worker, idle_ms = excluded.idle_ms,
           used_at = excluded.used_at",
        params![
            queue,
            name,
            &*request.worker.0,
            request.sessions.idle_ms,
            session.now_ms()
        ],
    )?;
    Ok(())
}

/// Routes tasks of a session whose routes are open to a worker.
fn route_all(session: &Session<'_>, queue: &str, name: &str, worker: &str) -> Result<(), Failure> {
    session.execute(
        "UPDATE tasks SET route = ?3 WHERE (instance_key, execution, event_id) IN (
           SELECT instance_key, execution, event_id FROM tasks INDEXED BY tasks_session
           WHERE session IS NOT NULL AND queue = ?1 AND session = ?2 AND route = ?4 AND owner IS NULL LIMIT ?5)",
        params![queue, name, worker, ROUTE_OPEN, integer(ROUTED_TASKS_MAX as u64)],
    )?;
    Ok(())
}

/// Routes the tasks of the sessions that a worker holds to this worker, also those that are not due yet.
fn route_to_holder(session: &Session<'_>, worker: &WorkerId) -> Result<(), Failure> {
    let open: Vec<(String, String)> = session.query_all(
        "SELECT s.queue, s.session FROM sessions s INDEXED BY sessions_worker WHERE s.worker = ?1 AND EXISTS (
           SELECT 1 FROM tasks t INDEXED BY tasks_session
           WHERE t.session IS NOT NULL AND t.queue = s.queue AND t.session = s.session AND t.route = ?2)",
        params![&*worker.0, ROUTE_OPEN],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    for (queue, name) in open {
        used(session, &queue, &name)?;
        route_all(session, &queue, &name, &worker.0)?;
    }
    Ok(())
}

fn held(session: &Session<'_>, worker: &WorkerId) -> Result<usize, Failure> {
    let held = session.query_one(
        "SELECT count(*) FROM sessions INDEXED BY sessions_worker WHERE worker = ?1",
        params![&*worker.0],
        |row| number(row, 0),
    )?;
    Ok(usize::try_from(held).unwrap_or(usize::MAX))
}

/// Unbinds the sessions of a worker that had no task for their idle time.
fn unbind_idle(session: &Session<'_>, worker: &WorkerId) -> Result<(), Failure> {
    session.execute(
        "DELETE FROM sessions AS s INDEXED BY sessions_worker WHERE worker = ?1 AND used_at + idle_ms < ?2
         AND NOT EXISTS (SELECT 1 FROM tasks t INDEXED BY tasks_session
           WHERE t.session IS NOT NULL AND t.queue = s.queue AND t.session = s.session AND t.route <> ?3)",
        params![&*worker.0, session.now_ms(), ROUTE_LINE],
    )?;
    Ok(())
}

/// Returns the time at which a worker that holds as many sessions as it may can bind another one at the earliest:
/// `None` if it holds none. A session with tasks is idle no sooner than its idle time after they are done.
pub(crate) fn next_idle(session: &Session<'_>, worker: &WorkerId) -> Result<Option<i64>, Failure> {
    session.query_one(
        "SELECT min(CASE WHEN EXISTS (SELECT 1 FROM tasks t INDEXED BY tasks_session
             WHERE t.session IS NOT NULL AND t.queue = s.queue AND t.session = s.session AND t.route <> ?3)
           THEN max(s.used_at, ?2) ELSE s.used_at END + s.idle_ms + 1)
         FROM sessions s INDEXED BY sessions_worker WHERE s.worker = ?1",
        params![&*worker.0, session.now_ms(), ROUTE_LINE],
        |row| row.get(0),
    )
}

/// Notes that a session is used now.
pub(crate) fn used(session: &Session<'_>, queue: &str, name: &str) -> Result<(), Failure> {
    session.execute(
        "UPDATE sessions SET used_at = ?3 WHERE queue = ?1 AND session = ?2",
        params![queue, name, session.now_ms()],
    )?;
    Ok(())
}

/// Unbinds the sessions of a worker that is removed, and opens the routes of their tasks, which the worker no longer
/// runs.
pub(crate) fn unbind_all(session: &Session<'_>, worker: &WorkerId) -> Result<(), Failure> {
    session.execute("DELETE FROM sessions WHERE worker = ?1", params![&*worker.0])?;
    session.execute(
        "UPDATE tasks SET route = ?2 WHERE owner IS NULL AND route = ?1",
        params![&*worker.0, ROUTE_OPEN],
    )?;
    Ok(())
}
