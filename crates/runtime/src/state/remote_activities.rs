//! The open activities of an instance that other workers run.

use std::collections::BTreeSet;

use perdure_engine::EventId;

/// The open activities of an instance whose attempts go to other workers.
#[derive(Default)]
pub(crate) struct RemoteActivities {
    /// The activities that have an attempt which is offered or runs elsewhere.
    pub(crate) offered: BTreeSet<EventId>,
    /// The activities that had an attempt elsewhere. Such an attempt may have left heartbeats in the store that this
    /// worker has not seen.
    pub(crate) before: BTreeSet<EventId>,
}

impl RemoteActivities {
    /// Returns a value in which attempts of these activities are offered.
    pub(crate) fn of(tasks: Vec<EventId>) -> Self {
        let offered: BTreeSet<EventId> = tasks.into_iter().collect();
        let before = offered.clone();
        Self { offered, before }
    }

    /// Returns the number of attempts that are offered or run elsewhere.
    pub(crate) fn offered(&self) -> usize {
        self.offered.len()
    }

    pub(crate) fn offer(&mut self, scheduled: EventId) {
        self.offered.insert(scheduled);
        self.before.insert(scheduled);
    }

    /// Notes that an activity is over. Returns `true` if it had an attempt elsewhere, which may have left heartbeats.
    pub(crate) fn end(&mut self, scheduled: EventId) -> bool {
        self.offered.remove(&scheduled);
        self.before.remove(&scheduled)
    }

    /// Does the same as [`end`](Self::end) for all activities, because the execution is over.
    pub(crate) fn end_all(&mut self) -> BTreeSet<EventId> {
        self.offered.clear();
        std::mem::take(&mut self.before)
    }
}
