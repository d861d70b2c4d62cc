//! The takeovers that each instance lived through.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, TAKEOVERS_KEPT, Takeover, WorkerId};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::rows::{integer, number};
use crate::session::Session;
use crate::worker::id;

/// Stores the takeover of a dead worker, still registered, with each instance that it owned, or of which it ran an
/// attempt.
pub(crate) fn note(session: &Session<'_>, worker: &WorkerId) -> Result<(), Failure> {
    let noted = session.execute(
        "INSERT INTO takeovers (instance_key, time, execution, event_id, activity, worker, worker_name)
         SELECT met.key, ?2, met.execution, met.event_id, met.activity, w.id, w.name FROM workers w, (
           SELECT key, execution, next_event_id AS event_id, NULL AS activity FROM instances WHERE owner = ?1
           UNION ALL
           SELECT i.key, i.execution, i.next_event_id, t.event_id
           FROM tasks t JOIN instances i ON i.key = t.instance_key WHERE t.owner = ?1) met
         WHERE w.id = ?1 ORDER BY met.key, met.activity",
        params![&*worker.0, session.now_ms()],
    )?;
    if noted > 0 {
        session.execute(
            "DELETE FROM takeovers WHERE rowid IN (SELECT rowid FROM (
               SELECT rowid, row_number() OVER (PARTITION BY instance_key ORDER BY rowid DESC) AS place FROM takeovers
               WHERE instance_key IN (
                 SELECT key FROM instances WHERE owner = ?1 UNION SELECT instance_key FROM tasks WHERE owner = ?1))
             WHERE place > ?2)",
            params![&*worker.0, integer(TAKEOVERS_KEPT as u64)],
        )?;
    }
    Ok(())
}

/// Returns the takeovers of an instance, in the order of their times.
pub(crate) fn of(connection: &Connection, key: InstanceKey) -> Result<Vec<Takeover>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT time, execution, event_id, activity, worker, worker_name FROM takeovers INDEXED BY takeovers_instance
         WHERE instance_key = ?1 ORDER BY rowid",
    )?;
    let takeovers = statement.query_map(params![key.0], |row| {
        let activity: Option<i64> = row.get(3)?;
        Ok(Takeover {
            time_ms: row.get(0)?,
            execution: ExecutionId(number(row, 1)?),
            event: EventId(number(row, 2)?),
            activity: activity.map(|event| EventId(event.unsigned_abs())),
            worker: id(row, 4)?,
            worker_name: row.get(5)?,
        })
    })?;
    Ok(takeovers.collect::<rusqlite::Result<_>>()?)
}
