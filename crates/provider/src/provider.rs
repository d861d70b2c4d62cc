//! The trait that every store implements.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox};

use crate::{
    Acquire, Acquired, AcquiredTasks, AskName, AskState, Change, CheckRequest, Checked, Due, DueRequest, Epoch,
    ExecutionSummary, ExecutionsRequest, Footprint, Inbox, InboxPosition, Inspection, InstanceKey, InstanceStatus,
    ListPage, ListRequest, Load, Loaded, LogPage, LogRequest, MessagePage, Mismatched, NewWorker, Newest, OpenWork,
    Outcome, OverdueRequest, OverdueWork, PageLimit, ProviderError, ProviderErrorKind, PruneExecutions, PruneRequest,
    Pruned, PrunedExecutions, QueueDeletion, QueueInfo, QueueSettings, ReleaseMost, ReleasedMost, Renewal,
    ResumeMismatched, StateRequest, StoreStats, StoredState, StreamInfo, StreamName, StreamPage, StreamRequest,
    StreamState, TakenOver, Takeover, TaskName, TaskRequest, TextChange, TextPage, TextRequest, Worker, WorkerId,
    Write,
};

/// The callback that receives the result of a batch: its outcomes once the batch is durable, or the error if it was not
/// written. It is called once, from a thread or a task of the provider. It is never called within the call that handed
/// the batch over, because the caller of that may hold a lock that the callback takes. It must not block.
pub type CommitDone = Box<dyn FnOnce(Result<Vec<Outcome>, ProviderError>) + Send>;

/// The callback that is told which parts of the store another process may have changed. It must not block.
pub type ChangeListener = Box<dyn Fn(&Change) + Send + Sync>;

/// The callback that is told that the answer to a batch is on its way. It must not block.
pub type AnswerListener = Box<dyn Fn() + Send + Sync>;

/// Facts about an opened store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderInfo {
    /// `sqlite` or `postgres`.
    pub kind: &'static str,
    /// The place of the store, without secrets.
    pub location: String,
    /// Number of batches that may be in the making at once.
    pub concurrent_commits: usize,
    /// Highest number of writes in one batch.
    pub batch_max: usize,
    /// True if values are encoded on their way into the store. Fields that are not values must then not hold any.
    pub hides_values: bool,
}

