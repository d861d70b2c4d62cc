//! The instances and tasks that a worker may own, and the notes between two comparisons with the store. Invariants O1
//! to O5 stand in [`ownership`](crate::session::ownership), which compares.

use std::sync::Arc;

use parking_lot::Mutex;
use perdure_engine::{Bug, is_planted};
use perdure_provider::{
    Epoch, InstanceKey, Outcome, ProviderError, ReleaseInstance, ReleaseTask, Renewal, TaskName, Write,
};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::commit::committer::Patience;
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
    /// The instances and tasks that are on their way out, each with its count.
    pub(crate) leaving: Mutex<FxHashMap<Owned, usize>>,
    /// The answer to the last renewal, until it is compared.
    pub(crate) renewal: Mutex<Option<Renewal>>,
    pub(crate) renewed: Notify,
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
    pub(crate) fn look(&mut self) {
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
pub(crate) struct Leaving(Arc<Worker>, Owned);

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut leaving = self.0.ownership.leaving.lock();
        if let Some(count) = leaving.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                leaving.remove(&self.1);
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

    /// Notes that an instance or a task is on its way out until the returned value is dropped.
    pub(crate) fn leaving(self: &Arc<Self>, owned: Owned) -> Leaving {
        *self.ownership.leaving.lock().entry(owned).or_default() += 1;
        Leaving(Arc::clone(self), owned)
    }

    /// Returns the tasks whose end is on its way to the store. They are still this worker's, although nothing runs.
    pub(crate) fn leaving_tasks(&self) -> Vec<TaskName> {
        let leaving = self.ownership.leaving.lock();
        let tasks = leaving.keys().filter_map(|owned| match owned {
            Owned::Task(task) => Some(*task),
            Owned::Instance(..) => None,
        });
        tasks.collect()
    }

    /// True if the instance is on its way out.
    pub(crate) fn is_leaving(&self, key: InstanceKey) -> bool {
        let leaving = self.ownership.leaving.lock();
        let mut instances = leaving.keys().filter_map(|owned| match owned {
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
    pub(crate) fn let_go(self: &Arc<Self>, key: InstanceKey, epoch: Epoch) {
        let write = Write::ReleaseInstance(ReleaseInstance {
            key,
            worker: self.id.clone(),
            epoch,
        });
        self.give_up(Owned::Instance(key, epoch), write);
    }

    pub(crate) fn let_go_task(self: &Arc<Self>, task: TaskName) {
        let worker = self.id.clone();
        self.give_up(Owned::Task(task), Write::ReleaseTask(ReleaseTask { worker, task }));
    }

    fn give_up(self: &Arc<Self>, owned: Owned, write: Write) {
        let (store, leaving) = (Arc::clone(&self.shared.store), self.leaving(owned));
        let done = Box::new(move |answer: Result<Outcome, ProviderError>| {
            match (answer, owned) {
                (Ok(Outcome::Noted), Owned::Instance(..)) => store.work_is_due(),
                (Ok(Outcome::Noted), Owned::Task(_)) => store.look_at_tasks(),
                // The store did not list it as this worker's. If the store refuses, the next comparison finds it again.
                _ => {}
            }
            drop(leaving);
        });
        self.shared.store.committer.submit(write, Patience::Endless, done);
    }
}

#[cfg(test)]
impl Ownership {
    /// True if no claim is open and nothing is on its way out.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.claims.lock().open == [0, 0] && self.leaving.lock().is_empty()
    }
}
