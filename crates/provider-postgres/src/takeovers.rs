//! The takeovers that each instance lived through.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, TAKEOVERS_KEPT, Takeover, WorkerId};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number, text};
use crate::session::Session;
use crate::statement::named;

/// The instances that a worker owns, and those of which it runs an attempt.
macro_rules! met {
    () => {
        "met AS MATERIALIZED (
  SELECT key, execution, next_event_id AS event_id, NULL::bigint AS activity FROM {schema}.instances
  WHERE owner = $owner
  UNION ALL
  SELECT i.key, i.execution, i.next_event_id, t.event_id FROM {schema}.tasks t
    JOIN {schema}.instances i ON i.key = t.instance_key WHERE t.owner = $owner
)"
    };
}

const NOTE: &str = concat!(
    "WITH ",
    met!(),
    "
INSERT INTO {schema}.takeovers (instance_key, time, execution, event_id, activity, worker, worker_name)
SELECT key, coalesce($now, {now}), execution, event_id, activity, $owner, $name FROM met
ORDER BY key, activity NULLS FIRST
RETURNING 1"
);

const TRIM: &str = concat!(
    "WITH ",
    met!(),
    "
DELETE FROM {schema}.takeovers WHERE id IN (SELECT id FROM (
  SELECT id, row_number() OVER (PARTITION BY instance_key ORDER BY id DESC) AS place FROM {schema}.takeovers
  WHERE instance_key IN (SELECT key FROM met)) placed
WHERE place > $kept)"
);

/// Stores the takeover of a dead worker with each instance that it owned, or of which it ran an attempt. `name` is the
/// name of the worker, as it is stored.
pub(crate) async fn note(session: &Session<'_>, worker: &WorkerId, name: &str) -> Result<(), Failure> {
    let owner = P::Text(&worker.0);
    let noted = named!(
        session.query,
        NOTE,
        { now: session.now(), owner: owner, name: P::Text(name) }
    )
    .await?;
    if !noted.is_empty() {
        let kept = P::Int(integer(TAKEOVERS_KEPT as u64));
        named!(session.query, TRIM, { owner: owner, kept: kept }).await?;
    }
    Ok(())
}

/// Returns the takeovers of an instance, in the order of their times.
pub(crate) async fn of(connection: &Connection, key: InstanceKey) -> Result<Vec<Takeover>, Failure> {
    let rows = connection
        .query(
            "SELECT time, execution, event_id, activity, worker, worker_name FROM {schema}.takeovers
             WHERE instance_key = $1 ORDER BY id",
            &[P::Int(key.0)],
        )
        .await?;
    rows.iter().map(takeover).collect()
}

fn takeover(row: &Row) -> Result<Takeover, Failure> {
    let activity: Option<i64> = row.try_get(3)?;
    Ok(Takeover {
        time_ms: row.try_get(0)?,
        execution: ExecutionId(number(row, 1)?),
        event: EventId(number(row, 2)?),
        activity: activity.map(|event| EventId(event.unsigned_abs())),
        worker: WorkerId(row.try_get::<_, String>(4)?.into()),
        worker_name: text(row, 5)?,
    })
}
