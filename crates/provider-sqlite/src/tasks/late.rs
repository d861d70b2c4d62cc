//! Late attempts, which any request for tasks takes (P28).

use perdure_provider::{EntryKey, LATE_TASKS_MAX, Task, TaskName, WorkerId};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::queues;
use crate::rows::integer;
use crate::session::Session;

use super::due::task_name;

/// Returns the time at which the first task of all that wait is late.
pub(super) fn next(connection: &Connection) -> Result<Option<i64>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT min(start_by) FROM tasks INDEXED BY tasks_late WHERE owner IS NULL AND start_by IS NOT NULL",
    )?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Takes late tasks.
pub(super) fn take(session: &Session<'_>, worker: &WorkerId) -> Result<Vec<Task>, Failure> {
    let late: Vec<(TaskName, Option<i64>)> = session.query_all(
        "SELECT instance_key, execution, event_id, attempt, CASE WHEN route = '=' THEN place_key END
         FROM tasks INDEXED BY tasks_late WHERE owner IS NULL AND start_by IS NOT NULL AND start_by <= ?1
         ORDER BY start_by LIMIT ?2",
        params![session.now_ms(), integer(LATE_TASKS_MAX as u64)],
        |row| Ok((task_name(row, 0)?, row.get(4)?)),
    )?;
    let mut tasks = Vec::new();
    for (task, place) in late {
        leave(session, task, place)?;
        tasks.extend(super::take(session, worker, task)?);
    }
    Ok(tasks)
}

/// Takes a late task out of its session and of the line.
fn leave(session: &Session<'_>, task: TaskName, place: Option<i64>) -> Result<(), Failure> {
    if let Some(key) = place {
        queues::leave(session, EntryKey(key))?;
    }
    session.execute(
        "UPDATE tasks SET session = NULL, place_key = CASE WHEN route = '=' THEN NULL ELSE place_key END, route = ''
         WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3",
        params![task.key.0, integer(task.execution.0), integer(task.scheduled.0)],
    )?;
    Ok(())
}
