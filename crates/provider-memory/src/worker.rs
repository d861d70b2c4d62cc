//! Workers: their registration and leases, and the release of the instances of a worker that is gone.

use perdure_engine::{Bug, is_planted};
use perdure_provider::{Epoch, InstanceKey, NewWorker, Newest, Renewal, Worker, WorkerId, WorkerLoad};

use crate::rows::WorkerRow;
use crate::tables::Tables;
use crate::{activity_sessions, revocation, tasks};

/// Returns the end of a lease that starts now.
fn lease_until(tables: &Tables, lease_ms: u64) -> i64 {
    tables
        .now_ms
        .saturating_add(i64::try_from(lease_ms).unwrap_or(i64::MAX))
}

/// Registers a worker. A second call with the same id is the same registration, because the caller may not have
/// received the answer to the first.
pub(crate) fn register(tables: &mut Tables, worker: NewWorker) -> i64 {
    let lease_until_ms = lease_until(tables, worker.lease_ms);
    let NewWorker {
        id,
        name,
        host,
        pid,
        process_start,
        description,
        newest,
        ..
    } = worker;
    let worker = Worker {
        id: id.clone(),
        name,
        host,
        pid,
        process_start,
        lease_until_ms,
    };
    tables.workers.insert(
        id.0,
        WorkerRow {
            worker,
            description,
            newest,
        },
    );
    tables.now_ms
}

pub(crate) fn renew(
    tables: &mut Tables,
    worker: &WorkerId,
    lease_ms: u64,
    description: Option<&str>,
) -> Option<Renewal> {
    let until = lease_until(tables, lease_ms);
    tables.workers.edit(&worker.0, |row| {
        row.worker.lease_until_ms = until;
        if let Some(description) = description {
            row.description = Some(description.to_owned());
        }
    })?;
    Some(Renewal {
        now_ms: tables.now_ms,
        owned: tables.owned_by(worker).into_iter().collect(),
        tasks: tasks::of_worker(tables, worker).len() as u64,
    })
}

/// Returns the instances that a worker owns after a key, by key.
pub(crate) fn owned(tables: &Tables, worker: &WorkerId, after: InstanceKey, limit: usize) -> Vec<(InstanceKey, Epoch)> {
    let owned = tables.owned_by(worker).into_iter().filter(|key| *key > after);
    let rows = owned.filter_map(|key| tables.instance(key).map(|row| (key, row.epoch)));
    rows.take(limit).collect()
}

/// Replaces the orchestrations of a worker.
pub(crate) fn announce_versions(tables: &mut Tables, worker: &WorkerId, newest: Newest) {
    let _ = tables.workers.edit(&worker.0, |row| row.newest = newest);
}

/// Returns the orchestrations of the workers with a valid lease.
pub(crate) fn live_orchestrations(tables: &Tables) -> Vec<Newest> {
    let live = tables
        .workers
        .iter()
        .filter(|(_, row)| row.worker.lease_until_ms > tables.now_ms);
    live.map(|(_, row)| row.newest.clone()).collect()
}

/// Returns all workers, by id.
pub(crate) fn all(tables: &Tables) -> Vec<Worker> {
    tables.workers.iter().map(|(_, row)| row.worker.clone()).collect()
}

/// Returns the same workers as [`all`], each with its load.
pub(crate) fn loads(tables: &Tables) -> Vec<WorkerLoad> {
    let load = |WorkerRow {
                    worker, description, ..
                }: &WorkerRow| WorkerLoad {
        instances: tables.owned_by(&worker.id).len() as u64,
        tasks: tasks::of_worker(tables, &worker.id).len() as u64,
        description: description.clone(),
        worker: worker.clone(),
    };
    tables.workers.iter().map(|(_, row)| load(row)).collect()
}

/// Removes a worker. The instances that it owned and the tasks that it ran are due at once, for others (P7, P12).
pub(crate) fn release(tables: &mut Tables, worker: &WorkerId) -> u64 {
    tables.workers.remove(&worker.0);
    let now_ms = tables.now_ms;
    let owned = tables.owned_by(worker);
    for key in owned.iter().filter(|_| !is_planted(Bug::DeadWorkerKeepsInstances)) {
        tables.edit(*key, |row| row.disown(Some(now_ms)));
    }
    tasks::release(tables, worker, &[]);
    activity_sessions::unbind_all(tables, worker);
    revocation::forget_all(tables, worker);
    owned.len() as u64
}
