//! What a store holds, and what of it is thrown away.

use crate::{Filter, InstanceKey, Place, Status};

/// An instance that has been due for longer is overdue, ms: nobody who is there can run it, or those who can have too much to do.
pub const OVERDUE_MS: i64 = 10_000;

/// Most sorts of [overdue](Overdue) instances that are named.
pub const OVERDUE_SORTS_MAX: u32 = 20;

/// A request to delete ended instances.
#[derive(Clone, Debug)]
pub struct PruneRequest {
    /// Which. Of them those that have not ended stay.
    pub filter: Filter,
    /// Only those that come after this place.
    pub after: Option<Place>,
    /// Delete at most so many.
    pub limit: usize,
    /// Look at no more than so many ended instances, whether they match or not.
    pub walk_max: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many were deleted.
    pub deleted: usize,
    /// Where to go on; `None`: no other ended instance matches.
    pub next: Option<Place>,
}

/// A request to delete the histories of former executions.
#[derive(Clone, Debug)]
pub struct PruneExecutions {
    /// Of which instances, ended or not.
    pub filter: Filter,
    /// How many of its last executions each instance keeps, the current one among them; at least 1.
    pub keep: u64,
    /// Only of instances from this one on, in order of their keys.
    pub from: Option<InstanceKey>,
    /// Delete at most so many events.
    pub events_max: usize,
    /// Look at no more than so many instances that have former executions, whether they match or not.
    pub walk_max: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedExecutions {
    /// Executions of which the last event was deleted.
    pub deleted: usize,
    /// The instance to go on with; `None`: there is none.
    pub next: Option<InstanceKey>,
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Instances by status, in the order of [`Status::ALL`](crate::Status::ALL).
    pub instances: [u64; 7],
    /// Messages that wait for instances.
    pub messages: u64,
    /// Attempts that wait for a worker, due or not.
    pub tasks_waiting: u64,
    /// Attempts that workers run for others' instances.
    pub tasks_running: u64,
    /// Workers whose lease has not ended, by the store's clock (P9).
    pub workers: u64,
    /// Instances that are due, by the store's clock, and that nobody owns.
    pub due: u64,
    /// Those of them that have been so for longer than [`OVERDUE_MS`].
    pub overdue: u64,
    /// For how long the first of them has been due, ms.
    pub oldest_due_ms: Option<u64>,
}

impl StoreStats {
    /// Instances by status, from what a store counts: those that have not ended, of them the pending and the suspended ones, and each sort
    /// of those that have.
    #[must_use]
    pub fn by_status(open: u64, pending: u64, suspended: u64, ended: [u64; 4]) -> [u64; 7] {
        let [completed, failed, cancelled, terminated] = ended;
        Status::ALL.map(|status| match status {
            Status::Pending => pending,
            // A row that another program changed may be counted as both.
            Status::Running => open.saturating_sub(suspended).saturating_sub(pending),
            Status::Completed => completed,
            Status::Failed => failed,
            Status::Cancelled => cancelled,
            Status::Terminated => terminated,
            Status::Suspended => suspended,
        })
    }
}

/// Instances of one version of one orchestration that have been due for longer than [`OVERDUE_MS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Name of the orchestration.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How many they are.
    pub instances: u64,
    /// How long the first of them has been due, ms.
    pub oldest_ms: u64,
    /// Id of that one.
    pub id: String,
}
