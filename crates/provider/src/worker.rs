//! Workers: one row for each start of a runtime.

use std::fmt;
use std::sync::Arc;

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
