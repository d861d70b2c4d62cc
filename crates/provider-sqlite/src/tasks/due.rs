//! The tasks that wait, in the order in which they are taken.

use std::cmp::Reverse;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, Queues, TaskName, TaskRequest};
use rusqlite::{Connection, Row, params};

use crate::error::Failure;
use crate::rows::{integer, number};
use crate::session::Session;

/// A task that can be taken, in the order in which tasks are taken.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DueTask {
    priority: Reverse<i64>,
    pub(crate) due_at_ms: i64,
    pub(crate) task: TaskName,
}

/// Returns true if any task of a route waits.
pub(crate) fn any_of_route(connection: &Connection, route: &str) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_due WHERE owner IS NULL AND route = ?1)",
    )?;
    Ok(statement.query_row(params![route], |row| row.get(0))?)
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
    pub(crate) fn next_due(&self, session: &Session<'_>, after_ms: i64) -> Result<Option<i64>, Failure> {
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

pub(crate) fn task_name(row: &Row<'_>, column: usize) -> rusqlite::Result<TaskName> {
    Ok(TaskName {
        key: InstanceKey(row.get(column)?),
        execution: ExecutionId(number(row, column + 1)?),
        scheduled: EventId(number(row, column + 2)?),
        attempt: row.get(column + 3)?,
    })
}
