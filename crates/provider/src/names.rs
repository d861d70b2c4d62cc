//! The names that a store gives to instances, workers and attempts.

use std::fmt;
use std::sync::Arc;

use perdure_engine::{EventId, ExecutionId};

/// The store's own short name of an instance. It is never shown to users and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceKey(pub i64);

/// The number of times that an instance was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Id of a worker; a new one for each start of a runtime.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerId(pub Arc<str>);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName {
    /// Key of the instance.
    pub key: InstanceKey,
    /// Execution of the instance.
    pub execution: ExecutionId,
    /// The event that scheduled the activity.
    pub scheduled: EventId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}
