//! Counts of a store's contents. Counts come from indexes. Rows are read only of due and owned instances, which are few
//! where workers keep up.

use perdure_provider::{OVERDUE_MS, QueueDepth, StoreStats};
use rusqlite::{Connection, Params, params};

use crate::error::Failure;
use crate::rows::number;

const ENDED: &str = "SELECT count(*) FILTER (WHERE status = 'Completed'), count(*) FILTER (WHERE status = 'Failed'),
      count(*) FILTER (WHERE status = 'Cancelled'), count(*) FILTER (WHERE status = 'Terminated')
    FROM instances INDEXED BY instances_ended WHERE completed_at IS NOT NULL";

const OPEN: &str = "SELECT count(*) FROM instances INDEXED BY instances_open WHERE completed_at IS NULL";

const SUSPENDED: &str = "SELECT count(*) FROM instances INDEXED BY instances_unsuccessful
    WHERE status IN ('Suspended', 'Failed', 'Cancelled', 'Terminated') AND status = 'Suspended'";

/// An instance that never had a turn is due or has an owner.
const PENDING: &str = "SELECT
      (SELECT count(*) FROM instances INDEXED BY instances_due
       WHERE wake_at IS NOT NULL AND wake_at <= ?1 AND status = 'Pending')
    + (SELECT count(*) FROM instances INDEXED BY instances_owner WHERE owner IS NOT NULL AND status = 'Pending')";

const DUE: &str = "SELECT count(*), count(*) FILTER (WHERE wake_at < ?1 - ?2), ?1 - min(wake_at)
    FROM instances INDEXED BY instances_due WHERE wake_at IS NOT NULL AND wake_at <= ?1";

const QUEUES: &str = "SELECT queue, sum(waiting), sum(running) FROM (
    SELECT queue, count(*) AS waiting, 0 AS running FROM tasks INDEXED BY tasks_due WHERE owner IS NULL GROUP BY queue
    UNION ALL
    SELECT queue, 0, count(*) FROM tasks INDEXED BY tasks_owner WHERE owner IS NOT NULL GROUP BY queue
    ) GROUP BY queue";

const OTHERS: &str = "SELECT (SELECT count(*) FROM messages),
      (SELECT count(*) FROM workers WHERE lease_until > ?1)";

/// Returns the identity of the store.
pub(crate) fn store_id(connection: &Connection) -> Result<String, Failure> {
    Ok(connection.query_row("SELECT id FROM identity", [], |row| row.get(0))?)
}

pub(crate) fn of_store(connection: &Connection, now_ms: i64) -> Result<StoreStats, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let ended = counts(connection, ENDED, [])?;
    let [open] = counts(connection, OPEN, [])?;
    let [suspended] = counts(connection, SUSPENDED, [])?;
    let [pending] = counts(connection, PENDING, params![now_ms])?;
    let [messages, workers] = counts(connection, OTHERS, params![now_ms])?;
    let (due, overdue, oldest_due_ms) =
        connection
            .prepare_cached(DUE)?
            .query_row(params![now_ms, OVERDUE_MS], |row| {
                let oldest: Option<i64> = row.get(2)?;
                Ok((number(row, 0)?, number(row, 1)?, oldest.map(i64::unsigned_abs)))
            })?;
    let mut queues = Vec::new();
    let mut statement = connection.prepare_cached(QUEUES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        queues.push(QueueDepth {
            queue: row.get(0)?,
            waiting: number(row, 1)?,
            running: number(row, 2)?,
        });
    }
    drop(rows);
    moment.map(|transaction| transaction.finish()).transpose()?;
    let stats = StoreStats {
        instances: StoreStats::by_status(open, pending, suspended, ended),
        messages,
        workers,
        due,
        overdue,
        oldest_due_ms,
        ..StoreStats::default()
    };
    Ok(stats.with_queues(queues))
}

fn counts<const N: usize>(connection: &Connection, sql: &str, params: impl Params) -> Result<[u64; N], Failure> {
    Ok(connection.prepare_cached(sql)?.query_row(params, |row| {
        let mut counts = [0; N];
        for (column, count) in counts.iter_mut().enumerate() {
            *count = number(row, column)?;
        }
        Ok(counts)
    })?)
}
