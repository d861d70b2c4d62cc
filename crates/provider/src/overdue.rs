//! Due work that no worker runs: instances and attempts that have been due for longer than a time.

use std::collections::BTreeSet;

/// Time after which a due instance is overdue for a person who looks at the store, ms: no present worker can run it, or
/// the workers that can have too much to do.
pub const OVERDUE_MS: i64 = 10_000;

/// Most sorts of overdue instances, and of overdue attempts, that are named.
pub const OVERDUE_SORTS_MAX: usize = 20;

/// Most sorts of due work that a store looks at. A sort of instances has a name, a version and a priority, a sort of
/// attempts a route, a queue and a name.
pub const OVERDUE_WALK_MAX: usize = 1_000;

/// The number up to which the instances or attempts of one sort are counted.
pub const OVERDUE_COUNT_MAX: u32 = 10_000;

/// A request for overdue work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverdueRequest {
    /// Only work that has been due for longer, ms.
    pub for_ms: i64,
    /// Orchestrations, by name and version, that are left out.
    pub served_orchestrations: BTreeSet<(String, String)>,
    /// Activities, by queue and name, that are left out.
    pub served_activities: BTreeSet<(String, String)>,
}

/// Overdue work by sort, the longest due first, at most [`OVERDUE_SORTS_MAX`] sorts of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverdueWork {
    /// The instances.
    pub instances: Vec<OverdueInstances>,
    /// The attempts of activities that no worker has taken. Of each route, queue and name, the attempts of the highest
    /// priority decide.
    pub attempts: Vec<OverdueAttempts>,
}

/// Overdue instances of one version of one orchestration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverdueInstances {
    /// Name of the orchestration.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Number of these instances. Those of one priority are counted up to [`OVERDUE_COUNT_MAX`].
    pub instances: u64,
    /// Time since the first of them became due, ms.
    pub oldest_ms: u64,
    /// Id of the first of them.
    pub id: String,
}

/// Overdue attempts of one activity in one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverdueAttempts {
    /// The queue.
    pub queue: String,
    /// Name of the activity.
    pub name: String,
    /// Number of these attempts. Those of one route are counted up to [`OVERDUE_COUNT_MAX`].
    pub attempts: u64,
    /// Time since the first of them became due, ms.
    pub oldest_ms: u64,
    /// Id of the instance of the first of them.
    pub id: String,
}

impl OverdueWork {
    /// Returns the work with its sorts in order and within their limit.
    #[must_use]
    pub fn ordered(mut self) -> Self {
        self.instances.sort_by(|a, b| {
            let names = || (&a.name, &a.version).cmp(&(&b.name, &b.version));
            b.oldest_ms.cmp(&a.oldest_ms).then_with(names)
        });
        self.instances.truncate(OVERDUE_SORTS_MAX);
        self.attempts.sort_by(|a, b| {
            let names = || (&a.queue, &a.name).cmp(&(&b.queue, &b.name));
            b.oldest_ms.cmp(&a.oldest_ms).then_with(names)
        });
        self.attempts.truncate(OVERDUE_SORTS_MAX);
        self
    }

    /// Adds attempts of one route to those of their queue and name.
    pub fn add_attempts(&mut self, new: OverdueAttempts) {
        let known = (self.attempts.iter_mut()).find(|known| known.queue == new.queue && known.name == new.name);
        let Some(known) = known else {
            self.attempts.push(new);
            return;
        };
        known.attempts += new.attempts;
        if new.oldest_ms > known.oldest_ms {
            (known.oldest_ms, known.id) = (new.oldest_ms, new.id);
        }
    }

    /// Adds instances of one priority to those of their name and version.
    pub fn add(&mut self, new: OverdueInstances) {
        let known = (self.instances.iter_mut()).find(|known| known.name == new.name && known.version == new.version);
        let Some(known) = known else {
            self.instances.push(new);
            return;
        };
        known.instances += new.instances;
        if new.oldest_ms > known.oldest_ms {
            (known.oldest_ms, known.id) = (new.oldest_ms, new.id);
        }
    }
}
