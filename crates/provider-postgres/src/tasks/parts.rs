//! Parts of statements about tasks, and the rows that they give.

use std::borrow::Cow;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, Task, TaskName};
use tokio_postgres::Row;

use crate::error::Failure;
use crate::rows::{number, optional_text, text};
use crate::text::encode;

/// The time at which an attempt is late that waits from a time on, or from its due time on (P28).
macro_rules! start_by {
    ($from:literal) => {
        concat!("least(greatest(due_at, ", $from, ") + start_within, deadline)")
    };
}
pub(crate) use start_by;

/// Begins a statement that returns tasks `t` to their queues, where they wait anew (P28).
macro_rules! give_back {
    () => {
        concat!(
            "UPDATE {schema}.tasks t SET owner = NULL, start_by = ",
            crate::tasks::parts::start_by!("coalesce($now, {now})")
        )
    };
}
pub(crate) use give_back;

/// The columns of a task `t` that is taken: an attempt that was taken late stays late (P28).
macro_rules! note_late {
    ($now:literal) => {
        concat!(
            "start_within = CASE WHEN t.start_by <= ",
            $now,
            " THEN 0 ELSE t.start_within END"
        )
    };
}
pub(crate) use note_late;

/// The routes of the statement in which tasks wait. Most workers hold no session.
macro_rules! routes {
    () => {
        "routes AS MATERIALIZED (
  SELECT r.route FROM unnest($routes::text[]) AS r (route)
  WHERE (SELECT true FROM {schema}.tasks t WHERE t.owner IS NULL AND t.route = r.route LIMIT 1)
)"
    };
}
pub(crate) use routes;

/// The sorts of tasks that wait: the routes, queues and names of the table `activities`, with the priorities in use. So
/// a worker finds what is due, and what is due next, among any number of tasks that are due later.
macro_rules! by_priority {
    () => {
        ", sorts AS (
  SELECT a.route, a.queue, a.name, (SELECT t.priority FROM {schema}.tasks t
    WHERE t.owner IS NULL AND t.route = a.route AND t.queue = a.queue AND t.name = a.name
    ORDER BY t.priority DESC LIMIT 1) AS priority FROM activities a
  UNION ALL
  SELECT s.route, s.queue, s.name, (SELECT t.priority FROM {schema}.tasks t
    WHERE t.owner IS NULL AND t.route = s.route AND t.queue = s.queue AND t.name = s.name AND t.priority < s.priority
    ORDER BY t.priority DESC LIMIT 1) FROM sorts s WHERE s.priority IS NOT NULL
)"
    };
}
pub(crate) use by_priority;

/// The sorts of the tasks that a worker takes.
macro_rules! named_sorts {
    () => {
        concat!(
            crate::tasks::parts::routes!(),
            ", activities AS MATERIALIZED (
  SELECT r.route, q.queue, n.name FROM routes r CROSS JOIN unnest($queues::text[]) AS q (queue)
  CROSS JOIN unnest($names::text[]) AS n (name)
)",
            crate::tasks::parts::by_priority!()
        )
    };
}
pub(crate) use named_sorts;

/// The same of a worker that serves any queue: the activities of which tasks wait. One seek of the index finds each.
macro_rules! any_sorts {
    () => {
        concat!(
            crate::tasks::parts::routes!(),
            ", waiting AS (
  SELECT r.route, f.queue, f.name FROM routes r CROSS JOIN LATERAL (
    SELECT t.queue, t.name FROM {schema}.tasks t WHERE t.owner IS NULL AND t.route = r.route
    ORDER BY t.queue, t.name LIMIT 1) f
  UNION ALL
  SELECT w.route, n.queue, n.name FROM waiting w CROSS JOIN LATERAL (
    SELECT t.queue, t.name FROM {schema}.tasks t
    WHERE t.owner IS NULL AND t.route = w.route AND (t.queue, t.name) > (w.queue, w.name)
    ORDER BY t.queue, t.name LIMIT 1) n
), activities AS MATERIALIZED (
  SELECT route, queue, name FROM waiting WHERE name = ANY ($names::text[])
)",
            crate::tasks::parts::by_priority!()
        )
    };
}
pub(crate) use any_sorts;

/// Measures what is given to an attempt. `$row` has the key, the execution and the event.
macro_rules! given_size {
    ($row:literal) => {
        concat!(
            "SELECT (coalesce(
      (SELECT coalesce(octet_length(h.payload), 0) + coalesce(octet_length(h.meta), 0) FROM {schema}.history h
        WHERE h.instance_key = ",
            $row,
            ".instance_key AND h.execution = ",
            $row,
            ".execution AND h.event_id = ",
            $row,
            ".event_id), 0)
      + coalesce((SELECT octet_length(b.details) FROM {schema}.heartbeats b
        WHERE b.instance_key = ",
            $row,
            ".instance_key AND b.execution = ",
            $row,
            ".execution
        AND b.event_id = ",
            $row,
            ".event_id), 0))::bigint AS size"
        )
    };
}
pub(crate) use given_size;

/// Selects the tasks in the table `taken`, as [`acquired`] reads them.
macro_rules! select_taken {
    () => {
        "SELECT t.instance_key, t.execution, t.event_id, t.attempt, i.id, i.name, t.name,
h.payload, h.meta, t.deadline, b.details, s.meta, i.version, i.tags, t.start_by, t.is_late
FROM taken t JOIN {schema}.instances i ON i.key = ANY (ARRAY[t.instance_key])
  JOIN {schema}.history h ON h.instance_key = ANY (ARRAY[t.instance_key]) AND h.execution = t.execution
    AND h.event_id = t.event_id
  JOIN {schema}.history s ON s.instance_key = ANY (ARRAY[t.instance_key]) AND s.execution = t.execution
    AND s.event_id = 1
  LEFT JOIN {schema}.heartbeats b ON b.instance_key = ANY (ARRAY[t.instance_key]) AND b.execution = t.execution
    AND b.event_id = t.event_id
ORDER BY t.place"
    };
}
pub(crate) use select_taken;

/// Reads tasks that were taken. A task that cannot be read stays with the worker, which does not run it: it must not
/// keep the others from being taken.
pub(crate) fn acquired(rows: &[Row]) -> Result<Vec<Task>, Failure> {
    rows.iter()
        .map(task)
        .filter(|task| !matches!(task, Err(failure) if failure.is_undecodable()))
        .collect()
}

fn task(row: &Row) -> Result<Task, Failure> {
    Ok(Task {
        task: task_name(row)?,
        instance_id: text(row, 4)?,
        orchestration: text(row, 5)?,
        version: text(row, 12)?,
        tags: optional_text(row, 13)?,
        started: optional_text(row, 11)?,
        name: text(row, 6)?,
        input: optional_text(row, 7)?,
        options: optional_text(row, 8)?,
        deadline_ms: row.try_get(9)?,
        start_by_ms: row.try_get(14)?,
        is_late: row.try_get(15)?,
        last_heartbeat: optional_text(row, 10)?,
    })
}

pub(super) fn task_name(row: &Row) -> Result<TaskName, Failure> {
    Ok(TaskName {
        key: InstanceKey(row.try_get(0)?),
        execution: ExecutionId(number(row, 1)?),
        scheduled: EventId(number(row, 2)?),
        attempt: u32::try_from(number(row, 3)?).map_err(|_| Failure::corrupt("the number of an attempt"))?,
    })
}

/// Returns names as texts of the store.
pub(crate) fn texts(names: &[String]) -> Vec<Cow<'_, str>> {
    names.iter().map(|name| encode(name)).collect()
}
