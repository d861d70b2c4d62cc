//! Attempts of activities that wait in queues. Workers take them, and a release of the worker returns them.

mod late;

use std::cmp::Reverse;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{
    AcquiredTasks, InstanceKey, Outcome, Queues, ROUTE_ANY, ROUTE_LINE, ROUTE_OPEN, ReleaseTask, Task, TaskName,
    TaskRequest, WorkerId,
};
use rusqlite::{Connection, Row, params};

use crate::activity_sessions::{self, Routed};
use crate::admission;
use crate::error::Failure;
use crate::rows::{integer, number};
use crate::session::Session;
use crate::worker;

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

/// A task that can be taken, in the order in which tasks are taken.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DueTask {
    priority: Reverse<i64>,
    due_at_ms: i64,
    pub(crate) task: TaskName,
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

/// Returns true if any task of a route waits.
pub(crate) fn any_of_route(connection: &Connection, route: &str) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_due WHERE owner IS NULL AND route = ?1)",
    )?;
    Ok(statement.query_row(params![route], |row| row.get(0))?)
}

pub(crate) fn acquire(session: &mut Session<'_>, request: &TaskRequest) -> Result<AcquiredTasks, Failure> {
    // A worker that was removed meanwhile gets nothing: no other worker would ever return its tasks.
    if !worker::is_registered(session, &request.worker)? {
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

/// Returns the queues and activities whose tasks the worker takes. If it serves any queue, these are the ones in which
/// tasks of a route wait: one seek of the index finds each.
pub(crate) fn sorts(
    session: &Session<'_>,
    request: &TaskRequest,
    route: &str,
) -> Result<Vec<(String, String)>, Failure> {
    let Queues::Named(queues) = &request.queues else {
        let mut sorts = Vec::new();
        let mut last = (String::new(), String::new());
        while let Some(sort) = next_sort(session, route, &last)? {
            last = sort;
            if request.names.contains(&last.1) {
                sorts.push(last.clone());
            }
        }
        return Ok(sorts);
    };
    let of_queue = |queue: &String| {
        request
            .names
            .iter()
            .map(|name| (queue.clone(), name.clone()))
            .collect::<Vec<_>>()
    };
    Ok(queues.iter().flat_map(of_queue).collect())
}

/// Returns the queue and the activity of waiting tasks that come after some others: the next activity of the queue, or
/// the first one of the next queue. A comparison of both columns at once would walk over all tasks of the activity.
fn next_sort(
    session: &Session<'_>,
    route: &str,
    (queue, name): &(String, String),
) -> Result<Option<(String, String)>, Failure> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let next = session.query_optional(
        "SELECT queue, name FROM tasks INDEXED BY tasks_due
         WHERE owner IS NULL AND route = ?1 AND queue = ?2 AND name > ?3 ORDER BY name LIMIT 1",
        params![route, queue, name],
        read,
    )?;
    if next.is_some() {
        return Ok(next);
    }
    session.query_optional(
        "SELECT queue, name FROM tasks INDEXED BY tasks_due
         WHERE owner IS NULL AND route = ?1 AND queue > ?2 ORDER BY queue, name LIMIT 1",
        params![route, queue],
        read,
    )
}

/// The tasks of a route that wait, of one activity in one queue.
pub(crate) struct Sort<'a> {
    route: &'a str,
    queue: &'a str,
    name: &'a str,
    /// The priorities in use, highest first. Each is one walk of the index from the longest due task on, so that many
    /// tasks that are due later cost nothing.
    priorities: Vec<i64>,
}

impl<'a> Sort<'a> {
    pub(crate) fn of(session: &Session<'_>, route: &'a str, queue: &'a str, name: &'a str) -> Result<Self, Failure> {
        let mut priorities = Vec::new();
        let mut below = i64::MAX;
        while let Some(priority) = session.query_optional(
            "SELECT priority FROM tasks INDEXED BY tasks_due
             WHERE route = ?1 AND queue = ?2 AND name = ?3 AND owner IS NULL AND priority < ?4
             ORDER BY priority DESC LIMIT 1",
            params![route, queue, name, below],
            |row| row.get(0),
        )? {
            priorities.push(priority);
            below = priority;
        }
        Ok(Self {
            route,
            queue,
            name,
            priorities,
        })
    }

    /// Returns the tasks that are due: at most `limit + 1`.
    pub(crate) fn collect(&self, session: &Session<'_>, limit: usize) -> Result<Vec<DueTask>, Failure> {
        let mut due = Vec::new();
        for &priority in &self.priorities {
            let left = integer((limit + 1 - due.len()) as u64);
            due.extend(session.query_all(
                "SELECT due_at, instance_key, execution, event_id, attempt FROM tasks INDEXED BY tasks_due
                 WHERE route = ?5 AND queue = ?1 AND name = ?2 AND owner IS NULL AND priority = ?6 AND due_at <= ?3
                 ORDER BY due_at LIMIT ?4",
                params![self.queue, self.name, session.now_ms(), left, self.route, priority],
                |row| {
                    Ok(DueTask {
                        priority: Reverse(priority),
                        due_at_ms: row.get(0)?,
                        task: task_name(row, 1)?,
                    })
                },
            )?);
            if due.len() > limit {
                break;
            }
        }
        Ok(due)
    }

    /// Returns the time at which the first task that is due after `after_ms` will be due.
    fn next_due(&self, session: &Session<'_>, after_ms: i64) -> Result<Option<i64>, Failure> {
        let mut next: Option<i64> = None;
        for priority in &self.priorities {
            let first: Option<i64> = session.query_optional(
                "SELECT due_at FROM tasks INDEXED BY tasks_due
                 WHERE route = ?4 AND queue = ?1 AND name = ?2 AND owner IS NULL AND priority = ?5 AND due_at > ?3
                 ORDER BY due_at LIMIT 1",
                params![self.queue, self.name, after_ms, self.route, priority],
                |row| row.get(0),
            )?;
            next = first.into_iter().chain(next).min();
        }
        Ok(next)
    }
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

pub(crate) fn task_name(row: &Row<'_>, column: usize) -> rusqlite::Result<TaskName> {
    Ok(TaskName {
        key: InstanceKey(row.get(column)?),
        execution: ExecutionId(number(row, column + 1)?),
        scheduled: EventId(number(row, column + 2)?),
        attempt: row.get(column + 3)?,
    })
}
