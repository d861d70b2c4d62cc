//! Rows and their keys, as the store keeps them and as a [`Snapshot`](crate::Snapshot) shows them.

use perdure_engine::{Answer, EventId, ExecutionId, Payload};
use perdure_provider::{
    Candidate, EntryKey, Epoch, InstanceKey, Newest, ProbationStep, QueueEntry, QueuePlace, Status, StreamChunk,
    Suspicion, TaskName, Worker, WorkerId,
};

/// The current state of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceRow {
    /// The store's name of the instance.
    pub key: InstanceKey,
    /// The user's name of the instance.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration, now.
    pub version: String,
    /// Current execution.
    pub execution: ExecutionId,
    /// Status.
    pub status: Status,
    /// Owner of the instance; only while the instance is Pending or Running.
    pub owner: Option<WorkerId>,
    /// The worker whose turn released the instance last.
    pub released_by: Option<WorkerId>,
    /// Number of acquisitions.
    pub epoch: Epoch,
    /// Id that the next event of the current execution gets.
    pub next_event_id: EventId,
    /// Committed turns of the current execution; 0 if the execution is fresh.
    pub turns: u64,
    /// Time at which the instance is due, ms since 1970; only while it is Pending or Running and has no owner.
    pub wake_at_ms: Option<i64>,
    /// Custom status as the driver encoded it.
    pub custom_status: Payload,
    /// Number of changes of the custom status that were stored.
    pub custom_status_version: u64,
    /// Number of turns that changed the state.
    pub state_version: u64,
    /// The work that the last turn waits for, as text.
    pub open_work: Option<String>,
    /// An instance of a higher priority is acquired first.
    pub priority: i32,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// Execution that is told of the end, if the instance is a child.
    pub parent: Option<Parent>,
    /// Tags as a JSON object of strings made by the driver.
    pub tags: Option<String>,
    /// Due time that the instance had when it was suspended before any worker acquired it; only while it is Suspended.
    pub start_at_ms: Option<i64>,
    /// Reason of the suspension; only while the instance is Suspended.
    pub report: Option<String>,
    /// Fingerprint of the code that did not fit the history; only while the instance is Suspended because of that.
    pub mismatched_code: Option<String>,
    /// Time of the start, ms since 1970.
    pub created_at_ms: i64,
    /// Time of the last change, ms since 1970.
    pub updated_at_ms: i64,
    /// Time of the end, ms since 1970.
    pub completed_at_ms: Option<i64>,
    /// Number of messages that wait for the instance.
    pub unread: u64,
    /// The suspicion against the instance (P14).
    pub suspicion: Suspicion,
    /// The last step of a probation that the owner announced.
    pub probation: ProbationStep,
}

/// The execution that a child tells of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parent {
    /// Instance of the execution, which may be gone.
    pub key: InstanceKey,
    /// The execution that started the child.
    pub execution: ExecutionId,
    /// The event that started the child.
    pub event: EventId,
}

impl InstanceRow {
    /// Returns true if the worker owns the instance in this epoch (P2).
    pub(crate) fn is_owned(&self, worker: &WorkerId, epoch: Epoch) -> bool {
        self.owner.as_ref() == Some(worker) && self.epoch == epoch
    }

    /// Clears the owner, which also ends a probation of the instance (P7). The instance is due at a time, or sleeps.
    pub(crate) fn disown(&mut self, wake_at_ms: Option<i64>) {
        self.owner = None;
        self.probation = ProbationStep::End;
        self.wake_at_ms = wake_at_ms;
    }

    /// Returns the facts that a filter looks at.
    pub(crate) fn candidate(&self) -> Candidate<'_> {
        Candidate {
            id: &self.id,
            name: &self.name,
            version: &self.version,
            status: self.status,
            parent_id: self.parent_id.as_deref(),
            tags: self.tags.as_deref(),
            created_at_ms: self.created_at_ms,
            completed_at_ms: self.completed_at_ms,
        }
    }

    /// Asserts that the columns for status, owner, due time and end fit each other. A mismatch is a defect of this
    /// crate.
    pub(crate) fn check(&self) {
        let is_active = matches!(self.status, Status::Pending | Status::Running);
        assert!(
            is_active || self.owner.is_none(),
            "only what is active has an owner: {self:?}"
        );
        let may_wake = is_active && self.owner.is_none();
        assert!(
            may_wake || self.wake_at_ms.is_none(),
            "only what is active and unowned is due: {self:?}"
        );
        assert_eq!(
            self.status.is_terminal(),
            self.completed_at_ms.is_some(),
            "only what has ended has a time of its end: {self:?}"
        );
    }
}

