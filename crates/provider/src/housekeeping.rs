//! Counts of a store's contents, and the deletion of old ones.

use crate::{Filter, InstanceKey, Place, Status};

/// A request to delete ended instances.
#[derive(Clone, Debug)]
pub struct PruneRequest {
    /// The instances to delete. Instances of the filter that have not ended stay.
    pub filter: Filter,
    /// Only instances that come after this place.
    pub after: Option<Place>,
    /// Most instances to delete.
    pub limit: usize,
    /// Most ended instances to look at, matching or not.
    pub walk_max: usize,
}

/// The result of a prune.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of instances that were deleted.
    pub deleted: usize,
    /// Place after which to go on; `None`: no other ended instance matches.
    pub next: Option<Place>,
}

/// A request to delete the histories of former executions.
#[derive(Clone, Debug)]
pub struct PruneExecutions {
    /// The instances whose executions are pruned, ended or not.
    pub filter: Filter,
    /// Number of last executions that each instance keeps, the current one among them; at least 1.
    pub keep: u64,
    /// Only instances from this one on, in order of their keys.
    pub from: Option<InstanceKey>,
    /// Most events to delete.
    pub events_max: usize,
    /// Most instances with former executions to look at, matching or not.
    pub walk_max: usize,
}

/// The result of a prune of executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedExecutions {
    /// Number of executions whose last event was deleted.
    pub deleted: usize,
    /// The instance to go on with; `None`: there is none.
    pub next: Option<InstanceKey>,
}

/// Most queues that the [counts](StoreStats) of a store name.
pub const STATS_QUEUES_MAX: usize = 100;

/// The attempts of one activity queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDepth {
    /// Name of the queue.
    pub queue: String,
    /// Attempts that wait for a worker, due or not.
    pub waiting: u64,
    /// Attempts that workers run.
    pub running: u64,
}

/// The counts of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Instances by status, in the order of [`Status::ALL`](crate::Status::ALL).
    pub instances: [u64; 7],
    /// Messages that wait for instances.
    pub messages: u64,
    /// Attempts by queue, the fullest queues first and then by name, at most [`STATS_QUEUES_MAX`] queues. Queues
    /// without attempts are left out.
    pub queues: Vec<QueueDepth>,
    /// Attempts that wait for a worker, due or not.
    pub tasks_waiting: u64,
    /// Attempts that workers run for other workers' instances.
    pub tasks_running: u64,
    /// Workers whose lease has not ended, by the store's clock (P9).
    pub workers: u64,
    /// Instances that are due, by the store's clock, and have no owner.
    pub due: u64,
    /// Due instances that have been due for longer than [`OVERDUE_MS`](crate::OVERDUE_MS).
    pub overdue: u64,
    /// Time since the first of the due instances became due, ms.
    pub oldest_due_ms: Option<u64>,
}

impl StoreStats {
    /// Returns the counts with the attempts of all queues.
    #[must_use]
    pub fn with_queues(mut self, mut queues: Vec<QueueDepth>) -> Self {
        self.tasks_waiting = queues.iter().map(|queue| queue.waiting).sum();
        self.tasks_running = queues.iter().map(|queue| queue.running).sum();
        queues.sort_unstable_by(|a, b| {
            let depth = |queue: &QueueDepth| std::cmp::Reverse(queue.waiting + queue.running);
            depth(a).cmp(&depth(b)).then_with(|| a.queue.cmp(&b.queue))
        });
        queues.truncate(STATS_QUEUES_MAX);
        self.queues = queues;
        self
    }

    /// Returns the instances by status, from the counts that a store keeps: the instances that have not ended, the
    /// pending and the suspended ones among them, and the ended ones by status.
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
