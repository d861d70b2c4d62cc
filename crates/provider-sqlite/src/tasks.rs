//! Attempts of activities that wait in queues. Workers take them, and a release of the worker returns them.

pub(crate) mod due;
mod late;

use perdure_provider::{
    AcquiredTasks, Outcome, ROUTE_ANY, ROUTE_LINE, ROUTE_OPEN, ReleaseTask, Task, TaskName, TaskRequest, WorkerId,
};
use rusqlite::{Connection, params};

use crate::activity_sessions::{self, Routed};
use crate::admission;
use crate::error::Failure;
use crate::registration::is_registered;
use crate::rows::integer;
use crate::session::Session;

use due::{DueTask, Sort, any_of_route, sorts, task_name};

/// Begins the statement that returns tasks of worker `?1` to their queues at time `?2`. A sum beyond an integer, which
/// another program may have caused, is the largest one.
macro_rules! give_back {
    () => {
        "UPDATE tasks SET owner = NULL, start_by = coalesce(
           min(CAST(max(due_at, ?2) + start_within AS INTEGER), deadline),
           CAST(max(due_at, ?2) + start_within AS INTEGER), deadline)
         WHERE owner = ?1"
    };
}

/// Returns the answer to a request that finds no task to take. `None`: it may find some.
pub(crate) fn nothing(
    connection: &Connection,
    request: &TaskRequest,
    now_ms: i64,
) -> Result<Option<AcquiredTasks>, Failure> {
    let next_late_ms = late::next(connection)?;
    if next_late_ms.is_some_and(|at_ms| at_ms <= now_ms) {
        return Ok(None);
    }
    if request.limit.rows > 0 {
        for route in [ROUTE_ANY, ROUTE_OPEN, ROUTE_LINE, &*request.worker.0] {
            if any_of_route(connection, route)? {
                return Ok(None);
            }
        }
    }
    Ok(Some(AcquiredTasks {
        next_due_ms: next_late_ms,
        ..AcquiredTasks::default()
    }))
}

pub(crate) fn acquire(session: &mut Session<'_>, request: &TaskRequest) -> Result<AcquiredTasks, Failure> {
    // A worker that was removed meanwhile gets nothing: no other worker would ever return its tasks.
    if !is_registered(session, &request.worker)? {
        return Ok(AcquiredTasks::default());
    }
    let late = late::take(session, &request.worker)?;
    let mut acquired = if request.limit.rows > 0 {
        acquire_due(session, request)?
    } else {
        AcquiredTasks::default()
    };
    acquired.tasks.splice(..0, late);
    if let Some(at_ms) = late::next(session.connection())? {
        acquired.look_again_at(at_ms);
    }
    Ok(acquired)
}

fn acquire_due(session: &mut Session<'_>, request: &TaskRequest) -> Result<AcquiredTasks, Failure> {
    let routed = activity_sessions::route(session, request)?;
    let mut acquired = AcquiredTasks {
        handed_on: routed.handed_on,
        ..AcquiredTasks::default()
    };
    let mut due = Vec::new();
    for route in [ROUTE_ANY, &*request.worker.0] {
        // Most workers hold no session.
        if !any_of_route(session.connection(), route)? {
            continue;
        }
        for (queue, name) in sorts(session, request, route)? {
            let sort = Sort::of(session, route, &queue, &name)?;
            let found = sort.collect(session, request.limit.rows)?;
            if found.len() <= request.limit.rows
                && let Some(at_ms) = sort.next_due(session, session.now_ms())?
            {
                acquired.look_again_at(at_ms);
            }
            due.extend(found);
        }
    }
    if let Some(at_ms) = next_open(session, request, &routed)? {
        acquired.look_again_at(at_ms);
    }
    due.sort_unstable();
    let (mut taken, mut bytes) = (0, 0);
    for DueTask { task, due_at_ms, .. } in due {
        if request.limit.is_reached(taken, bytes) {
            acquired.look_again_at(due_at_ms);
            continue;
        }
        taken += 1;
        if let Some(task) = take(session, &request.worker, task)? {
            bytes += task.given_bytes();
            acquired.tasks.push(task);
        }
    }
    if any_of_route(session.connection(), ROUTE_LINE)? {
        let queues = admission::find(session.connection(), request, session.now_ms())?;
        if let Some(at_ms) = queues.next_at_ms() {
            acquired.look_again_at(at_ms);
        }
        admission::admit(session, request, &queues, &mut acquired)?;
    }
    Ok(acquired)
}

/// Returns the time at which the worker can take a task whose route is open. A worker that holds as many sessions as it
/// may has to wait until one of them is idle.
fn next_open(session: &Session<'_>, request: &TaskRequest, routed: &Routed) -> Result<Option<i64>, Failure> {
    let mut next: Option<i64> = None;
    if !any_of_route(session.connection(), ROUTE_OPEN)? {
        return Ok(next);
    }
    for (queue, name) in sorts(session, request, ROUTE_OPEN)? {
        let first = Sort::of(session, ROUTE_OPEN, &queue, &name)?.next_due(session, i64::MIN)?;
        next = first.into_iter().chain(next).min();
    }
    if routed.is_full && next.is_some() {
        return activity_sessions::next_idle(session, &request.worker);
    }
    Ok(next)
}

