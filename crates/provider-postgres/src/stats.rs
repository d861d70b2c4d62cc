//! Counts of a store, all of one moment. They come from indexes, as far as the server knows their pages to be visible
//! to all. Rows are read only of instances that are due or owned, which are few where workers keep up.

use perdure_provider::{OVERDUE_MS, QueueDepth, StoreStats};

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{number, text};
use crate::statement::named;
use crate::text::decode;

/// An instance that never had a turn is due or has an owner.
const COUNTS: &str = "WITH clock AS MATERIALIZED (
  SELECT coalesce($now, {now}) AS now
), ended AS MATERIALIZED (
  SELECT status, count(*) AS count FROM {schema}.instances WHERE completed_at IS NOT NULL GROUP BY status
), due AS MATERIALIZED (
  SELECT count(*) AS count, count(*) FILTER (WHERE i.wake_at < clock.now - $overdue) AS overdue,
  max(clock.now - i.wake_at) AS oldest,
    count(*) FILTER (WHERE i.status = 'Pending') AS pending
  FROM clock JOIN {schema}.instances i ON i.wake_at IS NOT NULL AND i.wake_at <= clock.now
), depths AS (
  SELECT queue, sum(waiting)::bigint AS waiting, sum(running)::bigint AS running FROM (
    SELECT queue, count(*) AS waiting, 0 AS running FROM {schema}.tasks WHERE owner IS NULL GROUP BY queue
    UNION ALL
    SELECT queue, 0, count(*) FROM {schema}.tasks WHERE owner IS NOT NULL GROUP BY queue) t
  GROUP BY queue
), queues AS MATERIALIZED (
  SELECT coalesce(array_agg(queue), '{}') AS names, coalesce(array_agg(waiting), '{}') AS waiting,
    coalesce(array_agg(running), '{}') AS running
  FROM depths
)
SELECT
  (SELECT count(*) FROM {schema}.instances WHERE completed_at IS NULL),
  (SELECT count(*) FROM {schema}.instances WHERE status = 'Suspended'),
  (SELECT count(*) FROM {schema}.instances WHERE owner IS NOT NULL AND status = 'Pending') + due.pending,
  coalesce((SELECT count FROM ended WHERE status = 'Completed'), 0),
  coalesce((SELECT count FROM ended WHERE status = 'Failed'), 0),
  coalesce((SELECT count FROM ended WHERE status = 'Cancelled'), 0),
  coalesce((SELECT count FROM ended WHERE status = 'Terminated'), 0),
  (SELECT count(*) FROM {schema}.messages),
  (SELECT count(*) FROM {schema}.workers WHERE lease_until > clock.now),
  due.count, due.overdue, due.oldest,
  queues.names, queues.waiting, queues.running
FROM clock, due, queues";

/// Returns the identity of the store.
pub(crate) async fn store_id(connection: &Connection) -> Result<String, Failure> {
    let row = connection.query_one("SELECT id FROM {schema}.identity", &[]).await?;
    text(&row, 0)
}

pub(crate) async fn of_store(connection: &Connection) -> Result<StoreStats, Failure> {
    let row = named!(
        connection.query_one,
        COUNTS,
        { now: P::MaybeInt(connection.from.clock_ms()), overdue: P::Int(OVERDUE_MS) }
    )
    .await?;
    let mut counts = [0; 11];
    for (column, count) in counts.iter_mut().enumerate() {
        *count = number(&row, column)?;
    }
    let [
        open,
        suspended,
        pending,
        completed,
        failed,
        cancelled,
        terminated,
        messages,
        workers,
        due,
        overdue,
    ] = counts;
    let oldest: Option<i64> = row.try_get(11)?;
    let names: Vec<String> = row.try_get(12)?;
    let (waiting, running): (Vec<i64>, Vec<i64>) = (row.try_get(13)?, row.try_get(14)?);
    let depth = |((queue, waiting), running): ((String, i64), i64)| QueueDepth {
        queue: decode(queue),
        waiting: waiting.unsigned_abs(),
        running: running.unsigned_abs(),
    };
    let queues = names.into_iter().zip(waiting).zip(running).map(depth).collect();
    let stats = StoreStats {
        instances: StoreStats::by_status(open, pending, suspended, [completed, failed, cancelled, terminated]),
        messages,
        workers,
        due,
        overdue,
        oldest_due_ms: oldest.map(i64::unsigned_abs),
        ..StoreStats::default()
    };
    Ok(stats.with_queues(queues))
}
