//! Attempts of activities that the instance's own worker does not run. They are offered in a queue and taken by any
//! worker that serves it.

use perdure_engine::{AttemptResult, EventId, Payload};

use crate::{PageLimit, TaskName, WorkerId};

/// An attempt to offer. It is written with a turn and belongs to the turn's instance and execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOffer {
    /// The event that scheduled the activity.
    pub scheduled: EventId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The queue that the attempt is offered in.
    pub queue: String,
    /// Key of the attempt in the limits of the queue; empty: it has none. `None`: the limits do not concern it (P27).
    pub key: Option<String>,
    /// Name of the activity.
    pub name: String,
    /// Session of the activity in the queue: its attempts go to one worker (P18).
    pub session: Option<String>,
    /// An attempt of a higher priority is taken first.
    pub priority: i32,
    /// Earliest time at which the attempt may be taken, ms since 1970. It waits from then on, or from the offer if that
    /// is later.
    pub due_at_ms: i64,
    /// Time at which all attempts together are to be over, ms since 1970.
    pub deadline_ms: Option<i64>,
    /// Longest wait for a worker, from when the attempt is due, ms (P28).
    pub start_within_ms: Option<i64>,
}

impl TaskOffer {
    /// Returns the time from which the attempt waits for a worker if it is offered now, ms since 1970.
    #[must_use]
    pub fn waits_from_ms(&self, now_ms: i64) -> i64 {
        self.due_at_ms.max(now_ms)
    }

    /// Returns the time at which the attempt is late if it is offered now, ms since 1970 (P28).
    #[must_use]
    pub fn start_by_ms(&self, now_ms: i64) -> Option<i64> {
        start_by_ms(self.waits_from_ms(now_ms), self.start_within_ms, self.deadline_ms)
    }
}

/// Returns the time at which an attempt is late that waits from a time on, ms since 1970 (P28).
#[must_use]
pub fn start_by_ms(from_ms: i64, within_ms: Option<i64>, deadline_ms: Option<i64>) -> Option<i64> {
    let begun_by_ms = within_ms.map(|within| from_ms.saturating_add(within));
    begun_by_ms.into_iter().chain(deadline_ms).min()
}

/// An attempt that now belongs to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The identity of the attempt.
    pub task: TaskName,
    /// Id of the instance.
    pub instance_id: String,
    /// Name of the orchestration.
    pub orchestration: String,
    /// Version of the orchestration.
    pub version: String,
    /// JSON of the tags that the instance was started with.
    pub tags: Option<String>,
    /// The `meta` of the first event of the execution.
    pub started: Option<String>,
    /// Name of the activity.
    pub name: String,
    /// Input of the activity.
    pub input: Payload,
    /// Options of the activity, as recorded with its schedule.
    pub options: Option<String>,
    /// Time at which all attempts together are to be over, ms since 1970.
    pub deadline_ms: Option<i64>,
    /// Time at which the attempt must have begun, ms since 1970 (P28).
    pub start_by_ms: Option<i64>,
    /// True if the attempt was late when the worker took it. The worker does not run it, and reports that it has failed
    /// (P28).
    pub is_late: bool,
    /// Kept details of an earlier attempt's heartbeats.
    pub last_heartbeat: Payload,
}

impl Task {
    /// Returns the bytes of the data that the attempt is given.
    #[must_use]
    pub fn given_bytes(&self) -> usize {
        let len = |text: &Payload| text.as_ref().map_or(0, String::len);
        len(&self.input) + len(&self.options) + len(&self.last_heartbeat)
    }
}

/// The activity queues that a worker serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queues {
    /// Every queue, also one that appears later.
    Any,
    /// The queues with these names.
    Named(Vec<String>),
}

impl Queues {
    /// Returns true if a queue is one of them.
    #[must_use]
    pub fn serve(&self, queue: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => names.iter().any(|name| name == queue),
        }
    }
}

/// A request for attempts.
#[derive(Clone, Debug)]
pub struct TaskRequest {
    /// The worker that asks.
    pub worker: WorkerId,
    /// Queues that the worker serves.
    pub queues: Queues,
    /// Names of activities that the worker can run.
    pub names: Vec<String>,
    /// Most attempts to take. No more are taken once their inputs and kept heartbeats have so many bytes. Late attempts
    /// do not count, so a worker without room asks for no rows, and gets these.
    pub limit: PageLimit,
    /// Sessions that the worker holds.
    pub sessions: SessionLimits,
}

/// The limits of the activity sessions that a worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Most sessions that are bound to the worker at once.
    pub max: usize,
    /// Time without an attempt of a session, waiting or running, after which the session is unbound, ms.
    pub idle_ms: i64,
}

/// The route of a task without a session: any worker takes it.
pub const ROUTE_ANY: &str = "";

/// The route of a task of a session that was not looked at yet. Otherwise the route is the id of the worker that holds
/// the session.
pub const ROUTE_OPEN: &str = "?";

/// The route of a task that waits for a slot of its queue (P27). No request takes it before.
pub const ROUTE_LINE: &str = "=";

/// Most sessions that one request for attempts binds to a worker or hands on.
pub const ROUTED_SESSIONS_MAX: usize = 100;

/// Most attempts of one session that one request for attempts hands to its worker.
pub const ROUTED_TASKS_MAX: usize = 1_000;

/// Most late attempts that one request takes (P28).
pub const LATE_TASKS_MAX: usize = 25;

/// The answer to a request for attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcquiredTasks {
    /// The late attempts, and then those that the worker runs now, by priority and then the longest due first.
    pub tasks: Vec<Task>,
    /// The time at which the next attempt that the worker could run is due, or the next one of all that wait is late,
    /// ms since 1970. It is in the past if the limit left some behind.
    pub next_due_ms: Option<i64>,
    /// True if attempts wait for a slot of their queue, and the worker could run them. The worker is to ask again when
    /// a slot is free: when an attempt or an instance has ended (P27).
    pub slots_wanted: bool,
    /// True if attempts went to other workers, which hold their sessions. Workers on the same handle are to be told.
    pub handed_on: bool,
}

impl AcquiredTasks {
    /// Notes that there may be an attempt to take at a time, ms since 1970.
    pub fn look_again_at(&mut self, at_ms: i64) {
        self.next_due_ms = Some(self.next_due_ms.map_or(at_ms, |next| next.min(at_ms)));
    }
}

/// The end of an attempt. It is told to the instance if the attempt still belongs to the worker.
#[derive(Clone, Debug)]
pub struct TaskDone {
    /// Fence: the worker that runs the attempt.
    pub worker: WorkerId,
    /// The attempt.
    pub task: TaskName,
    /// The result of the attempt.
    pub result: AttemptResult,
    /// Now, ms since 1970.
    pub time_ms: i64,
}
