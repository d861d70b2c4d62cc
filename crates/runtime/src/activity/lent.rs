//! Which open activities of an instance other workers run.

use std::collections::BTreeSet;

use perdure_engine::EventId;

/// Open activities of an instance whose attempts go to other workers.
#[derive(Default)]
pub(crate) struct Lent {
    /// An attempt of them is offered or runs elsewhere.
    pub(super) offered: BTreeSet<EventId>,
    /// Attempts of them have run elsewhere, and left details of heartbeats in the store that nobody has seen here.
    pub(super) before: BTreeSet<EventId>,
}

impl Lent {
    /// Attempts of these are offered.
    pub(crate) fn of(tasks: Vec<EventId>) -> Self {
        let offered: BTreeSet<EventId> = tasks.into_iter().collect();
        let before = offered.clone();
        Self { offered, before }
    }

    /// How many attempts are offered or run elsewhere.
    pub(crate) fn offered(&self) -> usize {
        self.offered.len()
    }

    pub(super) fn offer(&mut self, scheduled: EventId) {
        self.offered.insert(scheduled);
        self.before.insert(scheduled);
    }

    /// The activity is over. `true`: whoever ran its attempts may have left heartbeats.
    pub(super) fn end(&mut self, scheduled: EventId) -> bool {
        self.offered.remove(&scheduled);
        self.before.remove(&scheduled)
    }

    /// The execution is over: [`end`](Self::end) for all.
    pub(crate) fn end_all(&mut self) -> BTreeSet<EventId> {
        self.offered.clear();
        std::mem::take(&mut self.before)
    }
}