/// A store.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Returns facts about the store.
    fn info(&self) -> ProviderInfo;

    /// Writes a batch (P1, P2) and calls `done` with one outcome for each write, in order. The batch is shared so that
    /// the caller still has it if the write fails.
    ///
    /// An error means that nothing of the batch was written and that nothing of it will be: a provider that cannot know
    /// this resolves it before it answers. An error whose [outcome](crate::CommitOutcome) is `Unknown` says that the
    /// provider could not resolve it. The same batch, committed again, is then written once at most, as long as the
    /// process lives.
    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone);

    /// Registers a listener that is called when the store has answered and the answer has yet to be read. A thread that
    /// waits for the answer is then already awake when the answer reaches it. The listener may be called in vain. A
    /// provider whose answers are there at once does not call it.
    fn on_answer_coming(&self, _listener: AnswerListener) {}

    /// Registers a listener that is called when another process may have written to the store.
    fn on_foreign_change(&self, listener: ChangeListener);

    /// Adds a worker whose lease starts now. Returns the time of the store's clock, ms since 1970.
    async fn register_worker(&self, worker: NewWorker) -> Result<i64, ProviderError>;

    /// Starts a worker's lease again now, and returns what the worker owns at that moment. Returns `None` if the worker
    /// is no longer registered; its instances then belong to others. `Some` as `description` replaces the worker's
    /// description of itself; `None` leaves it as it is.
    async fn renew_worker(
        &self,
        worker: &WorkerId,
        lease_ms: u64,
        description: Option<&str>,
    ) -> Result<Option<Renewal>, ProviderError>;

    /// Returns up to `limit` instances that a worker owns, by key, from the first after the key `after`, each with the
    /// epoch of its acquisition.
    async fn owned_by(
        &self,
        worker: &WorkerId,
        after: InstanceKey,
        limit: usize,
    ) -> Result<Vec<(InstanceKey, Epoch)>, ProviderError>;

    /// Replaces the newest version of each orchestration that a worker has. Changes nothing if the worker is no longer
    /// registered.
    async fn announce_versions(&self, worker: &WorkerId, newest: Newest) -> Result<(), ProviderError>;

    /// Returns every registered worker.
    async fn workers(&self) -> Result<Vec<Worker>, ProviderError>;

    /// Removes a worker that leaves in good order and releases its instances, due at once (P7). Returns the number of
    /// these instances; 0 if the worker is not registered.
    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError>;

    /// Does the same as [`release_worker`](Self::release_worker) for a worker that has died, which adds suspicion to
    /// each instance that it owned (P14). `report` says why an instance is suspended by that. An instance with evidence
    /// against it rests before it is due.
    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError>;

    /// Does the same as [`take_over_worker`](Self::take_over_worker) for each worker whose lease has ended.
    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError>;

    /// Releases the instances that a worker owns and the tasks that it runs, due at once, except those that it keeps
    /// (P7, P14).
    async fn release_most(&self, request: ReleaseMost) -> Result<ReleasedMost, ProviderError>;

    /// Acquires due instances, and instances in line for a slot if there is room left (P3, P4, P24). Only their rows
    /// are read: the caller is to [load](Self::load) the rest.
    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError>;

    /// Returns the instances that are due, with their messages, and acquires none. A worker that has kept the generator
    /// of one can run its turn at once: the turn [acquires](crate::TurnCommit::wakes) the instance (P20).
    async fn due(&self, request: DueRequest) -> Result<Due, ProviderError>;

    /// Sets the limits of a queue, and makes the queue if there is none (P24). Returns false if it would be more than
    /// [`QUEUES_MAX`](crate::QUEUES_MAX) queues. The limits hold for each admission from then on; instances that have a
    /// slot keep it.
    async fn set_queue(&self, name: String, settings: QueueSettings) -> Result<bool, ProviderError>;

    /// Pauses a queue, or ends its pause (P30). Returns false if there is no such queue. A queue that is paused already
    /// stays so, since the same time.
    async fn pause_queue(&self, name: String, is_paused: bool) -> Result<bool, ProviderError>;

    /// Deletes a queue, unless instances are in it.
    async fn delete_queue(&self, name: String) -> Result<QueueDeletion, ProviderError>;

    /// Returns the queue of a name, or all queues, in order of the bytes of their names. Each instance that waits is
    /// counted, so this is for people.
    async fn queues(&self, name: Option<String>) -> Result<Vec<QueueInfo>, ProviderError>;

    /// Returns what is stored of each requested instance, in the order of the request. The error of an instance says
    /// which of its rows cannot be read, and does not hide the other instances. A load does not block writes.
    async fn load(&self, request: Load) -> Result<Vec<Result<Loaded, ProviderError>>, ProviderError>;

    /// Acquires due tasks of the requested queues and activities (P12).
    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError>;

    /// Notes activities that a worker of this process can run. Returns the names of all activities that any worker
    /// could ever run, in order.
    async fn announce_activities(&self, names: Vec<String>) -> Result<Vec<String>, ProviderError>;

    /// Returns the tasks that a worker runs.
    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError>;

    /// Resumes suspended instances, as [`Write::Resume`] does, whose suspension named other code than that of the
    /// request. Returns these instances in order; if there are `limit` of them, there may be more. A request that
    /// starts after the last of them never meets an instance twice under one code. A worker that goes through all of
    /// them therefore comes to an end, even where another worker suspends them again.
    async fn resume_mismatched(&self, request: ResumeMismatched) -> Result<Vec<Mismatched>, ProviderError>;

    /// Returns a page of the events of an execution, from event `from` on, in order. A page that is not
    /// [full](PageLimit::is_reached), by [`EventRecord::bytes`], is the last one.
    async fn read_history(
        &self,
        key: InstanceKey,
        execution: ExecutionId,
        from: EventId,
        limit: PageLimit,
    ) -> Result<Vec<EventRecord>, ProviderError>;

    /// Returns a page of the executions of an instance whose histories are stored, the newest first. Only the page
    /// after the last execution is empty. No history is read as a whole.
    async fn executions(&self, request: ExecutionsRequest) -> Result<Vec<ExecutionSummary>, ProviderError>;

    /// Returns the room that an instance takes, all at one moment. Each event of its histories is looked at, but no
    /// value is read.
    async fn footprint(&self, key: InstanceKey) -> Result<Footprint, ProviderError>;

    /// Returns the last [`TAKEOVERS_KEPT`](crate::TAKEOVERS_KEPT) takeovers of dead workers that an instance lived
    /// through, in the order of their times.
    async fn takeovers(&self, key: InstanceKey) -> Result<Vec<Takeover>, ProviderError>;

    /// Returns a page of the messages that wait for instances of the worker and became visible since a position was
    /// returned. A message may come a second time. A message whose row cannot be read is represented by its number:
    /// [`read_messages`](Self::read_messages) of its instance says what is wrong, and the damaged message hides no
    /// other one. The instances that were taken from the worker are told with the messages (P15).
    async fn read_inbox(
        &self,
        worker: &WorkerId,
        since: &InboxPosition,
        limit: PageLimit,
    ) -> Result<Inbox, ProviderError>;

    /// Returns a page of the mail that waits for one instance in the given mailboxes, or in any, the oldest first,
    /// together with a page of the messages that are not mail, whose number of rows is not limited: see
    /// [`MessagePage`].
    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: PageLimit,
    ) -> Result<MessagePage, ProviderError>;

    /// Returns the status of each id, in the order given; `None` where there is no such instance. The answer covers
    /// only the first ids, but at least one, if the results and custom statuses of more would exceed
    /// [`LIST_BYTES_MAX`](crate::LIST_BYTES_MAX) bytes. The caller is to ask again for the others.
    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError>;

    /// Returns the open work of an instance; `None`: there is no instance of that id. At most
    /// [`OPEN_WORK_ROWS_MAX`](crate::OPEN_WORK_ROWS_MAX) heartbeats, and as many attempts, are read.
    async fn open_work(&self, id: String) -> Result<Option<OpenWork>, ProviderError>;

    /// Returns the state of an instance, or one value of it; `None`: there is no instance of that id.
    async fn state(&self, request: StateRequest) -> Result<Option<StoredState>, ProviderError>;

    /// Returns the state of each ask, in the order given; `None` where there is no such ask. The answer covers only the
    /// first asks, but at least one, if the answers of more would exceed [`LIST_BYTES_MAX`](crate::LIST_BYTES_MAX)
    /// bytes. The caller is to ask again for the others.
    async fn asks(&self, names: Vec<AskName>) -> Result<Vec<Option<AskState>>, ProviderError>;

    /// Returns the state of each stream, all at one moment, in the order given; `None` where there is no such instance.
    /// A stream that was never written is empty.
    async fn streams(&self, names: Vec<StreamName>) -> Result<Vec<Option<StreamState>>, ProviderError>;

    /// Returns the streams of an instance, in the order of the bytes of their names; `None`: there is no instance of
    /// that id.
    async fn streams_of(&self, id: String) -> Result<Option<Vec<StreamInfo>>, ProviderError>;

    /// Returns a page of the entries of a stream; `None`: there is no such instance.
    async fn read_stream(&self, request: StreamRequest) -> Result<Option<StreamPage>, ProviderError>;

    /// Deletes up to `limit` chunks of streams whose time was over at a time, ms since 1970. Returns true if there may
    /// be more.
    async fn prune_streams(&self, now_ms: i64, limit: usize) -> Result<bool, ProviderError>;

    /// Returns lines that the code of an instance logged, in order; `None`: there is no instance of that id.
    async fn logs(&self, request: LogRequest) -> Result<Option<LogPage>, ProviderError>;

    /// Deletes up to `limit` lines that were logged before a time. Returns true if there may be more.
    async fn prune_logs(&self, before_ms: i64, limit: usize) -> Result<bool, ProviderError>;

    /// Returns the id of each key, in order; `None` where there is no such instance.
    async fn ids_of(&self, keys: Vec<InstanceKey>) -> Result<Vec<Option<String>>, ProviderError>;

    /// Returns the instances that match a filter, the newest first: by creation, and by key where that is the same. All
    /// instances of a page are seen at one moment.
    async fn list(&self, request: ListRequest) -> Result<ListPage, ProviderError>;

    /// Deletes instances that match a filter and have ended, as [`Write::Delete`] does, the longest ended first: by
    /// end, and by key where that is the same. A [`sweep`](Self::sweep) is to follow.
    async fn prune(&self, request: PruneRequest) -> Result<Pruned, ProviderError>;

    /// Deletes the histories of former executions, instance by instance in order of their keys. The oldest execution
    /// goes first, and each one from its last event on, so that a concurrent reader finds no gap. Nothing else of an
    /// instance changes, and the instance need not have ended.
    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError>;

    /// Deletes up to `limit` events and chunks of streams that deleted instances have left (P13). Returns true if there
    /// may be more.
    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError>;

    /// Returns texts of values, row by row, with the facts that say to which instance, event or message each belongs,
    /// so that each can be encoded anew. A row that is written meanwhile may be missed; a row that was there before is
    /// not.
    async fn stored_texts(&self, request: TextRequest) -> Result<TextPage, ProviderError>;

    /// Replaces texts by others, each only where the stored text is still the one that was read. Returns the number of
    /// texts that were still so. The replacements are written all together or not at all. Nothing else changes, each
    /// instance keeps its owner, and no listener is called.
    async fn replace_texts(&self, changes: Vec<TextChange>) -> Result<usize, ProviderError>;

    /// Returns the counts of the store, all at one moment, without a walk over each row of the instances that have
    /// ended or sleep.
    async fn stats(&self) -> Result<StoreStats, ProviderError>;

    /// Returns the identity of the store: a text that no other store has, the same for each handle and for ever. A copy
    /// of a store has that of its original.
    async fn store_id(&self) -> Result<String, ProviderError>;

    /// Returns the work that has been due for longer than a time. At most [`OVERDUE_WALK_MAX`](crate::OVERDUE_WALK_MAX)
    /// sorts of instances and as many of attempts are looked at.
    async fn overdue(&self, request: OverdueRequest) -> Result<OverdueWork, ProviderError>;

    /// Returns how the store is set up and which workers use it. This is for people: the rows of owned instances and
    /// tasks are counted one by one.
    async fn inspect(&self) -> Result<Inspection, ProviderError>;

    /// Looks for rows that break a rule, a few instances at a time and all rows of a step at one moment: see
    /// [`Examination`](crate::Examination). Workers may go on meanwhile.
    async fn check(&self, request: CheckRequest) -> Result<Checked, ProviderError>;

    /// Copies the store as it is at one moment into a file, durably, while the store is in use. Returns the size of the
    /// copy in bytes. An existing file is kept unless `replace` is true. Stores that are not files have other ways.
    async fn back_up(&self, _to: PathBuf, _replace: bool) -> Result<u64, ProviderError> {
        let message = "only a SQLite store in a file can be copied to another file";
        Err(ProviderError::new(ProviderErrorKind::CannotOpen, message))
    }

    /// Finishes the writes that were handed over, then closes the store. Later calls answer
    /// [`Closed`](crate::ProviderErrorKind::Closed).
    async fn close(&self);
}
