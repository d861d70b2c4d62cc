//! What a lane hands to its thread, and how the thread is woken.

use std::sync::Arc;

use perdure_engine::{EventId, Incarnation, Payload, TraceContext};
use perdure_provider::Status;
use perdure_scheduler::{LaneId, Place};

use crate::activity::attempt::{AbortReason, ActivityToken};
use crate::instance::{Instance, Token};
use crate::lane::log_record::LogRecord;

/// Runs user code: it drains the lane on a thread of its own and must never block the caller of `wake`.
pub trait Host: Send + Sync + 'static {
    /// The lane was parked and has work now. Called from any thread.
    fn wake(&self);

    /// The thread has been held up for long and cannot say so itself. Called from another one.
    fn held_up(&self, message: &str);
}

/// What waits in a lane.
pub(crate) enum Queued {
    Turn(Arc<Instance>),
    Activity(ActivityToken, Place),
    /// Of an attempt that this lane was given.
    Abort(ActivityToken, AbortReason, LaneId),
    /// Of a generator that this lane has.
    Drop(Token, LaneId),
    Log(LogRecord),
    Ended(EndedInstance),
}

/// What the host is to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    /// Drive an instance until all its fibers wait and [`step`](crate::Runtime::step) says that the turn is over.
    Turn(Token),
    /// Run an attempt of an activity.
    Activity(Box<ActivityJob>),
    /// Abort an attempt.
    Abort {
        /// Which one.
        activity: ActivityToken,
        /// Why.
        reason: AbortReason,
    },
    /// Forget an instance's generator, without running its `finally` blocks.
    Drop(Token),
    /// Write a log record.
    Log(LogRecord),
    /// Tell that an instance has ended or was suspended here.
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
    /// What it is now.
    pub status: Status,
}

/// An attempt to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityJob {
    /// Name of the attempt.
    pub token: ActivityToken,
    /// Name of the activity.
    pub name: String,
    /// Its input.
    pub input: Payload,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// How long it may take, ms.
    pub timeout_ms: Option<u64>,
    /// How long all attempts and the waits between them may take, ms, and what is left of that now: nothing when it is not positive.
    pub total_timeout: Option<(u64, i64)>,
    /// How long it may be silent, ms.
    pub heartbeat_timeout_ms: Option<u64>,
    /// What the activity told last of its progress, in an earlier attempt.
    pub last_heartbeat: Payload,
    /// The instance that asked for it, when it is one of this worker.
    pub owner: Option<Token>,
    /// The instance whose generator holds its function, when it is inline.
    pub inline: Option<Token>,
    /// The queue that it was scheduled for; `None`: the default one.
    pub queue: Option<String>,
    /// What it was scheduled in.
    pub trace: TraceContext,
    /// Id of the instance.
    pub instance_id: String,
    /// Its execution.
    pub execution: u64,
    /// Which start of that id the instance comes from; `None`: it was started before starts had this.
    pub incarnation: Option<Incarnation>,
    /// Name of its orchestration.
    pub orchestration: String,
    /// Event that scheduled it.
    pub scheduled: EventId,
}
