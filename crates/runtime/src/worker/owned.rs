//! The instances and tasks that a worker may own, and the notes between two comparisons with the store. Invariants O1
//! to O6 stand in [`ownership`](crate::session::ownership), which compares.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use perdure_engine::{Bug, is_planted};
use perdure_provider::{
    Epoch, InstanceKey, Outcome, ProviderError, ReleaseInstance, ReleaseTask, Renewal, TaskName, Write,
};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, oneshot};

use crate::commit::committer::Patience;
use crate::log::Level;
use crate::options::ORPHANS_NAMED;
use crate::worker::Worker;

/// An instance or a task that a worker may own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owned {
    /// An instance, acquired in this epoch.
    Instance(InstanceKey, Epoch),
    /// The task of one attempt of an activity.
    Task(TaskName),
}

/// The state that the comparison needs of a session.
#[derive(Default)]
pub(crate) struct Ownership {
    pub(crate) claims: Mutex<Claims>,
    /// The instances and tasks that are being released, each with its count.
    pub(crate) releasing: Mutex<FxHashMap<Owned, usize>>,
    /// The answer to the last renewal, until it is compared.
    pub(crate) renewal: Mutex<Option<Renewal>>,
    pub(crate) renewed: Notify,
    /// True if the number of tasks differed at the last look (O6).
    pub(crate) tasks_differ: AtomicBool,
}

/// The number of open claims: those that were open at the last look, and those that came since.
#[derive(Default)]
pub(crate) struct Claims {
    pub(crate) era: usize,
    pub(crate) open: [usize; 2],
}

impl Claims {
    /// True if no claim is open that was open at the last look.
    pub(crate) fn are_settled(&self) -> bool {
        self.open[1 - self.era] == 0
    }

    /// Notes a look: the claims that are open now were open at it.
    pub(crate) fn begin_era(&mut self) {
        debug_assert!(self.are_settled(), "the last look is settled first");
        self.era = 1 - self.era;
    }
}

/// A request to the store that is under way and may make something this worker's (O2).
pub(crate) struct Claim(Arc<Worker>, usize);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.ownership.claims.lock().open[self.1] -= 1;
    }
}

/// An instance or a task that is forgotten here while its release is under way (O1).
pub(crate) struct Releasing(Arc<Worker>, Owned);

impl Drop for Releasing {
    fn drop(&mut self) {
        let mut releasing = self.0.ownership.releasing.lock();
        if let Some(count) = releasing.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                releasing.remove(&self.1);
            }
        }
    }
}

impl Worker {
    /// Opens a claim: something may become this worker's until the claim is dropped.
    pub(crate) fn claim(self: &Arc<Self>) -> Claim {
        let mut claims = self.ownership.claims.lock();
        let era = claims.era;
        claims.open[era] += 1;
        Claim(Arc::clone(self), era)
    }

    /// Notes that an instance or a task is being released until the returned value is dropped.
    pub(crate) fn releasing(self: &Arc<Self>, owned: Owned) -> Releasing {
        *self.ownership.releasing.lock().entry(owned).or_default() += 1;
        Releasing(Arc::clone(self), owned)
    }

    /// Returns the tasks whose end is on its way to the store. They are still this worker's, although nothing runs.
    pub(crate) fn releasing_tasks(&self) -> Vec<TaskName> {
        let releasing = self.ownership.releasing.lock();
        let tasks = releasing.keys().filter_map(|owned| match owned {
            Owned::Task(task) => Some(*task),
            Owned::Instance(..) => None,
        });
        tasks.collect()
    }

    /// True if the instance is being released.
    pub(crate) fn is_releasing(&self, key: InstanceKey) -> bool {
        let releasing = self.ownership.releasing.lock();
        let mut instances = releasing.keys().filter_map(|owned| match owned {
            Owned::Instance(key, _) => Some(*key),
            Owned::Task(_) => None,
        });
        instances.any(|leaves| leaves == key)
    }

    /// Notes the answer to a renewal of the lease, and wakes the comparison.
    pub(crate) fn renewed(&self, renewal: Renewal) {
        if is_planted(Bug::OwnedNotCompared) {
            return;
        }
        *self.ownership.renewal.lock() = Some(renewal);
        self.ownership.renewed.notify_one();
    }

    /// Releases an instance that is not known here, or no longer. Most often another worker owns it by then. But if the
    /// store lists it as this worker's, no other worker would ever take it.
    pub(crate) fn release_instance(self: &Arc<Self>, key: InstanceKey, epoch: Epoch) {
        drop(self.release(Owned::Instance(key, epoch)));
    }

    /// Releases what the store lists as this worker's, and the worker does not know. Returns a receiver for each, which
    /// is closed when the release was answered.
    pub(crate) fn release_orphans(self: &Arc<Self>, orphans: &BTreeSet<Owned>) -> Vec<oneshot::Receiver<()>> {
        if orphans.is_empty() {
            return Vec::new();
        }
        let named: Vec<String> = orphans.iter().take(ORPHANS_NAMED).map(named).collect();
        let message = format!(
            "worker {} owns {} rows of the store that it does not know of, and releases them: {}",
            self.id,
            orphans.len(),
            named.join(", ")
        );
        self.shared.log(Level::Warn, message);
        orphans.iter().map(|orphan| self.release(*orphan)).collect()
    }

    /// Returns a receiver that is closed when the release was answered.
    fn release(self: &Arc<Self>, owned: Owned) -> oneshot::Receiver<()> {
        let worker = self.id.clone();
        let write = match owned {
            Owned::Instance(key, epoch) => Write::ReleaseInstance(ReleaseInstance { key, worker, epoch }),
            Owned::Task(task) => Write::ReleaseTask(ReleaseTask { worker, task }),
        };
        let (store, releasing) = (Arc::clone(&self.shared.store), self.releasing(owned));
        let (answered, is_answered) = oneshot::channel::<()>();
        let done = Box::new(move |answer: Result<Outcome, ProviderError>| {
            match (answer, owned) {
                (Ok(Outcome::Noted), Owned::Instance(..)) => store.work_is_due(),
                (Ok(Outcome::Noted), Owned::Task(_)) => store.look_at_tasks(),
                // The store did not list it as this worker's. If the store refuses, the next comparison finds it again.
                _ => {}
            }
            drop((releasing, answered));
        });
        self.shared.store.committer.submit(write, Patience::Endless, done);
        is_answered
    }
}

/// Returns a name for the log, by the key of the row: the instance's id is not known here.
fn named(owned: &Owned) -> String {
    match owned {
        Owned::Instance(key, _) => format!("instance with key {}", key.0),
        Owned::Task(task) => format!("activity {} of the instance with key {}", task.scheduled.0, task.key.0),
    }
}

impl Ownership {
    /// True if no claim is open and nothing is being released.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.claims.lock().open == [0, 0] && self.releasing.lock().is_empty()
    }
}
