//! The heartbeats of activities, and the workers that may report them.

use perdure_engine::{EventId, ExecutionId, Payload};

use crate::{Epoch, InstanceKey, WorkerId};

/// The latest heartbeat details of an open activity, kept for its next attempt. The heartbeat of a task is fenced by
/// the task's worker and attempt.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The instance.
    pub key: InstanceKey,
    /// Fence: the worker that reports.
    pub worker: WorkerId,
    /// Fence: the role in which the worker reports.
    pub by: Reporter,
    /// Fence: the execution of the instance.
    pub execution: ExecutionId,
    /// The activity's schedule.
    pub scheduled: EventId,
    /// Details that replace those kept before; `None`: nothing is kept from now on.
    pub details: Payload,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// The role in which a worker reports the progress of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporter {
    /// The owner of the instance, in this epoch.
    Owner(Epoch),
    /// The runner of this attempt, which is a task.
    Runner {
        /// Number of the attempt.
        attempt: u32,
    },
}
