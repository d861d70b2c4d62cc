//! The trait that every store implements.

use std::sync::Arc;

use async_trait::async_trait;
use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox, MessageSeq};

use crate::{
    Acquire, Acquired, AcquiredTasks, Inbox, InstanceKey, InstanceStatus, MessagePage, NewWorker, Outcome,
    ProviderError, ResumeUnfit, TaskName, TaskRequest, Unfit, Worker, WorkerId, Write,
};

/// What is told when a batch is durable, or was not written. Called once, on a thread of the provider; it must not block.
pub type CommitDone = Box<dyn FnOnce(Result<Vec<Outcome>, ProviderError>) + Send>;

/// Called when another process may have written to the store. It must not block.
pub type ChangeListener = Box<dyn Fn() + Send + Sync>;

/// Facts about an opened store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderInfo {
    /// `sqlite` or `postgres`.
    pub kind: &'static str,
    /// Where it is, without secrets.
    pub location: String,
    /// How many batches may be in the making at once.
    pub concurrent_commits: usize,
    /// Most writes that one batch may hold.
    pub batch_max: usize,
}

/// A store.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Facts about it.
    fn info(&self) -> ProviderInfo;

    /// Write a batch (P1, P2; shared so that the caller still has it if it fails) and call `done` with one outcome for each write, in order. An error means that nothing of the batch was written;
    /// a provider that cannot know resolves that itself before it answers.
    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone);

    /// Call `listener` when another process may have written to the store.
    fn on_foreign_change(&self, listener: ChangeListener);

    /// Add a worker whose lease starts now.
    async fn register_worker(&self, worker: NewWorker) -> Result<(), ProviderError>;

    /// Let a worker's lease start again now. `false`: it is not registered any more, its instances are others'.
    async fn renew_worker(&self, worker: &WorkerId, lease_ms: u64) -> Result<bool, ProviderError>;

    /// Every registered worker.
    async fn workers(&self) -> Result<Vec<Worker>, ProviderError>;

    /// Remove a worker and release what it owns, due at once (P7). Returns how many instances that were; 0 when it is not registered.
    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError>;

    /// [`release_worker`](Self::release_worker) for each worker whose lease has ended; returns them.
    async fn release_expired_workers(&self) -> Result<Vec<WorkerId>, ProviderError>;

    /// Take due instances (P3, P4).
    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError>;

    /// Take due tasks of some queues and activities (P12).
    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError>;

    /// The tasks that a worker runs.
    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError>;

    /// Let suspended instances go on as [`Write::Resume`] does, those whose suspension named other code than that of the request; returns
    /// which, in order, `limit` of them when there may be more. A request after the last of them never meets an instance twice under one code,
    /// so that a worker which goes through all of them comes to an end even where another one suspends them again.
    async fn resume_unfit(&self, request: ResumeUnfit) -> Result<Vec<Unfit>, ProviderError>;

    /// Up to `limit` events of an execution from event `from` on, in order.
    async fn read_history(
        &self,
        key: InstanceKey,
        execution: ExecutionId,
        from: EventId,
        limit: usize,
    ) -> Result<Vec<EventRecord>, ProviderError>;

    /// Up to `limit` messages after `after` that wait for instances which the worker owns, in order (P5). Of one whose row cannot be
    /// read there is the number: [`read_messages`](Self::read_messages) of its instance says what is wrong, and it hides no other.
    async fn read_inbox(&self, worker: &WorkerId, after: MessageSeq, limit: usize) -> Result<Inbox, ProviderError>;

    /// Up to `limit` messages that wait for one instance in these of its mailboxes, or in any, the oldest first; and all that are no mail.
    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: usize,
    ) -> Result<MessagePage, ProviderError>;

    /// Status of each id, in the order given; `None` where there is no such instance.
    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError>;

    /// Finish what was handed over, then close. Later calls answer [`Closed`](crate::ProviderErrorKind::Closed).
    async fn close(&self);
}