/// The latest heartbeat of an open activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptHeartbeat {
    pub(crate) details: String,
    /// Time of the last change, ms since 1970.
    pub(crate) time_ms: i64,
}

/// An attempt that waits for a worker, or is run by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// The identity of the attempt.
    pub task: TaskName,
    /// The queue that the attempt is offered in.
    pub queue: String,
    /// Name of the activity.
    pub name: String,
    /// An attempt of a higher priority is taken first.
    pub priority: i32,
    /// Earliest time at which the attempt may be taken, ms since 1970.
    pub due_at_ms: i64,
    /// Time at which all attempts together are to be over, ms since 1970.
    pub deadline_ms: Option<i64>,
    /// Longest wait for a worker, ms; 0 for an attempt that was taken late (P28).
    pub start_within_ms: Option<i64>,
    /// Time at which the attempt is late if no worker has it, ms since 1970.
    pub start_by_ms: Option<i64>,
    /// The worker that runs the attempt.
    pub worker: Option<WorkerId>,
    /// Session of the activity in its queue.
    pub session: Option<String>,
    /// [`ROUTE_ANY`](perdure_provider::ROUTE_ANY), [`ROUTE_OPEN`](perdure_provider::ROUTE_OPEN),
    /// [`ROUTE_LINE`](perdure_provider::ROUTE_LINE), or the worker that holds the session.
    pub route: String,
    /// The place in the queue, if its limits concern the attempt (P27).
    pub place_key: Option<EntryKey>,
}

/// A session of activities that a worker holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The queue of the session.
    pub queue: String,
    /// Name of the session.
    pub session: String,
    /// The worker that holds the session.
    pub worker: WorkerId,
    /// Time without a task after which the session is unbound, ms.
    pub idle_ms: i64,
    /// When a task of it was last routed, taken or done, ms since 1970.
    pub used_at_ms: i64,
}

/// A registered worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRow {
    /// The worker, with its lease.
    pub worker: Worker,
    /// The worker's description of itself.
    pub description: Option<String>,
    /// The newest version of each orchestration that the worker has.
    pub newest: Newest,
}

/// The place of an instance in a queue, until it has ended or is gone, or that of an attempt, as long as its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlaceRow {
    /// The queue and the key.
    pub entry: QueueEntry,
    /// The attempt. `None`: the place is that of an instance.
    pub task: Option<TaskName>,
    /// The state in the queue.
    pub place: QueuePlace,
    /// The round in which its key gets this slot.
    pub turn: i64,
    /// When it began to wait, or will, ms since 1970.
    pub queued_at_ms: i64,
}

/// The queue and the name of a session.
pub(crate) type SessionKey = (String, String);

/// The name of a rule, a scope and a key.
pub(crate) type StartKey = (&'static str, String, String);

/// The instance that a key has.
#[derive(Clone, Debug)]
pub(crate) struct StartKeyRow {
    pub(crate) instance: InstanceKey,
    /// When the key got it, ms since 1970.
    pub(crate) since_ms: i64,
    /// Number of inputs, if it is the instance of a batch.
    pub(crate) inputs: u32,
}

/// Key of a value: its instance and its name.
pub(crate) type ValueKey = (InstanceKey, String);

/// Key of an ask: its instance and its id.
pub(crate) type AskKey = (InstanceKey, String);

/// An ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskRow {
    /// The answer, with its number among the answers of the instance, from 1.
    pub(crate) answer: Option<(u64, Answer)>,
}

/// Key of a stream: its instance and its name.
pub(crate) type StreamKey = (InstanceKey, String);

/// A stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamRow {
    /// Index of the next entry.
    pub(crate) next: u64,
    pub(crate) is_closed: bool,
}

/// Key of a chunk: its instance, the name of its stream, and the index of its first entry.
pub(crate) type ChunkKey = (InstanceKey, String, u64);

/// A chunk.
#[derive(Clone, Debug)]
pub(crate) struct ChunkRow {
    pub(crate) chunk: StreamChunk,
    /// The time at which the chunk may be deleted, ms since 1970; `None`: never.
    pub(crate) expires_at_ms: Option<i64>,
}

/// Key of an activity that writes to a stream: its instance, its execution, its schedule, and the name of the stream.
pub(crate) type WriterKey = (InstanceKey, ExecutionId, EventId, String);

/// An activity that writes to a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterRow {
    /// Index of its first entry.
    pub(crate) first: u64,
    /// Index of the first entry of its last run.
    pub(crate) run: u64,
}
