//! The open work of one instance, for people who ask what the instance waits for.

use perdure_engine::{EventId, Payload};

use crate::{InstanceStatus, QueuePlace, WorkerId};

/// Most heartbeats, and most attempts for other workers, that are read of one instance.
pub const OPEN_WORK_ROWS_MAX: usize = 1_000;

/// The open work of an instance, all of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenWork {
    /// Status of the instance.
    pub status: InstanceStatus,
    /// The work that the last turn waits for, as text ([`TurnCommit::open_work`](crate::TurnCommit::open_work)).
    pub open_work: Option<String>,
    /// The event that follows in the current execution.
    pub next_event_id: EventId,
    /// Number of messages that wait for the instance.
    pub unread: u64,
    /// The worker that owns the instance.
    pub owner: Option<WorkerId>,
    /// The time at which it is due, ms since 1970, if no worker owns it and it waits for a time.
    pub due_at_ms: Option<i64>,
    /// Its place in its queue. The row of an instance that has ended may be there for a while.
    pub queued: Option<QueuedPlace>,
    /// Latest heartbeats of open activities of the current execution, by schedule.
    pub heartbeats: Vec<LastHeartbeat>,
    /// Attempts of the current execution that are offered to other workers, by schedule.
    pub tasks: Vec<OpenTask>,
}

/// The place of an instance or an attempt in its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedPlace {
    /// The queue.
    pub queue: String,
    /// The key in the queue; empty: none.
    pub key: String,
    /// The place.
    pub place: QueuePlace,
    /// When it came into line, or will, ms since 1970.
    pub queued_at_ms: i64,
    /// Since when the queue is paused, ms since 1970; `None`: it is not.
    pub paused_at_ms: Option<i64>,
}

/// The latest heartbeat of an open activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastHeartbeat {
    /// The activity's schedule.
    pub scheduled: EventId,
    /// The details.
    pub details: Payload,
    /// Time at which they were stored, ms since 1970.
    pub time_ms: i64,
}

/// An attempt that is offered to other workers, or that one of them runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTask {
    /// The activity's schedule.
    pub scheduled: EventId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The queue that the attempt is offered in.
    pub queue: String,
    /// The session of the activity in the queue.
    pub session: Option<String>,
    /// The worker that runs the attempt. `None`: the attempt waits for one.
    pub worker: Option<WorkerId>,
    /// Its place in the queue, if the queue was set when it was offered.
    pub queued: Option<QueuedPlace>,
}
