//! The release of the instances and tasks that a worker does not keep, and the attempts that are withheld meanwhile.
//!
//! - **B1** Between a release request and its answer, the store may have carried the request out, and another
//!   worker may have recorded the completion of a step by then. So no attempt begins meanwhile unless the request keeps
//!   its instance or task. The attempt has its slot. It begins when the answer has come, unless the answer takes it
//!   away.
//! - **B2** The store releases all that the worker has at that moment. That includes a task that the worker took
//!   after it decided what to keep, and one whose acquisition is not answered yet. So a task is taken on only while no
//!   request is open, and only if none was opened since the task was asked for, or since the store last said that the
//!   task is this worker's.
//! - **B3** If it is unknown whether a request was carried out, the session ends: the attempts that are withheld may be
//!   running elsewhere, and so may those that come with an answer that is still under way.

use std::sync::Arc;

use perdure_provider::{CommitOutcome, ProviderError, ReleaseMost, ReleasedMost};

use crate::instance::instances::Instances;
use crate::log::Level;
use crate::state::attempt::AbortReason;
use crate::worker::release_requests::{KeptWork, OpenRequest};

/// A release request. It is open until this is dropped.
pub(crate) struct Request<'i> {
    instances: &'i Arc<Instances>,
    number: u64,
}

impl<'i> Request<'i> {
    /// Opens a request. This comes before the caller decides what to keep: a task that is acquired later is not taken
    /// on (B2).
    pub(crate) fn open(instances: &'i Arc<Instances>) -> Self {
        let mut requests = instances.worker.releases.requests.lock();
        let number = requests.count;
        requests.count += 1;
        requests.open.push(OpenRequest {
            number,
            kept: None,
            withheld: Vec::new(),
        });
        Request { instances, number }
    }

    /// Notes what the request keeps. From here on all other attempts are withheld (B1).
    pub(crate) fn keep(&self, request: &ReleaseMost) {
        let kept = KeptWork {
            instances: request.kept.clone(),
            tasks: request.kept_tasks.clone(),
        };
        let mut requests = self.instances.worker.releases.requests.lock();
        if let Some(open) = requests.open.iter_mut().find(|open| open.number == self.number) {
            open.kept = Some(kept);
        }
    }

    /// Releases all that the request does not keep, and forgets what the store has released.
    pub(crate) async fn send(self, request: ReleaseMost) -> Result<(), ProviderError> {
        let instances = self.instances;
        let kept_tasks = request.kept_tasks.clone();
        let released: ReleasedMost = match instances.shared.store.provider.release_most(request).await {
            Ok(released) => released,
            Err(error) => {
                if error.outcome == CommitOutcome::Unknown {
                    end_in_doubt(instances, &error);
                }
                return Err(error);
            }
        };
        // This happens while the request is open, so that no attempt that the store released begins.
        let mut lost = instances.activities.attempts.lock().taken_tasks();
        lost.retain(|task| !kept_tasks.contains(task));
        instances.activities.abort_tasks(lost, AbortReason::LeaseLost);
        let ReleasedMost {
            instances: gone,
            poison_pill,
        } = released;
        for (key, epoch) in gone {
            instances.revoke(key, epoch, AbortReason::LeaseLost);
        }
        if let Some(poison_pill) = poison_pill {
            instances.shared.poison_pill_suspended(poison_pill);
        }
        Ok(())
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let releases = &self.instances.worker.releases;
        let withheld = {
            let mut requests = releases.requests.lock();
            let answered = requests.open.iter().position(|open| open.number == self.number);
            answered.map(|at| requests.open.swap_remove(at).withheld)
        };
        let activities = &self.instances.activities;
        let attempts = activities.attempts.lock();
        for token in withheld.into_iter().flatten() {
            activities.hand_out(&attempts, token);
        }
        drop(attempts);
        releases.over.notify_one();
    }
}

/// Ends the session, because it is unknown if the store has carried out the request (B3).
fn end_in_doubt(instances: &Instances, error: &ProviderError) {
    let message = format!(
        "worker {} starts over, because the result of a release is unknown: {error}",
        instances.worker.id
    );
    instances.shared.log(Level::Warn, message);
    instances.worker.end_session(AbortReason::LeaseLost);
}
