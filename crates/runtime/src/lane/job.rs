//! The jobs that a lane hands to its thread, and the trait that wakes the thread.

use std::sync::Arc;

use perdure_engine::{EventId, Incarnation, Payload, TraceContext};
use perdure_provider::Status;
use perdure_scheduler::{LaneId, Place};

use crate::log::LogRecord;
use crate::state::attempt::{AbortReason, ActivityToken};
use crate::state::{Instance, Token};

/// Runs user code. A host drains the lane on a thread of its own and must never block the caller of `wake`.
pub trait Host: Send + Sync + 'static {
    /// Tells the host that the lane was parked and has work now. Called from any thread.
    fn wake(&self);

    /// Tells the host that its thread has been held up for long and cannot say so itself. Called from another thread.
    fn held_up(&self, message: &str);
}

/// A job that waits in a lane.
pub(crate) enum Queued {
    Turn(Arc<Instance>),
    Activity(ActivityToken, Place),
    /// Aborts an attempt that this lane was given.
    Abort(ActivityToken, AbortReason, LaneId),
    /// Drops a generator that this lane has.
    Drop(Token, LaneId),
    Log(LogRecord),
    Ended(EndedInstance),
}

/// The next job of the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    /// Drive an instance until all its fibers wait and [`step`](crate::Runtime::step) says that the turn is over.
    Turn(Token),
    /// Run an attempt of an activity.
    Activity(Box<ActivityJob>),
    /// Abort an attempt.
    Abort {
        /// The attempt.
        activity: ActivityToken,
        /// The reason.
        reason: AbortReason,
    },
    /// Forget an instance's generator, without running its `finally` blocks.
    Drop(Token),
    /// Write a log record.
    Log(LogRecord),
    /// Tell the listeners that an instance has ended or was suspended here.
    Ended(EndedInstance),
}

/// An instance whose last turn is durable.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedInstance {
    /// Its id.
    pub instance_id: String,
    /// Its execution.
    pub execution: u64,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// Status of the instance now.
    pub status: Status,
}

/// An attempt to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityJob {
    /// Name of the attempt between the runtime and the host.
    pub token: ActivityToken,
    /// Name of the activity.
    pub name: String,
    /// Input of the activity.
    pub input: Payload,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// True if no attempt of the activity has ever begun: the last turn has scheduled it.
    pub is_untried: bool,
    /// Longest time that the attempt may take, ms.
    pub timeout_ms: Option<u64>,
    /// Longest time for which the attempt might wait to begin, ms, if it has waited for longer. It does not run then.
    pub schedule_to_start_timeout_ms: Option<u64>,
    /// Longest time that all attempts and the waits between them may take, ms, and the part of it that is left now.
    /// Nothing is left if that part is not positive.
    pub total_timeout: Option<(u64, i64)>,
    /// Longest time that the attempt may be silent, ms.
    pub heartbeat_timeout_ms: Option<u64>,
    /// Last progress that the activity reported in an earlier attempt.
    pub last_heartbeat: Payload,
    /// The instance that scheduled the activity, if this worker owns it.
    pub owner: Option<Token>,
    /// The instance whose generator holds the activity's function, if the activity is inline.
    pub inline: Option<Token>,
    /// The queue that the activity was scheduled for; `None`: the default queue.
    pub queue: Option<String>,
    /// The session of the activity.
    pub session: Option<String>,
    /// Trace context of the schedule.
    pub trace: TraceContext,
    /// Id of the instance.
    pub instance_id: String,
    /// Its execution.
    pub execution: u64,
    /// The start of the id that the instance comes from; `None`: the instance was started before starts had
    /// incarnations.
    pub incarnation: Option<Incarnation>,
    /// Name of its orchestration.
    pub orchestration: String,
    /// Version of its orchestration.
    pub version: String,
    /// JSON of the tags that it was started with.
    pub tags: Option<String>,
    /// Event that scheduled it.
    pub scheduled: EventId,
}
