//! The instances and tasks that a worker may own, and the notes between two comparisons with the store. Invariants O1
//! to O5 stand in [`ownership`](crate::session::ownership), which compares.

use parking_lot::Mutex;
use perdure_provider::{Epoch, InstanceKey, Renewal, TaskName};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

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

#[cfg(test)]
impl Ownership {
    /// True if no claim is open and nothing is on its way out.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.claims.lock().open == [0, 0] && self.leaving.lock().is_empty()
    }
}
