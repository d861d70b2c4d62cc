//! Counts of a store's contents.

use std::collections::BTreeMap;

use perdure_provider::{OVERDUE_MS, QueueDepth, Status, StoreStats};

use crate::tables::Tables;

pub(crate) fn of_store(tables: &Tables) -> StoreStats {
    let now_ms = tables.now_ms;
    let with = |status: Status| tables.instances().filter(|row| row.status == status).count() as u64;
    let mut queues: BTreeMap<&str, QueueDepth> = BTreeMap::new();
    for (_, row) in tables.tasks.iter() {
        let depth = queues.entry(&row.queue).or_insert_with(|| QueueDepth {
            queue: row.queue.clone(),
            waiting: 0,
            running: 0,
        });
        match row.worker {
            None => depth.waiting += 1,
            Some(_) => depth.running += 1,
        }
    }
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
    let stats = StoreStats {
        instances: Status::ALL.map(with),
        messages: tables.messages.len() as u64,
        workers: alive.count() as u64,
        due: due().count() as u64,
        overdue: due().filter(|at| *at < now_ms - OVERDUE_MS).count() as u64,
        oldest_due_ms: due().next().map(|at| now_ms.abs_diff(at)),
        ..StoreStats::default()
    };
    stats.with_queues(queues.into_values().collect())
}
