//! Loss of a lane's thread, which may end in the middle of any work. Nothing else notices the loss.
//!
//! Instances whose generators the thread had are released, as if a worker that owned them had died, and the first
//! worker that asks takes them again. Activities that the thread ran for other instances are run again. The instance
//! that the thread was in the middle of is the first suspect for its end: the instance of a turn, of the call of an
//! activity, or of the only activity that the thread had begun. That is evidence (P14), so that code that takes down
//! each thread it runs on does not do that for ever.

use std::sync::Arc;

use perdure_provider::{InstanceKey, ReleaseMost};
use perdure_scheduler::LaneId;

use crate::instance::instances::Instances;
use crate::lane::pulse::CurrentWork;
use crate::log::Level;
use crate::poison::release::Request;
use crate::report::Report;
use crate::state::attempt::{AbortReason, Origin};
use crate::state::{Instance, NO_KEY};
use crate::worker::owned::{Owned, Releasing};

/// Gives up what the thread of a lane had. The thread is gone.
pub(crate) fn give_up_lane(instances: &Arc<Instances>, lane: LaneId) {
    let suspect = suspect(instances, lane);
    instances.drop_starts_of(lane);
    let pinned = |instance: &&Arc<Instance>| instance.lane() == Some(lane);
    let mut lost: Vec<Arc<Instance>> = instances.table.lock().all().filter(pinned).cloned().collect();
    // The order is not that of the keys, which stores give out as they like.
    lost.sort_unstable_by_key(|instance| instance.token);
    for instance in lost {
        if suspect.as_ref().is_some_and(|suspect| suspect.token == instance.token) {
            continue;
        }
        // The locks are taken one after the other: together they would be taken in the wrong order.
        let (epoch, is_waking) = {
            let core = instance.lock();
            (core.epoch, core.is_waking)
        };
        let is_owned = !is_waking && instances.table.lock().owns(&instance);
        instances.forget(&instance, AbortReason::LeaseLost);
        if is_owned {
            instances.worker.release_instance(instance.key(), epoch);
        }
    }
    if let Some(suspect) = suspect {
        let epoch = suspect.lock().epoch;
        let releasing = instances.worker.releasing(Owned::Instance(suspect.key(), epoch));
        instances.forget(&suspect, AbortReason::LeaseLost);
        let this = Arc::clone(instances);
        instances
            .worker
            .spawn(async move { release_suspect(&this, &suspect, releasing).await });
    }
    {
        // Attempts that the thread was given are given to another thread.
        let mut attempts = instances.activities.attempts.lock();
        for token in attempts.take_from(lane) {
            instances.activities.hand_out(&attempts, token);
        }
    }
    instances.worker.draining.tell();
}

/// Returns the instance that the thread was in the middle of.
fn suspect(instances: &Instances, lane: LaneId) -> Option<Arc<Instance>> {
    let attempts = instances.activities.attempts.lock();
    let instance_of = |origin: &Origin| match origin {
        Origin::Instance(instance) => Some(Arc::clone(instance)),
        // The instance is owned by another worker.
        Origin::Task(_) => None,
    };
    let suspect = match instances.shared.pulse(lane).work() {
        CurrentWork::Turn(instance) => Some(instance),
        CurrentWork::Activity(token) => attempts.get(token).and_then(|attempt| instance_of(&attempt.origin)),
        CurrentWork::Other => {
            let mut begun = attempts.begun_at(lane);
            let only = begun.next().filter(|_| begun.next().is_none());
            only.and_then(|attempt| instance_of(&attempt.origin))
        }
    };
    drop(attempts);
    suspect.filter(|instance| instance.key() != NO_KEY && instances.table.lock().owns(instance))
}

/// Gives an instance back with evidence against it.
async fn release_suspect(instances: &Arc<Instances>, suspect: &Instance, releasing: Releasing) {
    let epoch = suspect.lock().epoch;
    let open = Request::open(instances);
    let kept: Vec<InstanceKey> = instances.table.lock().owned().map(|instance| instance.key()).collect();
    // The order matters: an attempt that ends meanwhile joins those on their way before it leaves those that run.
    let mut kept_tasks = instances.activities.attempts.lock().taken_tasks();
    kept_tasks.extend(instances.worker.releasing_tasks());
    let request = ReleaseMost {
        worker: instances.worker.id.clone(),
        stalled: Some((suspect.key(), epoch)),
        kept,
        kept_tasks,
        report: Report::of_thread().into_text(),
    };
    open.keep(&request);
    match open.send(request).await {
        // The store may also have released work that this worker did not know of.
        Ok(()) => instances.shared.store.work_was_released(),
        Err(error) => {
            let message = format!("instance '{}' is released without evidence: {error}", suspect.id);
            instances.shared.log_for(suspect, Level::Warn, message);
            instances.worker.release_instance(suspect.key(), epoch);
        }
    }
    drop(releasing);
}