/// Makes the worker the owner. Returns `None` if the data for the task cannot be read. The task then stays with the
/// worker, which does not run it, because it must not keep the other tasks from being taken. Its instance is suspended
/// when a worker loads the same rows for it.
pub(crate) fn take(session: &Session<'_>, worker: &WorkerId, task: TaskName) -> Result<Option<Task>, Failure> {
    let TaskName {
        key,
        execution,
        scheduled,
        ..
    } = task;
    let row = params![
        key.0,
        integer(execution.0),
        integer(scheduled.0),
        &*worker.0,
        session.now_ms()
    ];
    let (name, deadline_ms, start_by_ms, queue, of_session): (_, _, Option<i64>, String, Option<String>) = session
        .query_one(
            "UPDATE tasks SET owner = ?4, start_within = CASE WHEN start_by <= ?5 THEN 0 ELSE start_within END
         WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3 AND owner IS NULL
         RETURNING name, deadline, start_by, queue, session",
            row,
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
        )?;
    if let Some(of_session) = of_session {
        activity_sessions::used(session, &queue, &of_session)?;
    }
    let given = session.query_optional(
        "SELECT i.id, i.name, s.meta, h.payload, h.meta, b.details, i.version, i.tags
         FROM instances i JOIN history h ON h.instance_key = i.key
           JOIN history s ON s.instance_key = i.key AND s.execution = h.execution AND s.event_id = 1
           LEFT JOIN heartbeats b ON b.instance_key = i.key AND b.execution = h.execution AND b.event_id = h.event_id
         WHERE i.key = ?1 AND h.execution = ?2 AND h.event_id = ?3",
        params![key.0, integer(execution.0), integer(scheduled.0)],
        |row| {
            Ok(Task {
                task,
                instance_id: row.get(0)?,
                orchestration: row.get(1)?,
                version: row.get(6)?,
                tags: row.get(7)?,
                started: row.get(2)?,
                name,
                input: row.get(3)?,
                options: row.get(4)?,
                deadline_ms,
                start_by_ms,
                is_late: start_by_ms.is_some_and(|at_ms| at_ms <= session.now_ms()),
                last_heartbeat: row.get(5)?,
            })
        },
    );
    match given {
        Err(failure) if failure.is_undecodable() => Ok(None),
        given => given,
    }
}

/// Notes names of activities. Returns all names that were ever noted.
pub(crate) fn know(session: &Session<'_>, names: &[String]) -> Result<Vec<String>, Failure> {
    for name in names {
        session.execute(
            "INSERT INTO activities (name) VALUES (?1) ON CONFLICT (name) DO NOTHING",
            params![name],
        )?;
    }
    let mut statement = session
        .connection()
        .prepare_cached("SELECT name FROM activities ORDER BY name")?;
    let known = statement.query_map([], |row| row.get(0))?;
    Ok(known.collect::<rusqlite::Result<_>>()?)
}

/// Returns the tasks that a worker runs.
pub(crate) fn of_worker(connection: &Connection, worker: &WorkerId) -> Result<Vec<TaskName>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT instance_key, execution, event_id, attempt FROM tasks WHERE owner = ?1")?;
    let tasks = statement.query_map(params![&*worker.0], |row| task_name(row, 0))?;
    Ok(tasks.collect::<rusqlite::Result<_>>()?)
}

/// Returns a task of a worker to its queue.
pub(crate) fn release_one(
    session: &Session<'_>,
    ReleaseTask { worker, task }: &ReleaseTask,
) -> Result<Outcome, Failure> {
    let is_own = give_back(session, worker, task)?;
    Ok(if is_own { Outcome::Noted } else { Outcome::Fenced })
}

/// Returns a task of a worker to its queue, where it waits anew (P28). `false`: the worker does not have it.
pub(crate) fn give_back(session: &Session<'_>, worker: &WorkerId, task: &TaskName) -> Result<bool, Failure> {
    let given = session.execute(
        concat!(
            give_back!(),
            " AND instance_key = ?3 AND execution = ?4 AND event_id = ?5 AND attempt = ?6"
        ),
        params![
            &*worker.0,
            session.now_ms(),
            task.key.0,
            integer(task.execution.0),
            integer(task.scheduled.0),
            task.attempt,
        ],
    )?;
    Ok(given == 1)
}

/// Returns all tasks of a worker to their queues.
pub(crate) fn give_all_back(session: &Session<'_>, worker: &WorkerId) -> Result<(), Failure> {
    session.execute(give_back!(), params![&*worker.0, session.now_ms()])?;
    Ok(())
}
