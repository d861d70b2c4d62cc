//! Workers: the owners of instances. A worker that is gone is removed, and its instances are released.

use perdure_provider::{Epoch, InstanceKey, NewWorker, Newest, OwnedDigest, Renewal, Worker, WorkerId, WorkerLoad};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number, optional_text, text};
use crate::session::Session;
use crate::statement::named;
use crate::tasks::parts::give_back;
use crate::text::encode;
use crate::{activity_sessions, revocation};

/// Registers a worker. A second call with the same id is the same registration: the caller may not have got the first
/// answer.
pub(crate) async fn register(session: &Session<'_>, worker: &NewWorker) -> Result<i64, Failure> {
    let row = named!(
        session.query_one,
        "INSERT INTO {schema}.workers (id, name, host, pid, process_start, lease_until, description, newest_versions)
         VALUES ($id, $name, $host, $pid, $process_start, coalesce($now, {now}) + $lease, $description,
           $newest_versions)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, host = excluded.host, pid = excluded.pid,
           process_start = excluded.process_start, lease_until = excluded.lease_until,
           description = excluded.description,
           newest_versions = excluded.newest_versions
         RETURNING lease_until - $lease",
        {
            now: session.now(),
            id: P::Text(&worker.id.0),
            name: P::Text(&encode(&worker.name)),
            host: P::Text(&encode(&worker.host)),
            pid: P::Int(i64::from(worker.pid)),
            process_start: P::Text(&encode(&worker.process_start)),
            lease: P::Int(lease(worker.lease_ms)),
            description: P::MaybeText(worker.description.as_deref().map(encode).as_deref()),
            newest_versions: P::Text(&encode(&worker.newest.to_text())),
        }
    )
    .await?;
    Ok(row.try_get(0)?)
}

/// Limits a lease to a time that is longer than any lease, and short enough to be added to a time.
fn lease(lease_ms: u64) -> i64 {
    integer(lease_ms).min(i64::MAX / 4)
}

pub(crate) async fn renew(
    session: &Session<'_>,
    worker: &WorkerId,
    lease_ms: u64,
    description: Option<&str>,
) -> Result<Option<Renewal>, Failure> {
    let description = description.map(encode);
    let renewed = named!(
        session.query_optional,
        "WITH renewed AS (
           UPDATE {schema}.workers SET lease_until = coalesce($now, {now}) + $lease,
           description = coalesce($description, description)
           WHERE id = $id RETURNING lease_until - $lease AS now)
         SELECT r.now, o.instances, o.keys, (SELECT count(*) FROM {schema}.tasks WHERE owner = $id) FROM renewed r
         CROSS JOIN (
           SELECT count(*) AS instances, coalesce(sum(key & $key_bits), 0)::bigint AS keys FROM {schema}.instances
           WHERE owner = $id) o",
        {
            now: session.now(),
            id: P::Text(&worker.0),
            lease: P::Int(lease(lease_ms)),
            description: P::MaybeText(description.as_deref()),
            key_bits: P::Int(OwnedDigest::KEY_BITS),
        }
    )
    .await?;
    let told = |row: Row| {
        Ok(Renewal {
            now_ms: row.try_get(0)?,
            owned: OwnedDigest {
                instances: number(&row, 1)?,
                keys: number(&row, 2)?,
            },
            tasks: number(&row, 3)?,
        })
    };
    renewed.map(told).transpose()
}

/// Returns the instances that a worker owns, after a key, in the order of their keys.
pub(crate) async fn owned(
    connection: &Connection,
    worker: &WorkerId,
    after: InstanceKey,
    limit: usize,
) -> Result<Vec<(InstanceKey, Epoch)>, Failure> {
    let rows = named!(
        connection.query,
        "SELECT key, epoch FROM {schema}.instances WHERE owner = $owner AND key > $after ORDER BY key LIMIT $limit",
        { owner: P::Text(&worker.0), after: P::Int(after.0), limit: P::Int(integer(limit as u64)) }
    )
    .await?;
    let owned = |row: &Row| Ok((InstanceKey(row.try_get(0)?), Epoch(number(row, 1)?)));
    rows.iter().map(owned).collect()
}

