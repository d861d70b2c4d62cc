//! The provider: one handle on a store, as one process has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox};
use perdure_provider::{
    Acquire, Acquired, AcquiredTasks, AskName, AskState, Change, ChangeListener, CheckRequest, Checked, CommitDone,
    Due, DueRequest, Epoch, ExecutionSummary, ExecutionsRequest, Footprint, Inbox, InboxPosition, Inspection,
    InstanceKey, InstanceStatus, ListPage, ListRequest, Load, Loaded, LogPage, LogRequest, MessagePage, Mismatched,
    NewWorker, Newest, OpenWork, Outcome, OverdueRequest, OverdueWork, PageLimit, Provider, ProviderError,
    ProviderInfo, PruneExecutions, PruneRequest, Pruned, PrunedExecutions, QueueDeletion, QueueInfo, QueueSettings,
    ReleaseMost, ReleasedMost, Renewal, ResumeMismatched, StateRequest, StoreStats, StoredState, StreamInfo,
    StreamName, StreamPage, StreamRequest, StreamState, TakenOver, Takeover, TaskName, TaskRequest, TextChange,
    TextPage, TextRequest, Worker, WorkerId, Write,
};
use tokio::runtime::Handle;

use crate::callbacks::Callbacks;
use crate::change_notifier::ChangeNotifier;
use crate::error::closed;
use crate::store::MemoryStore;
use crate::tables::Tables;
use crate::{
    acquire, asks, deletion, footprint, history, inbox, integrity, listing, logs, open_work, overdue, queues, state,
    stats, status, streams, suspicion, takeovers, tasks, texts, worker, write,
};

/// Most writes that one batch should hold: as many as for the other stores.
const BATCH_WRITES_MAX: usize = 1_024;

/// A handle on a [`MemoryStore`].
pub struct MemoryProvider {
    store: Arc<MemoryStore>,
    notifier: Arc<ChangeNotifier>,
    callbacks: Arc<Callbacks>,
    closed: AtomicBool,
}

impl MemoryProvider {
    /// Connects a handle: see [`MemoryStore::connect`].
    pub(crate) fn connect(store: &Arc<MemoryStore>) -> Arc<Self> {
        let callbacks = Callbacks::new(Handle::current());
        let notifier = ChangeNotifier::new(Arc::clone(&callbacks));
        store.add_waker(&notifier);
        Arc::new(Self {
            store: Arc::clone(store),
            notifier,
            callbacks,
            closed: AtomicBool::new(false),
        })
    }

    /// Returns the store of the handle.
    #[must_use]
    pub fn store(&self) -> &Arc<MemoryStore> {
        &self.store
    }

    /// Writes a batch as [`commit`](Provider::commit) does and returns its outcomes at once. This is for a provider in
    /// front of this one that gives the answer itself, late or never.
    ///
    /// # Errors
    ///
    /// Nothing of the batch was written: one of its writes is a defect of the caller, or the handle is closed.
    pub fn write(&self, batch: &[Write]) -> Result<Vec<Outcome>, ProviderError> {
        self.check_open()?;
        let run = |tables: &mut Tables| batch.iter().map(|write| write::run(tables, write)).collect();
        let outcomes: Vec<Outcome> = self.store.try_transaction(run)?;
        self.tell(&self.notifier.change_of(batch, &outcomes));
        Ok(outcomes)
    }

    fn check_open(&self) -> Result<(), ProviderError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        Ok(())
    }

    fn call<T>(&self, work: impl FnOnce(&mut Tables) -> T) -> Result<T, ProviderError> {
        self.check_open()?;
        Ok(self.store.transaction(work))
    }

    fn tell(&self, change: &Change) {
        self.store.tell(&self.notifier, change);
    }

    /// Tells the other handles that instances and tasks of a worker are due, for others, and that some instances may be
    /// suspended instead.
    fn released(&self, statuses: bool) {
        self.tell(&Change {
            work: true,
            tasks: true,
            statuses,
            ..Change::default()
        });
    }
}

