//! What a worker may own, and what is noted between two comparisons with the store. Invariants O1 to O5 stand in
//! [`ownership`](crate::worker::ownership), which compares.

use parking_lot::Mutex;
use perdure_provider::{Epoch, InstanceKey, Renewal, TaskName};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

/// What a worker may own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owned {
    /// An instance, acquired in this epoch.
    Instance(InstanceKey, Epoch),
    /// An attempt of an activity.
    Task(TaskName),
}

/// What the comparison needs to know of a session.
#[derive(Default)]
pub(crate) struct Ownership {
    pub(super) claims: Mutex<Claims>,
    /// What is on its way out, and how often.
    pub(super) leaving: Mutex<FxHashMap<Owned, usize>>,
    /// What the last renewal told, until it is looked at.
    pub(super) renewal: Mutex<Option<Renewal>>,
    pub(super) renewed: Notify,
}

/// Claims that are open: those that were at the last look, and those that came since.
#[derive(Default)]
pub(super) struct Claims {
    pub(super) era: usize,
    pub(super) open: [usize; 2],
}

impl Claims {
    /// Whether none is open that was at the last look.
    pub(super) fn are_settled(&self) -> bool {
        self.open[1 - self.era] == 0
    }

    /// A look: those that are open now were open at it.
    pub(super) fn look(&mut self) {
        debug_assert!(self.are_settled(), "the last look is settled first");
        self.era = 1 - self.era;
    }
}

#[cfg(test)]
impl Ownership {
    /// Whether no claim is open and nothing is on its way out.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.claims.lock().open == [0, 0] && self.leaving.lock().is_empty()
    }
}
