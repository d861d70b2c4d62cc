//! Workers: one row for each start of a runtime.

use std::fmt;
use std::sync::Arc;

use crate::{InstanceKey, Newest, TaskName};

/// Id of a worker; a new one for each start of a runtime.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerId(pub Arc<str>);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A worker to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorker {
    /// Its id.
    pub id: WorkerId,
    /// The user's name for it.
    pub name: String,
    /// The machine, as precisely as it can be told (a machine that restarted is another).
    pub host: String,
    /// Process id on that machine.
    pub pid: u32,
    /// When that process started, in a form that only its own machine can compare; tells a reused pid from the same process.
    pub process_start: String,
    /// How long it may be silent before any other worker takes its instances over, ms.
    pub lease_ms: u64,
    /// What it tells of itself, for people: a text that no store looks into.
    pub about: Option<String>,
    /// The newest version of each orchestration that it has.
    pub newest: Newest,
}

/// What a renewal of a lease tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// What the store's clock shows, ms since 1970.
    pub now_ms: i64,
    /// The instances that the worker owns.
    pub owned: OwnedDigest,
    /// How many tasks the worker runs.
    pub tasks: u64,
}

/// A set of instances, told in two numbers: sets of different digests differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnedDigest {
    /// How many they are.
    pub instances: u64,
    /// Sum of the lower 32 bits of their keys.
    pub keys: u64,
}

impl OwnedDigest {
    /// Bits of a key that are summed up.
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

/// A worker returns a task that it does not run, to whoever takes it.
#[derive(Clone, Debug)]
pub struct LetGoTask {
    /// Fence: the worker that runs it.
    pub worker: WorkerId,
    /// Which.
    pub task: TaskName,
}

/// A registered worker and what it has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerLoad {
    /// Which.
    pub worker: Worker,
    /// What it told of itself last; `None`: nothing, as those of former versions.
    pub about: Option<String>,
    /// Instances that it owns.
    pub instances: u64,
    /// Attempts that it runs for others' instances.
    pub tasks: u64,
}

/// A registered worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its id.
    pub id: WorkerId,
    /// The user's name for it.
    pub name: String,
    /// The machine.
    pub host: String,
    /// Process id on that machine.
    pub pid: u32,
    /// When that process started, in a form that only its own machine can compare.
    pub process_start: String,
    /// End of its lease, ms since 1970, by the store's clock.
    pub lease_until_ms: i64,
}
