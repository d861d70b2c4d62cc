//! The trait that every store implements.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox};

use crate::{
    Acquire, Acquired, AcquiredTasks, Change, CheckRequest, Checked, Epoch, GiveBack, GivenBack, Inbox, InboxPosition,
    Inspection, InstanceKey, InstanceStatus, ListPage, ListRequest, Load, Loaded, MessagePage, NewWorker, Newest,
    Outcome, Overdue, PageLimit, ProviderError, ProviderErrorKind, PruneExecutions, PruneRequest, Pruned,
    PrunedExecutions, Renewal, ResumeUnfit, StoreStats, TakenOver, TaskName, TaskRequest, TextChange, TextPage,
    TextRequest, Unfit, Worker, WorkerId, Write,
};

/// What is told when a batch is durable, or was not written. Called once, from a thread or a task of the provider and never within the call
/// that handed the batch over, whose caller may hold a lock that it takes; it must not block.
pub type CommitDone = Box<dyn FnOnce(Result<Vec<Outcome>, ProviderError>) + Send>;

/// Told what another process may have done to the store. It must not block.
pub type ChangeListener = Box<dyn Fn(&Change) + Send + Sync>;

/// Told that the answer to a batch is on its way. It must not block.
pub type AnswerListener = Box<dyn Fn() + Send + Sync>;

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
    /// Values are encoded on their way into the store: what is no value must not hold any.
    pub hides_values: bool,
}

