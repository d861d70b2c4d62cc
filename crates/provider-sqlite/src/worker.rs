//! Workers: their registration and leases, and the release of the instances of a worker that is gone.

use std::sync::Arc;

use perdure_provider::{Epoch, InstanceKey, NewWorker, Newest, OwnedDigest, Renewal, Worker, WorkerId, WorkerLoad};
use rusqlite::{Connection, Row, params};

use crate::error::Failure;
use crate::rows::{integer, number};
use crate::session::Session;
use crate::statement::named;
use crate::{activity_sessions, revocation, tasks};

/// Returns the end of a lease that starts now.
fn lease_until(session: &Session<'_>, lease_ms: u64) -> i64 {
    session
        .now_ms()
        .saturating_add(i64::try_from(lease_ms).unwrap_or(i64::MAX))
}

/// Registers a worker. A second call with the same id is the same registration, because the caller may not have
/// received the answer to the first.
pub(crate) fn register(session: &mut Session<'_>, worker: &NewWorker) -> Result<i64, Failure> {
    named!(
        session.execute,
        "INSERT INTO workers ({columns}) VALUES ({values})
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, host = excluded.host, pid = excluded.pid,
           process_start = excluded.process_start, lease_until = excluded.lease_until,
           description = excluded.description,
           newest_versions = excluded.newest_versions",
        {
            id: &*worker.id.0,
            name: worker.name,
            host: worker.host,
            pid: worker.pid,
            process_start: worker.process_start,
            lease_until: lease_until(session, worker.lease_ms),
            description: worker.description,
            newest_versions: worker.newest.to_text(),
        }
    )?;
    Ok(session.now_ms())
}

pub(crate) fn renew(
    session: &mut Session<'_>,
    worker: &WorkerId,
    lease_ms: u64,
    description: Option<&str>,
) -> Result<Option<Renewal>, Failure> {
    let renewed = session.execute(
        "UPDATE workers SET lease_until = ?2, description = coalesce(?3, description) WHERE id = ?1",
        params![&*worker.0, lease_until(session, lease_ms), description],
    )?;
    if renewed == 0 {
        return Ok(None);
    }
    let owned = session.query_one(
        "SELECT count(*), coalesce(sum(key & ?2), 0) FROM instances INDEXED BY instances_owner WHERE owner = ?1",
        params![&*worker.0, OwnedDigest::KEY_BITS],
        |row| {
            Ok(OwnedDigest {
                instances: number(row, 0)?,
                keys: number(row, 1)?,
            })
        },
    )?;
    let tasks = session.query_one(
        "SELECT count(*) FROM tasks INDEXED BY tasks_owner WHERE owner = ?1",
        params![&*worker.0],
        |row| number(row, 0),
    )?;
    Ok(Some(Renewal {
        now_ms: session.now_ms(),
        owned,
        tasks,
    }))
}

/// Returns the instances that a worker owns after a key, by key.
pub(crate) fn owned(
    connection: &Connection,
    worker: &WorkerId,
    after: InstanceKey,
    limit: usize,
) -> Result<Vec<(InstanceKey, Epoch)>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT key, epoch FROM instances INDEXED BY instances_owner WHERE owner = ?1 AND key > ?2 ORDER BY key
         LIMIT ?3",
    )?;
    let owned = statement.query_map(params![&*worker.0, after.0, integer(limit as u64)], |row| {
        Ok((InstanceKey(row.get(0)?), Epoch(number(row, 1)?)))
    })?;
    Ok(owned.collect::<rusqlite::Result<_>>()?)
}

/// Replaces the orchestrations of a worker.
pub(crate) fn announce_versions(session: &mut Session<'_>, worker: &WorkerId, newest: &Newest) -> Result<(), Failure> {
    session.execute(
        "UPDATE workers SET newest_versions = ?2 WHERE id = ?1",
        params![&*worker.0, newest.to_text()],
    )?;
    Ok(())
}

/// Removes a worker. The instances that it owned and the tasks that it ran are due at once, for others (P7, P12).
pub(crate) fn release(session: &mut Session<'_>, worker: &WorkerId) -> Result<u64, Failure> {
    session.execute("DELETE FROM workers WHERE id = ?1", params![&*worker.0])?;
    let released = session.execute(
        "UPDATE instances SET owner = NULL, wake_at = ?2 WHERE owner = ?1",
        params![&*worker.0, session.now_ms()],
    )?;
    tasks::give_all_back(session, worker)?;
    activity_sessions::unbind_all(session, worker)?;
    revocation::forget_all(session, worker)?;
    Ok(released as u64)
}

pub(crate) fn all(connection: &Connection) -> Result<Vec<Worker>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT id, name, host, pid, process_start, lease_until FROM workers ORDER BY id")?;
    let workers = statement.query_map([], |row| {
        Ok(Worker {
            id: id(row, 0)?,
            name: row.get(1)?,
            host: row.get(2)?,
            pid: row.get(3)?,
            process_start: row.get(4)?,
            lease_until_ms: row.get(5)?,
        })
    })?;
    Ok(workers.collect::<rusqlite::Result<_>>()?)
}

/// Returns the same workers as [`all`], each with its load.
pub(crate) fn loads(connection: &Connection) -> Result<Vec<WorkerLoad>, Failure> {
    let count = |sql: &str, worker: &Worker| -> Result<u64, Failure> {
        let mut statement = connection.prepare_cached(sql)?;
        Ok(statement.query_row(params![&*worker.id.0], |row| number(row, 0))?)
    };
    let description = |worker: &Worker| -> Result<Option<String>, Failure> {
        let mut statement = connection.prepare_cached("SELECT description FROM workers WHERE id = ?1")?;
        Ok(statement.query_row(params![&*worker.id.0], |row| row.get(0))?)
    };
    let load = |worker: Worker| {
        Ok(WorkerLoad {
            instances: count(
                "SELECT count(*) FROM instances INDEXED BY instances_owner WHERE owner = ?1",
                &worker,
            )?,
            tasks: count(
                "SELECT count(*) FROM tasks INDEXED BY tasks_owner WHERE owner = ?1",
                &worker,
            )?,
            description: description(&worker)?,
            worker,
        })
    };
    all(connection)?.into_iter().map(load).collect()
}

pub(crate) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<WorkerId> {
    Ok(WorkerId(Arc::from(row.get_ref(column)?.as_str()?)))
}
