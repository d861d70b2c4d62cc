//! Counts of a store's contents.

use perdure_provider::{OVERDUE_MS, Status, StoreStats};

use crate::tables::Tables;

pub(crate) fn of_store(tables: &Tables) -> StoreStats {
    let now_ms = tables.now_ms;
    let with = |status: Status| tables.instances().filter(|row| row.status == status).count() as u64;
    let run = (tables.tasks.iter()).filter(|(_, row)| row.worker.is_some()).count();
    let alive = tables
        .workers
        .iter()
        .filter(|(_, row)| row.worker.lease_until_ms > now_ms);
    let due = || {
        tables
            .indexes
            .due
            .iter()
            .map(|((at, _), ())| *at)
            .take_while(|at| *at <= now_ms)
    };
    StoreStats {
        instances: Status::ALL.map(with),
        messages: tables.messages.len() as u64,
        tasks_waiting: (tables.tasks.len() - run) as u64,
        tasks_running: run as u64,
        workers: alive.count() as u64,
        due: due().count() as u64,
        overdue: due().filter(|at| *at < now_ms - OVERDUE_MS).count() as u64,
        oldest_due_ms: due().next().map(|at| now_ms.abs_diff(at)),
    }
}
