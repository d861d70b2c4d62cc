//! Work that has been due for longer than a time.
//!
//! A look skips from one sort of work to the next along an index, and reads one row of each. It counts only the work
//! that it reports. So it takes little time in a store of many instances that sleep, or that other workers serve.

use std::collections::BTreeSet;

use perdure_provider::{
    OVERDUE_COUNT_MAX, OVERDUE_WALK_MAX, OverdueAttempts, OverdueInstances, OverdueRequest, OverdueWork,
};

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{number, text};
use crate::statement::named;

/// The overdue instances by name, version and priority. `sorts` has the longest due instance of each sort.
const INSTANCES: &str = "WITH RECURSIVE clock AS MATERIALIZED (SELECT coalesce($now, {now}) AS now), sorts AS (
  (SELECT name, version, priority, wake_at, id, 1 AS place FROM {schema}.instances WHERE wake_at IS NOT NULL
    ORDER BY name, version, priority, wake_at, key LIMIT 1)
  UNION ALL
  SELECT next.*, s.place + 1 FROM sorts s CROSS JOIN LATERAL (
    SELECT i.name, i.version, i.priority, i.wake_at, i.id FROM {schema}.instances i
    WHERE i.wake_at IS NOT NULL AND (i.name, i.version, i.priority) > (s.name, s.version, s.priority)
    ORDER BY i.name, i.version, i.priority, i.wake_at, i.key LIMIT 1
  ) next WHERE s.place < $walk
)
SELECT s.name, s.version, (
  SELECT count(*) FROM (SELECT FROM {schema}.instances i WHERE i.wake_at IS NOT NULL AND i.name = s.name
    AND i.version = s.version AND i.priority = s.priority AND i.wake_at < clock.now - $for LIMIT $count) counted
), clock.now - s.wake_at, s.id
FROM clock, sorts s WHERE s.wake_at < clock.now - $for AND NOT EXISTS (
  SELECT FROM unnest($names::text[], $versions::text[]) AS served (name, version)
  WHERE served.name = s.name AND served.version = s.version)";

/// The overdue attempts by route, queue and name. `sorts` has the longest due attempt, among those of the highest
/// priority, of each sort.
const ATTEMPTS: &str = "WITH RECURSIVE clock AS MATERIALIZED (SELECT coalesce($now, {now}) AS now), sorts AS (
  (SELECT route, queue, name, priority, due_at, instance_key, 1 AS place FROM {schema}.tasks WHERE owner IS NULL
    ORDER BY route, queue, name, priority DESC, due_at LIMIT 1)
  UNION ALL
  SELECT next.*, s.place + 1 FROM sorts s CROSS JOIN LATERAL (
    SELECT t.route, t.queue, t.name, t.priority, t.due_at, t.instance_key FROM {schema}.tasks t
    WHERE t.owner IS NULL AND (t.route, t.queue, t.name) > (s.route, s.queue, s.name)
    ORDER BY t.route, t.queue, t.name, t.priority DESC, t.due_at LIMIT 1
  ) next WHERE s.place < $walk
)
SELECT s.queue, s.name, (
  SELECT count(*) FROM (SELECT FROM {schema}.tasks t WHERE t.owner IS NULL AND t.route = s.route AND t.queue = s.queue
    AND t.name = s.name AND t.priority = s.priority AND t.due_at < clock.now - $for LIMIT $count) counted
), clock.now - s.due_at, coalesce((SELECT i.id FROM {schema}.instances i WHERE i.key = s.instance_key), '')
FROM clock, sorts s WHERE s.due_at < clock.now - $for AND NOT EXISTS (
  SELECT FROM unnest($queues::text[], $names::text[]) AS served (queue, name)
  WHERE served.queue = s.queue AND served.name = s.name)";

pub(crate) async fn of_store(connection: &Connection, request: &OverdueRequest) -> Result<OverdueWork, Failure> {
    let mut work = OverdueWork::default();
    let now = connection.from.clock_ms();
    let walk = i64::try_from(OVERDUE_WALK_MAX).expect("a small number");
    let most = i64::from(OVERDUE_COUNT_MAX);
    let (names, versions) = columns(&request.served_orchestrations);
    let rows = named!(connection.query, INSTANCES, {
        now: P::MaybeInt(now), walk: P::Int(walk), for: P::Int(request.for_ms), count: P::Int(most),
        names: P::Names(&names), versions: P::Names(&versions)
    })
    .await?;
    for row in &rows {
        work.add(OverdueInstances {
            name: text(row, 0)?,
            version: text(row, 1)?,
            instances: number(row, 2)?,
            oldest_ms: number(row, 3)?,
            id: text(row, 4)?,
        });
    }
    let (queues, names) = columns(&request.served_activities);
    let rows = named!(connection.query, ATTEMPTS, {
        now: P::MaybeInt(now), walk: P::Int(walk), for: P::Int(request.for_ms), count: P::Int(most),
        queues: P::Names(&queues), names: P::Names(&names)
    })
    .await?;
    for row in &rows {
        work.add_attempts(OverdueAttempts {
            queue: text(row, 0)?,
            name: text(row, 1)?,
            attempts: number(row, 2)?,
            oldest_ms: number(row, 3)?,
            id: text(row, 4)?,
        });
    }
    Ok(work.ordered())
}

/// Returns the two columns of a table of pairs.
fn columns(pairs: &BTreeSet<(String, String)>) -> (Vec<&str>, Vec<&str>) {
    pairs.iter().map(|(first, second)| (&**first, &**second)).unzip()
}
