//! An attempt of an activity: its token, and its origin, which waits for its result.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use perdure_engine::{ActivityTask, ExecutionId, Incarnation, Payload};
use perdure_provider::{InstanceKey, TaskName};

use crate::state::Instance;
use crate::state::heartbeats::Heartbeats;

/// The name of one attempt of an activity between the runtime and its host. A token is never used again within a
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActivityToken(pub u64);

impl fmt::Display for ActivityToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reason why a running activity is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// The result is not needed any more: the activity was cancelled, or its instance has ended.
    Cancelled,
    /// The runtime shuts down.
    Shutdown,
    /// The instance may belong to another worker by now.
    LeaseLost,
}

impl AbortReason {
    /// Returns the reason as the host names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            AbortReason::Cancelled => "cancelled",
            AbortReason::Shutdown => "shutdown",
            AbortReason::LeaseLost => "leaseLost",
        }
    }
}

/// An attempt that this worker runs for an instance that another worker may own.
pub(crate) struct TakenTask {
    pub(crate) task: TaskName,
    pub(crate) instance_id: String,
    pub(crate) orchestration: String,
    pub(crate) version: String,
    pub(crate) tags: Option<String>,
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) heartbeats: Mutex<Heartbeats>,
}

/// The origin of an attempt: the instance or the task that waits for its result.
#[derive(Clone)]
pub(crate) enum Origin {
    /// An instance that this worker owns.
    Instance(Arc<Instance>),
    /// A task. The worker that owns the instance of the task waits for its result.
    Task(Arc<TakenTask>),
}

impl Origin {
    pub(crate) fn key(&self) -> InstanceKey {
        match self {
            Origin::Instance(instance) => instance.key(),
            Origin::Task(taken) => taken.task.key,
        }
    }

    pub(crate) fn execution(&self) -> ExecutionId {
        match self {
            Origin::Instance(instance) => instance.execution,
            Origin::Task(taken) => taken.task.execution,
        }
    }

    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        match self {
            Origin::Instance(instance) => instance.incarnation(),
            Origin::Task(taken) => taken.incarnation,
        }
    }

    pub(crate) fn instance_id(&self) -> &str {
        match self {
            Origin::Instance(instance) => &instance.id,
            Origin::Task(taken) => &taken.instance_id,
        }
    }

    /// Returns the name of the orchestration.
    pub(crate) fn orchestration(&self) -> &str {
        match self {
            Origin::Instance(instance) => &instance.name,
            Origin::Task(taken) => &taken.orchestration,
        }
    }

    /// Returns the version of the orchestration.
    pub(crate) fn version(&self) -> &str {
        match self {
            Origin::Instance(instance) => &instance.version,
            Origin::Task(taken) => &taken.version,
        }
    }

    /// Returns the JSON of the tags that the instance was started with.
    pub(crate) fn tags(&self) -> Option<&str> {
        match self {
            Origin::Instance(instance) => instance.tags.as_deref(),
            Origin::Task(taken) => taken.tags.as_deref(),
        }
    }
}

/// The time at which an attempt must have begun.
#[derive(Clone, Copy, Default)]
pub(crate) struct StartLimit {
    /// The time, ms since 1970. No later than the end of the total timeout.
    pub(crate) at_ms: Option<i64>,
    /// True if the store has found that the time is over.
    pub(crate) is_over: bool,
}

impl StartLimit {
    /// True if the attempt must not begin any more.
    pub(crate) fn is_over(self, now_ms: i64) -> bool {
        self.is_over || self.at_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }
}

/// One attempt.
#[derive(Clone)]
pub(crate) struct Attempt {
    pub(crate) origin: Origin,
    pub(crate) task: Arc<ActivityTask>,
    pub(crate) number: u32,
    /// True if no attempt of the activity has ever begun.
    pub(crate) is_untried: bool,
    /// The details of the last heartbeat of an earlier attempt.
    pub(crate) last_heartbeat: Payload,
    /// The time at which it must have begun. Nothing, once it has.
    pub(crate) start: StartLimit,
}
