//! Counts of a store, all of one moment. They come from indexes, as far as the server knows their pages to be visible
//! to all. Rows are read only of instances that are due or owned, which are few where workers keep up.

use perdure_provider::{OVERDUE_MS, StoreStats};

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::number;
use crate::statement::named;

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
  (SELECT count(*) FROM {schema}.tasks WHERE owner IS NULL),
  (SELECT count(*) FROM {schema}.tasks WHERE owner IS NOT NULL),
  (SELECT count(*) FROM {schema}.workers WHERE lease_until > clock.now),
  due.count, due.overdue, due.oldest
FROM clock, due";

pub(crate) async fn of_store(connection: &Connection) -> Result<StoreStats, Failure> {
    let row = named!(
        connection.query_one,
        COUNTS,
        { now: P::MaybeInt(connection.from.clock_ms()), overdue: P::Int(OVERDUE_MS) }
    )
    .await?;
    let mut counts = [0; 13];
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
        waiting,
        running,
        workers,
        due,
        overdue,
    ] = counts;
    let oldest: Option<i64> = row.try_get(13)?;
    Ok(StoreStats {
        instances: StoreStats::by_status(open, pending, suspended, [completed, failed, cancelled, terminated]),
        messages,
        tasks_waiting: waiting,
        tasks_running: running,
        workers,
        due,
        overdue,
        oldest_due_ms: oldest.map(i64::unsigned_abs),
    })
}