#[async_trait]
impl Provider for MemoryProvider {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            kind: "memory",
            location: "memory".to_owned(),
            concurrent_commits: 1,
            batch_max: BATCH_WRITES_MAX,
            hides_values: false,
        }
    }

    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        let result = self.write(&batch);
        // The caller may keep the batch in case the write fails. It is the only holder again when it gets the result.
        drop(batch);
        let store = Arc::clone(&self.store);
        self.callbacks.push(move || {
            store.answers();
            done(result);
        });
    }

    fn on_foreign_change(&self, listener: ChangeListener) {
        self.notifier.add_listener(listener);
    }

    async fn register_worker(&self, worker: NewWorker) -> Result<i64, ProviderError> {
        self.notifier.add_worker(&worker.id);
        self.call(|tables| worker::register(tables, worker))
    }

    async fn renew_worker(
        &self,
        worker: &WorkerId,
        lease_ms: u64,
        description: Option<&str>,
    ) -> Result<Option<Renewal>, ProviderError> {
        self.call(|tables| worker::renew(tables, worker, lease_ms, description))
    }

    async fn owned_by(
        &self,
        worker: &WorkerId,
        after: InstanceKey,
        limit: usize,
    ) -> Result<Vec<(InstanceKey, Epoch)>, ProviderError> {
        self.call(|tables| worker::owned(tables, worker, after, limit))
    }

    async fn announce_versions(&self, worker: &WorkerId, newest: Newest) -> Result<(), ProviderError> {
        self.call(|tables| worker::announce_versions(tables, worker, newest))
    }

    async fn workers(&self) -> Result<Vec<Worker>, ProviderError> {
        self.call(|tables| worker::all(tables))
    }

    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError> {
        let released = self.call(|tables| worker::release(tables, worker))?;
        self.notifier.remove_worker(worker);
        self.released(false);
        Ok(released)
    }

    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError> {
        let taken = self.call(|tables| suspicion::take_over(tables, worker, report))?;
        self.released(!taken.poison_pills.is_empty());
        Ok(taken)
    }

    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError> {
        let taken = self.call(|tables| suspicion::take_over_expired(tables, report))?;
        if !taken.workers.is_empty() {
            self.released(!taken.poison_pills.is_empty());
        }
        Ok(taken)
    }

    async fn release_most(&self, request: ReleaseMost) -> Result<ReleasedMost, ProviderError> {
        let given = self.call(|tables| suspicion::release_most(tables, &request))?;
        self.released(given.poison_pill.is_some());
        Ok(given)
    }

    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError> {
        self.call(|tables| acquire::acquire(tables, &request))
    }

    async fn due(&self, request: DueRequest) -> Result<Due, ProviderError> {
        self.call(|tables| acquire::due(tables, &request))
    }

    async fn set_queue(&self, name: String, settings: QueueSettings) -> Result<bool, ProviderError> {
        let is_set = self.call(|tables| queues::set(tables, &name, &settings))?;
        self.tell(&Change::of_queues());
        Ok(is_set)
    }

    async fn pause_queue(&self, name: String, is_paused: bool) -> Result<bool, ProviderError> {
        let is_known = self.call(|tables| queues::pause(tables, &name, is_paused))?;
        if !is_paused {
            self.tell(&Change::of_queues());
        }
        Ok(is_known)
    }

    async fn delete_queue(&self, name: String) -> Result<QueueDeletion, ProviderError> {
        self.call(|tables| queues::delete(tables, &name))
    }

    async fn queues(&self, name: Option<String>) -> Result<Vec<QueueInfo>, ProviderError> {
        self.call(|tables| queues::list(tables, name.as_deref()))
    }

    async fn load(&self, request: Load) -> Result<Vec<Result<Loaded, ProviderError>>, ProviderError> {
        let load = |tables: &mut Tables| {
            let instances = request.instances.iter();
            instances.map(|one| Ok(acquire::load(tables, &request, *one))).collect()
        };
        self.call(load)
    }

    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError> {
        let acquired = self.call(|tables| tasks::acquire(tables, &request))?;
        if acquired.handed_on {
            self.tell(&Change::of_tasks());
        }
        Ok(acquired)
    }

    async fn announce_activities(&self, names: Vec<String>) -> Result<Vec<String>, ProviderError> {
        self.call(|tables| tasks::know(tables, names))
    }

    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError> {
        self.call(|tables| tasks::of_worker(tables, worker))
    }

    async fn resume_mismatched(&self, request: ResumeMismatched) -> Result<Vec<Mismatched>, ProviderError> {
        let resumed = self.call(|tables| write::resume_mismatched(tables, &request))?;
        if !resumed.is_empty() {
            self.tell(&Change {
                work: true,
                statuses: true,
                ..Change::default()
            });
        }
        Ok(resumed)
    }

    async fn read_history(
        &self,
        key: InstanceKey,
        execution: ExecutionId,
        from: EventId,
        limit: PageLimit,
    ) -> Result<Vec<EventRecord>, ProviderError> {
        self.call(|tables| history::read(tables, key, execution, from, limit))
    }

    async fn executions(&self, request: ExecutionsRequest) -> Result<Vec<ExecutionSummary>, ProviderError> {
        self.call(|tables| history::executions(tables, request))
    }

    async fn takeovers(&self, key: InstanceKey) -> Result<Vec<Takeover>, ProviderError> {
        self.call(|tables| takeovers::of(tables, key))
    }

    async fn footprint(&self, key: InstanceKey) -> Result<Footprint, ProviderError> {
        self.call(|tables| footprint::of(tables, key))
    }

    async fn read_inbox(
        &self,
        worker: &WorkerId,
        since: &InboxPosition,
        limit: PageLimit,
    ) -> Result<Inbox, ProviderError> {
        self.call(|tables| inbox::of_worker(tables, worker, since, limit))
    }

    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: PageLimit,
    ) -> Result<MessagePage, ProviderError> {
        self.call(|tables| inbox::of_instance(tables, key, mailboxes.as_deref(), limit))
    }

    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError> {
        self.call(|tables| status::statuses(tables, &ids))
    }

    async fn open_work(&self, id: String) -> Result<Option<OpenWork>, ProviderError> {
        self.call(|tables| open_work::of(tables, &id))
    }

    async fn asks(&self, names: Vec<AskName>) -> Result<Vec<Option<AskState>>, ProviderError> {
        self.call(|tables| names.iter().map(|name| asks::read(tables, name)).collect())
    }

    async fn state(&self, request: StateRequest) -> Result<Option<StoredState>, ProviderError> {
        self.call(|tables| state::read(tables, &request))
    }

    async fn streams(&self, names: Vec<StreamName>) -> Result<Vec<Option<StreamState>>, ProviderError> {
        self.call(|tables| names.iter().map(|name| streams::find(tables, name)).collect())
    }

    async fn streams_of(&self, id: String) -> Result<Option<Vec<StreamInfo>>, ProviderError> {
        self.call(|tables| streams::list(tables, &id))
    }

    async fn read_stream(&self, request: StreamRequest) -> Result<Option<StreamPage>, ProviderError> {
        self.call(|tables| streams::read(tables, &request))
    }

    async fn prune_streams(&self, now_ms: i64, limit: usize) -> Result<bool, ProviderError> {
        self.call(|tables| streams::prune(tables, now_ms, limit))
    }

    async fn logs(&self, request: LogRequest) -> Result<Option<LogPage>, ProviderError> {
        self.call(|tables| logs::read(tables, &request))
    }

    async fn prune_logs(&self, before_ms: i64, limit: usize) -> Result<bool, ProviderError> {
        self.call(|tables| logs::prune(tables, before_ms, limit))
    }

    async fn ids_of(&self, keys: Vec<InstanceKey>) -> Result<Vec<Option<String>>, ProviderError> {
        self.call(|tables| status::ids_of(tables, &keys))
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage, ProviderError> {
        self.call(|tables| listing::list(tables, &request))
    }

    async fn prune(&self, request: PruneRequest) -> Result<Pruned, ProviderError> {
        let pruned = self.call(|tables| deletion::prune(tables, &request))?;
        if pruned.deleted > 0 {
            self.tell(&Change {
                statuses: true,
                ..Change::default()
            });
        }
        Ok(pruned)
    }

    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError> {
        self.call(|tables| deletion::prune_executions(tables, &request))
    }

    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError> {
        self.call(|tables| deletion::sweep(tables, limit))
    }

    async fn stored_texts(&self, request: TextRequest) -> Result<TextPage, ProviderError> {
        self.call(|tables| texts::page(tables, &request))
    }

    async fn replace_texts(&self, changes: Vec<TextChange>) -> Result<usize, ProviderError> {
        self.call(|tables| texts::replace(tables, &changes))
    }

    async fn stats(&self) -> Result<StoreStats, ProviderError> {
        self.call(|tables| stats::of_store(tables))
    }

    /// All stores in memory have the same one: none of them outlives its process.
    async fn store_id(&self) -> Result<String, ProviderError> {
        self.call(|_| "memory".to_owned())
    }

    async fn overdue(&self, request: OverdueRequest) -> Result<OverdueWork, ProviderError> {
        self.call(|tables| overdue::of_store(tables, &request))
    }

    async fn inspect(&self) -> Result<Inspection, ProviderError> {
        self.call(|tables| Inspection {
            now_ms: tables.now_ms,
            workers: worker::loads(tables),
            ..Inspection::default()
        })
    }

    async fn check(&self, request: CheckRequest) -> Result<Checked, ProviderError> {
        self.call(|tables| integrity::step(tables, request))
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.store.remove_waker(&self.notifier);
        self.callbacks.flush().await;
    }
}

impl Drop for MemoryProvider {
    fn drop(&mut self) {
        self.store.remove_waker(&self.notifier);
    }
}
