//! The takeovers that each instance lived through.

use perdure_engine::EventId;
use perdure_provider::{InstanceKey, TAKEOVERS_KEPT, Takeover, WorkerId};

use crate::tables::Tables;

/// Stores the takeover of a dead worker with each instance that it owned, or of which it ran an attempt.
pub(crate) fn note(tables: &mut Tables, worker: &WorkerId) {
    let Some(dead) = tables.workers.get(&worker.0) else {
        return;
    };
    let worker_name = dead.worker.name.clone();
    let owned = tables.owned_by(worker).into_iter().map(|key| (key, None));
    let ran = crate::tasks::of_worker(tables, worker);
    let ran = ran.into_iter().map(|task| (task.key, Some(task.scheduled)));
    let mut met: Vec<(InstanceKey, Option<EventId>)> = owned.chain(ran).collect();
    met.sort_unstable();
    for (key, activity) in met {
        let instance = tables.instance(key).expect("it is owned, or has a task");
        let takeover = Takeover {
            time_ms: tables.now_ms,
            execution: instance.execution,
            event: instance.next_event_id,
            activity,
            worker: worker.clone(),
            worker_name: worker_name.clone(),
        };
        let mut all = of(tables, key);
        all.push(takeover);
        let kept = all.split_off(all.len().saturating_sub(TAKEOVERS_KEPT));
        tables.takeovers.insert(key, kept);
    }
}

/// Returns the takeovers of an instance, in the order of their times.
pub(crate) fn of(tables: &Tables, key: InstanceKey) -> Vec<Takeover> {
    tables.takeovers.get(&key).cloned().unwrap_or_default()
}
