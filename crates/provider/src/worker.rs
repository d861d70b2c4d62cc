//! Workers: one row for each start of a runtime.

use crate::{InstanceKey, Newest, TaskName, WorkerId};

/// A worker to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorker {
    /// Id of the worker.
    pub id: WorkerId,
    /// The user's name for it.
    pub name: String,
    /// The machine, as precisely as it can be told (a machine that restarted is another).
    pub host: String,
    /// Process id on that machine.
    pub pid: u32,
    /// Start of that process, in a form that only its own machine can compare. It tells a reused pid from the same
    /// process.
    pub process_start: String,
    /// Time that the worker may be silent before any other worker takes its instances over, ms.
    pub lease_ms: u64,
    /// The worker's description of itself, for people. No store reads this text.
    pub description: Option<String>,
    /// The newest version of each orchestration that the worker has.
    pub newest: Newest,
}

/// The result of a renewal of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The time of the store's clock, ms since 1970.
    pub now_ms: i64,
    /// The instances that the worker owns.
    pub owned: OwnedDigest,
    /// Number of tasks that the worker runs.
    pub tasks: u64,
}

/// A set of instances, summed up in two numbers. Sets of different digests differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnedDigest {
    /// Number of instances.
    pub instances: u64,
    /// Sum of the lower 32 bits of their keys.
    pub keys: u64,
}

impl OwnedDigest {
    /// The bits of a key that are summed up.
    pub const KEY_BITS: i64 = 0xffff_ffff;
}

impl FromIterator<InstanceKey> for OwnedDigest {
    fn from_iter<I: IntoIterator<Item = InstanceKey>>(keys: I) -> Self {
        let add = |sum: Self, key: InstanceKey| Self {
            instances: sum.instances + 1,
            keys: sum.keys + (key.0 & Self::KEY_BITS) as u64,
        };
        keys.into_iter().fold(Self::default(), add)
    }
}

/// A request of a worker to return a task that it does not run, so that another worker can take it.
#[derive(Clone, Debug)]
pub struct ReleaseTask {
    /// Fence: the worker that runs it.
    pub worker: WorkerId,
    /// The task.
    pub task: TaskName,
}

/// A registered worker and what it has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerLoad {
    /// The worker.
    pub worker: Worker,
    /// The worker's latest description of itself; `None`: it gave none, as workers of former versions.
    pub description: Option<String>,
    /// Number of instances that the worker owns.
    pub instances: u64,
    /// Number of attempts that the worker runs for other workers' instances.
    pub tasks: u64,
}

/// A registered worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Id of the worker.
    pub id: WorkerId,
    /// The user's name for it.
    pub name: String,
    /// The machine.
    pub host: String,
    /// Process id on that machine.
    pub pid: u32,
    /// Start of that process, in a form that only its own machine can compare.
    pub process_start: String,
    /// End of the lease, ms since 1970, by the store's clock.
    pub lease_until_ms: i64,
}
