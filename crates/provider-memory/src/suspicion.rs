//! Suspicion against instances (P14): a worker died that owned them, or a turn of one held up its worker's thread.

use std::sync::Arc;

use perdure_provider::{InstanceKey, PoisonPill, ReleaseMost, ReleasedMost, Status, Suspicion, TakenOver, WorkerId};

use crate::tables::Tables;
use crate::{takeovers, tasks, worker};

/// Does the same as [`worker::release`] for a worker that has died. The instances that it owned come under suspicion
/// (P14).
pub(crate) fn take_over(tables: &mut Tables, worker: &WorkerId, report: &str) -> TakenOver {
    let was_registered = tables.is_registered(worker);
    takeovers::note(tables, worker);
    let poison_pills = release_of_dead(tables, worker, report);
    worker::release(tables, worker);
    TakenOver {
        workers: was_registered.then(|| worker.clone()).into_iter().collect(),
        poison_pills,
    }
}

/// Does the same as [`take_over`] for each worker whose lease has ended by the store's clock (P9).
pub(crate) fn take_over_expired(tables: &mut Tables, report: &str) -> TakenOver {
    let ended = tables
        .workers
        .iter()
        .filter(|(_, row)| row.worker.lease_until_ms <= tables.now_ms);
    let mut expired: Vec<(i64, Arc<str>)> = ended
        .map(|(id, row)| (row.worker.lease_until_ms, Arc::clone(id)))
        .collect();
    expired.sort_unstable();
    let mut all = TakenOver::default();
    for (_, id) in expired {
        let TakenOver { workers, poison_pills } = take_over(tables, &WorkerId(id), report);
        all.workers.extend(workers);
        all.poison_pills.extend(poison_pills);
    }
    all
}

/// Releases the instances of a dead worker, which fences off the former owner from all of them. Returns the instances
/// that are suspended by that.
pub(crate) fn release_of_dead(tables: &mut Tables, worker: &WorkerId, report: &str) -> Vec<PoisonPill> {
    let owned = tables.owned_by(worker).into_iter();
    owned
        .filter_map(|key| {
            let row = tables.instance(key).expect("it is owned");
            let suspicion = row.suspicion.after_death(row.probation);
            release(tables, key, suspicion, report)
        })
        .collect()
}

/// Clears the owner of an instance and sets its suspicion. Returns `None` if the instance is not suspended and is due
/// once it has rested.
fn release(tables: &mut Tables, key: InstanceKey, suspicion: Suspicion, report: &str) -> Option<PoisonPill> {
    let now_ms = tables.now_ms;
    tables.edit(key, |row| {
        row.suspicion = suspicion;
        if !suspicion.is_enough() {
            row.disown(Some(now_ms.saturating_add(suspicion.rest_ms())));
            return None;
        }
        row.disown(None);
        row.status = Status::Suspended;
        row.report = Some(report.to_owned());
        row.updated_at_ms = now_ms;
        Some(PoisonPill {
            id: row.id.clone(),
            name: row.name.clone(),
            version: row.version.clone(),
            execution: row.execution.0,
        })
    })
}

pub(crate) fn release_most(tables: &mut Tables, request: &ReleaseMost) -> ReleasedMost {
    let mut given = ReleasedMost::default();
    if let Some((key, epoch)) = request.stalled
        && let Some(row) = tables.instance(key)
        && row.is_owned(&request.worker, epoch)
    {
        let suspicion = row.suspicion.after_stall();
        given.poison_pill = release(tables, key, suspicion, &request.report);
        given.instances.push((key, epoch));
    }
    let now_ms = tables.now_ms;
    for key in tables.owned_by(&request.worker) {
        if request.kept.contains(&key) {
            continue;
        }
        let epoch = tables.edit(key, |row| {
            row.disown(Some(now_ms));
            row.epoch
        });
        given.instances.push((key, epoch));
    }
    tasks::release(tables, &request.worker, &request.kept_tasks);
    given
}
