//! Attempts of activities that the instance's own worker does not run: offered in a queue, taken by any worker that serves it.

use perdure_engine::{AttemptResult, EventId, ExecutionId, Payload};

use crate::{InstanceKey, PageLimit, WorkerId};

/// An attempt to offer. It goes with a turn, whose instance and execution it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOffer {
    /// The event that scheduled the activity.
    pub scheduled: EventId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Which queue.
    pub queue: String,
    /// Name of the activity.
    pub name: String,
    /// Higher is taken first.
    pub priority: i32,
    /// Not before this, ms since 1970.
    pub due_at_ms: i64,
    /// When all attempts together are to be over, ms since 1970.
    pub deadline_ms: Option<i64>,
}

/// Which attempt it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName {
    /// Its instance.
    pub key: InstanceKey,
    /// Its execution.
    pub execution: ExecutionId,
    /// The event that scheduled the activity.
    pub scheduled: EventId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// An attempt that now belongs to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which one.
    pub task: TaskName,
    /// Id of its instance.
    pub instance_id: String,
    /// Name of the orchestration.
    pub orchestration: String,
    /// Meta of the first event of its execution.
    pub started: Option<String>,
    /// Name of the activity.
    pub name: String,
    /// Its input.
    pub input: Payload,
    /// Its options, as recorded with its schedule.
    pub options: Option<String>,
    /// When all attempts together are to be over, ms since 1970.
    pub deadline_ms: Option<i64>,
    /// Kept details of an earlier attempt's heartbeats.
    pub last_heartbeat: Payload,
}

impl Task {
    /// Bytes of what the attempt is given.
    #[must_use]
    pub fn given_bytes(&self) -> usize {
        let len = |text: &Payload| text.as_ref().map_or(0, String::len);
        len(&self.input) + len(&self.options) + len(&self.last_heartbeat)
    }
}

/// A request for attempts.
#[derive(Clone, Debug)]
pub struct TaskRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// Queues that it serves.
    pub queues: Vec<String>,
    /// Names of activities that it can run.
    pub names: Vec<String>,
    /// At most so many, and no more once their inputs and kept heartbeats have so many bytes.
    pub limit: PageLimit,
}

/// The answer to a request for attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcquiredTasks {
    /// Now the worker's, by priority and then the longest due first.
    pub tasks: Vec<Task>,
    /// When the next that the worker could run is due, ms since 1970; in the past when the limit left some behind.
    pub next_due_ms: Option<i64>,
}

/// What came of an attempt. It is told to the instance, if it is still the worker's.
#[derive(Clone, Debug)]
pub struct TaskDone {
    /// Fence: whose it is.
    pub worker: WorkerId,
    /// Which one.
    pub task: TaskName,
    /// What came of it.
    pub result: AttemptResult,
    /// Now, ms since 1970.
    pub time_ms: i64,
}