/// Stores the orchestrations that the worker has from now on.
pub(crate) async fn announce_versions(
    session: &Session<'_>,
    worker: &WorkerId,
    newest: &Newest,
) -> Result<(), Failure> {
    let newest = newest.to_text();
    named!(
        session.query,
        "UPDATE {schema}.workers SET newest_versions = $newest WHERE id = $id",
        { id: P::Text(&worker.0), newest: P::Text(&encode(&newest)) }
    )
    .await?;
    Ok(())
}

/// Removes a worker. Its instances and tasks are due at once, for others (P7, P12).
///
/// The row of the worker is deleted first. A transaction in which the worker takes something has that row locked. So
/// all that was taken is found here, and nothing is taken later.
pub(crate) async fn release(session: &Session<'_>, worker: &WorkerId) -> Result<u64, Failure> {
    let worker = P::Text(&worker.0);
    session
        .query("DELETE FROM {schema}.workers WHERE id = $1", &[worker])
        .await?;
    let released = named!(
        session.query,
        "UPDATE {schema}.instances SET owner = NULL, wake_at = coalesce($now, {now})
         WHERE key IN (SELECT key FROM {schema}.instances WHERE owner = $owner ORDER BY key FOR NO KEY UPDATE)
         RETURNING 1",
        { now: session.now(), owner: worker }
    )
    .await?;
    named!(
        session.query,
        concat!(give_back!(), " WHERE owner = $owner"),
        { now: session.now(), owner: worker }
    )
    .await?;
    activity_sessions::unbind_all(session, worker).await?;
    revocation::forget_all(session, worker).await?;
    Ok(released.len() as u64)
}

/// Returns true if the lease of any worker has ended by the store's clock (P9).
pub(crate) async fn any_expired(connection: &Connection) -> Result<bool, Failure> {
    let now = P::MaybeInt(connection.from.clock_ms());
    let row = connection
        .query_one(
            "SELECT EXISTS (SELECT FROM {schema}.workers WHERE lease_until <= coalesce($1, {now}))",
            &[now],
        )
        .await?;
    Ok(row.try_get(0)?)
}

pub(crate) async fn all(connection: &Connection) -> Result<Vec<Worker>, Failure> {
    let rows = connection
        .query(
            "SELECT id, name, host, pid, process_start, lease_until FROM {schema}.workers ORDER BY id",
            &[],
        )
        .await?;
    rows.iter().map(worker).collect()
}

/// Like [`all`], with the load of each worker.
pub(crate) async fn loads(connection: &Connection) -> Result<Vec<WorkerLoad>, Failure> {
    let rows = connection
        .query(
            "SELECT w.id, w.name, w.host, w.pid, w.process_start, w.lease_until,
               (SELECT count(*) FROM {schema}.instances i WHERE i.owner = w.id),
               (SELECT count(*) FROM {schema}.tasks t WHERE t.owner = w.id), w.description
             FROM {schema}.workers w ORDER BY w.id",
            &[],
        )
        .await?;
    let load = |row: &Row| {
        Ok(WorkerLoad {
            worker: worker(row)?,
            instances: number(row, 6)?,
            tasks: number(row, 7)?,
            description: optional_text(row, 8)?,
        })
    };
    rows.iter().map(load).collect()
}

fn worker(row: &Row) -> Result<Worker, Failure> {
    Ok(Worker {
        id: WorkerId(row.try_get::<_, String>(0)?.into()),
        name: text(row, 1)?,
        host: text(row, 2)?,
        pid: u32::try_from(row.try_get::<_, i64>(3)?).map_err(|_| Failure::corrupt("the process id is invalid"))?,
        process_start: text(row, 4)?,
        lease_until_ms: row.try_get(5)?,
    })
}
