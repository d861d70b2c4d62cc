//! Late attempts, which any request for tasks takes (P28).

use perdure_provider::{LATE_TASKS_MAX, Task, WorkerId};

use crate::error::Failure;
use crate::params::P;
use crate::queues::leave;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;
use crate::tasks::parts::{acquired, select_taken};

/// Takes late tasks, which leave their sessions and the line. The rows of the tasks are locked before those of their
/// places.
const TAKE: &str = concat!(
    "WITH w AS MATERIALIZED (
  SELECT id FROM {schema}.workers WHERE id = $owner FOR KEY SHARE
), gone AS MATERIALIZED (
  SELECT l.* FROM w CROSS JOIN LATERAL (
    SELECT t.instance_key, t.execution, t.event_id, t.start_by,
      CASE WHEN t.route = '=' THEN t.place_key END AS place_key
    FROM {schema}.tasks t
    WHERE t.owner IS NULL AND t.start_by IS NOT NULL AND t.start_by <= coalesce($now, {now})
    ORDER BY t.start_by LIMIT $limit FOR UPDATE SKIP LOCKED) l
), ",
    leave!(),
    ", taken AS (
  UPDATE {schema}.tasks t SET owner = $owner, start_within = 0, session = NULL, route = '',
    place_key = CASE WHEN t.route = '=' THEN NULL ELSE t.place_key END FROM gone g
  WHERE t.instance_key = ANY (ARRAY[g.instance_key]) AND t.execution = g.execution AND t.event_id = g.event_id
  RETURNING g.start_by AS place, t.instance_key, t.execution, t.event_id, t.attempt, t.name, t.deadline,
    t.start_by, true AS is_late
) ",
    select_taken!()
);

/// Takes late tasks.
pub(super) async fn take(session: &Session<'_>, worker: &WorkerId) -> Result<Vec<Task>, Failure> {
    let rows = named!(
        session.query,
        TAKE,
        { now: session.now(), owner: P::Text(&worker.0), limit: P::Int(integer(LATE_TASKS_MAX as u64)) }
    )
    .await?;
    acquired(&rows)
}

/// Returns the time at which the first task of all that wait is late.
pub(super) async fn next(session: &Session<'_>) -> Result<Option<i64>, Failure> {
    let next = session
        .query_optional(
            "SELECT start_by FROM {schema}.tasks WHERE owner IS NULL AND start_by IS NOT NULL
             ORDER BY start_by LIMIT 1",
            &[],
        )
        .await?;
    next.map_or(Ok(None), |row| Ok(row.try_get(0)?))
}
