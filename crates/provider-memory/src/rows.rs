//! Rows, as the store keeps them and as a [`Snapshot`](crate::Snapshot) shows them.

use perdure_engine::{EventId, ExecutionId, Payload};
use perdure_provider::{
    Candidate, Epoch, InstanceKey, Newest, Status, Suspicion, TaskName, TrialStep, Worker, WorkerId,
};

/// Current state of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceRow {
    /// The store's name of it.
    pub key: InstanceKey,
    /// The user's name of it.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration, now.
    pub version: String,
    /// Current execution.
    pub execution: ExecutionId,
    /// Status.
    pub status: Status,
    /// Who has it; only while it is Pending or Running.
    pub owner: Option<WorkerId>,
    /// How often it was acquired.
    pub epoch: Epoch,
    /// Id that the next event of the current execution gets.
    pub next_event_id: EventId,
    /// Committed turns of the current execution; 0: it is fresh.
    pub turns: u64,
    /// When it is due, ms since 1970; only while it is Pending or Running and nobody has it.
    pub wake_at_ms: Option<i64>,
    /// Custom status as the driver encoded it.
    pub custom_status: Payload,
    /// How many changes of the custom status were stored.
    pub custom_status_version: u64,
    /// Higher is acquired first.
    pub priority: i32,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// Who is told of its end, if it is a child.
    pub parent: Option<Parent>,
    /// Tags as a JSON object of strings made by the driver.
    pub tags: Option<String>,
    /// Why it is Suspended.
    pub report: Option<String>,
    /// Fingerprint of the code that did not fit its history; only while it is Suspended because of that.
    pub unfit_code: Option<String>,
    /// When it was started, ms since 1970.
    pub created_at_ms: i64,
    /// When it last changed, ms since 1970.
    pub updated_at_ms: i64,
    /// When it ended, ms since 1970.
    pub completed_at_ms: Option<i64>,
    /// How many messages wait for it.
    pub unread: u64,
    /// What speaks against it (P14).
    pub suspicion: Suspicion,
    /// What its owner said last of a trial of it.
    pub on_trial: TrialStep,
}

/// The execution that a child tells of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parent {
    /// Its instance, which may be gone.
    pub key: InstanceKey,
    /// The execution that started the child.
    pub execution: ExecutionId,
    /// The event that started it.
    pub event: EventId,
}

impl InstanceRow {
    /// Whether a worker has it, since it was acquired for the so many-th time (P2).
    pub(crate) fn is_owned(&self, worker: &WorkerId, epoch: Epoch) -> bool {
        self.owner.as_ref() == Some(worker) && self.epoch == epoch
    }

    /// Nobody has it any more, and with that a trial of it is over (P7). It is due at a time, or sleeps.
    pub(crate) fn disown(&mut self, wake_at_ms: Option<i64>) {
        self.owner = None;
        self.on_trial = TrialStep::End;
        self.wake_at_ms = wake_at_ms;
    }

    /// What a filter looks at.
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

    /// Columns that say who may do something with the instance fit each other, or it is a defect of this crate.
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

/// An attempt that waits for a worker, or is run by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Which one.
    pub task: TaskName,
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
    /// Who runs it.
    pub worker: Option<WorkerId>,
}

/// A registered worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRow {
    /// Which, with its lease.
    pub worker: Worker,
    /// What it tells of itself.
    pub about: Option<String>,
    /// The newest version of each orchestration that it has.
    pub newest: Newest,
}
