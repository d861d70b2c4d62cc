//! Writes that take an instance from its worker: a release, a termination and a suspension.

use perdure_engine::Payload;

use crate::{Epoch, InstanceKey, WorkerId};

/// A request of a worker to release an instance that it does not run.
#[derive(Clone, Debug)]
pub struct ReleaseInstance {
    /// The instance.
    pub key: InstanceKey,
    /// Fence: its owner.
    pub worker: WorkerId,
    /// Fence: its epoch.
    pub epoch: Epoch,
}

/// A termination.
#[derive(Clone, Debug)]
pub struct Terminate {
    /// The user's name of the instance.
    pub id: String,
    /// The reason, as the driver encoded it.
    pub reason: Payload,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// A suspension from outside. The messages that wait for the instance, its tasks, its heartbeats and its children stay
/// as they are.
#[derive(Clone, Debug)]
pub struct Suspend {
    /// The user's name of the instance.
    pub id: String,
    /// The reason, as the driver shows it.
    pub report: String,
    /// Now, ms since 1970.
    pub time_ms: i64,
}
