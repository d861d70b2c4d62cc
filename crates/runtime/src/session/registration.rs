//! The registration of a worker, and its release.

use std::sync::Arc;

use perdure_provider::{CommitOutcome, NewWorker, ProviderError, WorkerId};
use tokio::time::Instant;

use crate::error::RuntimeError;
use crate::log::Level;
use crate::platform::machine::new_worker_id;
use crate::session::description::WorkerDescription;
use crate::shared::Shared;

/// Registers a new worker. Returns its id and the time when the request was made. The store's lease begins no earlier
/// than that, and may begin long before the answer comes.
pub(crate) async fn register(shared: &Shared) -> Result<(WorkerId, Instant), RuntimeError> {
    let machine = &*shared.store.machine;
    let process = machine.process();
    let worker = new_worker_id(machine);
    let newest = shared.registry.lock().newest();
    let row = NewWorker {
        id: worker.clone(),
        name: shared.options.worker_name.clone(),
        host: process.host,
        pid: process.pid,
        process_start: process.start,
        lease_ms: lease_ms(shared),
        description: Some(WorkerDescription::of_runtime(shared).into_text()),
        newest: newest.clone(),
    };
    let asked = Instant::now();
    let requested = shared.clock.request_time();
    let now_ms = match shared.store.provider.register_worker(row).await {
        Ok(now_ms) => now_ms,
        Err(error) => {
            if error.outcome == CommitOutcome::Unknown {
                forget_registration(shared, worker);
            }
            return Err(error.into());
        }
    };
    shared.clock.synchronize(requested, now_ms);
    *shared.announced_versions.lock() = newest;
    Ok((worker, asked))
}

/// Registers a new worker after a `former` one that lost its lease without dying. What the former one owned is released
/// in good order, unless others have taken it over.
pub(crate) async fn register_again(shared: &Shared, former: &WorkerId) -> Result<(WorkerId, Instant), RuntimeError> {
    released(shared, former).await?;
    register(shared).await
}

/// Releases a worker that may be registered although this process does not use it. Until its lease ends, other workers
/// would take it for one that could run what they release.
fn forget_registration(shared: &Shared, worker: WorkerId) {
    let provider = Arc::clone(&shared.store.provider);
    // If the store refuses that, the row goes when its lease ends.
    shared
        .store
        .tokio
        .spawn(async move { provider.release_worker(&worker).await.map(drop) });
}

/// Releases a worker in the store. After an error, too, the release may have been carried out, and then what the worker
/// owned is due.
async fn released(shared: &Shared, worker: &WorkerId) -> Result<(), ProviderError> {
    let released = shared.store.provider.release_worker(worker).await;
    shared.store.work_was_released();
    released.map(drop)
}

/// Releases a worker: what it owns, and its row.
pub(crate) async fn release(shared: &Shared, worker: &WorkerId) {
    if let Err(error) = released(shared, worker).await {
        let message = format!("the instances of worker {worker} are taken over when its lease ends: {error}");
        shared.log(Level::Warn, message);
    }
}

pub(super) fn lease_ms(shared: &Shared) -> u64 {
    u64::try_from(shared.options.lease.as_millis()).unwrap_or(u64::MAX)
}