/// A store.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Facts about it.
    fn info(&self) -> ProviderInfo;

    /// Write a batch (P1, P2; shared so that the caller still has it if it fails) and call `done` with one outcome for each write, in order. An error means that nothing of the batch was written,
    /// and that nothing of it will be: a provider that cannot know resolves that itself before it answers. An error whose [outcome](crate::CommitOutcome) is `Unknown` says that it could
    /// not: the same batch again is then written once at most, as long as the process lives.
    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone);

    /// Call `listener` when the store has answered and it has yet to be found out what, so that a thread which waits for that is awake when
    /// it is told. It may be called in vain, and a provider whose answers are there at once does not call it.
    fn on_answer_coming(&self, _listener: AnswerListener) {}

    /// Call `listener` when another process may have written to the store.
    fn on_foreign_change(&self, listener: ChangeListener);

    /// Add a worker whose lease starts now. Returns what the store's clock shows, ms since 1970.
    async fn register_worker(&self, worker: NewWorker) -> Result<i64, ProviderError>;

    /// Let a worker's lease start again now, and tell what the worker owns at that moment. `None`: it is not registered any more, its
    /// instances are others'. With `about` it tells something else of itself from now on, and `None` leaves that as it is.
    async fn renew_worker(
        &self,
        worker: &WorkerId,
        lease_ms: u64,
        about: Option<&str>,
    ) -> Result<Option<Renewal>, ProviderError>;

    /// Up to `limit` instances that a worker owns, by key, those after a key; with the epoch of their acquisition.
    async fn owned_by(
        &self,
        worker: &WorkerId,
        after: InstanceKey,
        limit: usize,
    ) -> Result<Vec<(InstanceKey, Epoch)>, ProviderError>;

    /// A worker has other orchestrations from now on, of each the newest version; nothing, when it is not registered any more.
    async fn tell_orchestrations(&self, worker: &WorkerId, newest: Newest) -> Result<(), ProviderError>;

    /// Every registered worker.
    async fn workers(&self) -> Result<Vec<Worker>, ProviderError>;

    /// Remove a worker that leaves in good order and release what it owns, due at once (P7). Returns how many instances that were; 0 when
    /// it is not registered.
    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError>;

    /// [`release_worker`](Self::release_worker) for a worker that has died, which speaks against what it owned (P14); `report` says why
    /// an instance is suspended by that. What is under suspicion rests before it is due.
    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError>;

    /// [`take_over_worker`](Self::take_over_worker) for each worker whose lease has ended.
    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError>;

    /// Release what a worker owns and runs, due at once, but for what it keeps (P7, P14).
    async fn give_back(&self, request: GiveBack) -> Result<GivenBack, ProviderError>;

    /// Take due instances (P3, P4). Nothing is read of them but their rows: they are to be [loaded](Self::load).
    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError>;

    /// What is stored of some instances, in the order of the request. Of one whose rows cannot be read the error says which, and it hides no
    /// other. It keeps nobody from writing.
    async fn load(&self, request: Load) -> Result<Vec<Result<Loaded, ProviderError>>, ProviderError>;

    /// Take due tasks of some queues and activities (P12).
    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError>;

    /// Note activities that somebody here can run, and return the names of all that anybody ever could, in order.
    async fn know_activities(&self, names: Vec<String>) -> Result<Vec<String>, ProviderError>;

    /// The tasks that a worker runs.
    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError>;

    /// Let suspended instances go on as [`Write::Resume`] does, those whose suspension named other code than that of the request; returns
    /// which, in order, `limit` of them when there may be more. A request after the last of them never meets an instance twice under one code,
    /// so that a worker which goes through all of them comes to an end even where another one suspends them again.
    async fn resume_unfit(&self, request: ResumeUnfit) -> Result<Vec<Unfit>, ProviderError>;

    /// A page of the events of an execution from event `from` on, in order. One that is not [full](PageLimit::is_reached), by
    /// [`EventRecord::bytes`], is the last.
    async fn read_history(
        &self,
        key: InstanceKey,
        execution: ExecutionId,
        from: EventId,
        limit: PageLimit,
    ) -> Result<Vec<EventRecord>, ProviderError>;

    /// A page of the messages that wait for instances which the worker owns, those that became visible since a position was returned; some
    /// may come a second time. Of one whose row cannot be read there is the number: [`read_messages`](Self::read_messages) of its
    /// instance says what is wrong, and it hides no other. What was taken from the worker is told with them (P15).
    async fn read_inbox(
        &self,
        worker: &WorkerId,
        since: &InboxPosition,
        limit: PageLimit,
    ) -> Result<Inbox, ProviderError>;

    /// A page of the messages that wait for one instance in these of its mailboxes, or in any, the oldest first; and a page of those that are no
    /// mail, whose rows are not limited: see [`MessagePage`].
    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: PageLimit,
    ) -> Result<MessagePage, ProviderError>;

    /// Status of each id, in the order given; `None` where there is no such instance. Of the first ids alone, but at least one, where the
    /// results and custom statuses of more would have more than [`LIST_BYTES_MAX`](crate::LIST_BYTES_MAX): the others are to be asked for again.
    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError>;

    /// The id of each key, in order; `None` where there is no such instance.
    async fn ids_of(&self, keys: Vec<InstanceKey>) -> Result<Vec<Option<String>>, ProviderError>;

    /// Instances that match a filter, the newest first: by creation, and by key where that is the same. All of a page is seen at one moment.
    async fn list(&self, request: ListRequest) -> Result<ListPage, ProviderError>;

    /// Delete instances that match a filter and have ended, as [`Write::Delete`] does, the longest ended first: by end, and by key where that
    /// is the same. A [`sweep`](Self::sweep) is to follow.
    async fn prune(&self, request: PruneRequest) -> Result<Pruned, ProviderError>;

    /// Delete the histories of former executions, instance by instance in order of their keys, the oldest first and each from its last event
    /// on: whoever reads one meanwhile finds no gap. Nothing else of an instance changes, and it need not have ended.
    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError>;

    /// Take away up to `limit` events that deleted instances have left (P13). `true`: there may be more.
    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError>;

    /// Texts of values with what says whose they are, row by row: so that each can be encoded anew. A row that is written meanwhile may be
    /// missed; one that was there before is not.
    async fn stored_texts(&self, request: TextRequest) -> Result<TextPage, ProviderError>;

    /// Put texts in the place of others, each only where it is still as it was read; returns how many were. All or nothing of the others. Nothing else
    /// changes, whoever owns an instance keeps it, and nobody is told.
    async fn replace_texts(&self, changes: Vec<TextChange>) -> Result<usize, ProviderError>;

    /// How much there is of what, all at one moment, without walking over what has ended or sleeps row by row.
    async fn stats(&self) -> Result<StoreStats, ProviderError>;

    /// What is overdue, by orchestration and version: the longest due first, at most [`OVERDUE_SORTS_MAX`](crate::OVERDUE_SORTS_MAX) sorts.
    async fn overdue(&self) -> Result<Vec<Overdue>, ProviderError>;

    /// How it is set up and who works on it. It is for people: the rows of what is owned are counted one by one.
    async fn inspect(&self) -> Result<Inspection, ProviderError>;

    /// Look for rows that are not as they must be, a few instances at a time and all of a step at one moment: see
    /// [`Examination`](crate::Examination). Workers may go on meanwhile.
    async fn check(&self, request: CheckRequest) -> Result<Checked, ProviderError>;

    /// Copy the store as it is at one moment into a file, durably, while it is in use; the bytes of the copy. A file that is there is kept
    /// unless it is to be replaced. A store that is no file has other ways.
    async fn back_up(&self, _to: PathBuf, _replace: bool) -> Result<u64, ProviderError> {
        let message = "only a store in a SQLite file is copied into another file";
        Err(ProviderError::new(ProviderErrorKind::CannotOpen, message))
    }

    /// Finish what was handed over, then close. Later calls answer [`Closed`](crate::ProviderErrorKind::Closed).
    async fn close(&self);
}
