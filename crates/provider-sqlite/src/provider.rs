//! The provider: hands jobs to the writer and reads to the readers, and closes both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use async_trait::async_trait;
use parking_lot::Mutex;
use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox};
use perdure_provider::{
    Acquire, Acquired, AcquiredTasks, AskName, AskState, ChangeListener, CheckRequest, Checked, CommitDone, Due,
    DueRequest, Epoch, ExecutionSummary, ExecutionsRequest, Footprint, Inbox, InboxPosition, Inspection, InstanceKey,
    InstanceStatus, ListPage, ListRequest, Load, Loaded, LogPage, LogRequest, MessagePage, Mismatched, NewWorker,
    Newest, OpenWork, OverdueRequest, OverdueWork, PageLimit, Provider, ProviderError, ProviderErrorKind, ProviderInfo,
    PruneExecutions, PruneRequest, Pruned, PrunedExecutions, QueueDeletion, QueueInfo, QueueSettings, ReleaseMost,
    ReleasedMost, Renewal, ResumeMismatched, StateRequest, StoreStats, StoredState, StreamInfo, StreamName, StreamPage,
    StreamRequest, StreamState, TakenOver, Takeover, TaskName, TaskRequest, TextChange, TextPage, TextRequest, Worker,
    WorkerId, Write,
};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::connection::{self, WriterConnection};
use crate::error::Failure;
use crate::job::{Batch, Call};
use crate::listeners::Listeners;
use crate::options::{BATCH_WRITES_MAX, SqliteOptions};
use crate::queue::Queue;
use crate::readers::Readers;
use crate::session::Session;
use crate::threads::spawn;
use crate::writer::{self, Shared};
use crate::{
    acquire, asks, backup, deletion, footprint, history, inbox, inspection, integrity, listing, logs, open_work,
    overdue, queues, state, stats, status, streams, suspicion, takeovers, tasks, texts, worker, write,
};

/// Perdure's store in a SQLite file or in memory.
///
/// Opening blocks; every other call does not. Dropping the provider closes it and waits for its threads.
pub struct SqliteProvider {
    shared: Arc<Shared>,
    /// `None` if the store is in memory, where the one connection also reads.
    readers: Option<Arc<Readers>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    ended: watch::Receiver<bool>,
}

/// The writer's counters since the store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteStats {
    /// Transactions committed.
    pub transactions: u64,
    /// Batches and single operations in these transactions.
    pub jobs: u64,
}

impl SqliteProvider {
    /// Opens the store in a file. A missing file is created (unless [`SqliteOptions::migrate`] forbids it), a missing
    /// directory is not.
    ///
    /// # Errors
    ///
    /// `CannotOpen`, `NotADatabase`, `SchemaVersion` and `Corrupt` say what is wrong with the path or with the file
    /// found there; such a file is left as it is. `Busy`, `Io` and `Full` may pass.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, ProviderError> {
        let path = connection::locate(path.as_ref())?;
        let location = path.display().to_string();
        let open = || {
            let writer = connection::open_writer(&path, options.durability, options.migrate)?;
            Ok((writer, Some(Arc::new(Readers::open(&path)?))))
        };
        let (writer, readers) = open().map_err(|failure: Failure| failure.named(&location))?;
        let shared = Shared {
            queue: Queue::new(),
            listeners: Listeners::default(),
            clock: options.clock,
            location,
            file: Some(path),
            transactions: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
        };
        Self::start(shared, writer, readers)
    }

    /// Opens a private store in memory. The store ends with this provider.
    ///
    /// # Errors
    ///
    /// `NoMemory` if memory ran out, and `Busy` if no thread could be started.
    pub fn in_memory(options: SqliteOptions) -> Result<Self, ProviderError> {
        let location = ":memory:".to_owned();
        let writer = connection::open_in_memory().map_err(|failure| failure.named(&location))?;
        let shared = Shared {
            queue: Queue::new(),
            listeners: Listeners::default(),
            clock: options.clock,
            location,
            file: None,
            transactions: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
        };
        Self::start(shared, writer, None)
    }

    fn start(shared: Shared, writer: WriterConnection, readers: Option<Arc<Readers>>) -> Result<Self, ProviderError> {
        let shared = Arc::new(shared);
        let (end, ended) = watch::channel(false);
        let body = {
            let (shared, readers) = (Arc::clone(&shared), readers.clone());
            move || {
                writer::run(writer, &shared, readers);
                end.send_replace(true);
            }
        };
        let thread = spawn("write", body).map_err(|failure| failure.named(&shared.location))?;
        Ok(Self {
            shared,
            readers,
            writer: Mutex::new(Some(thread)),
            ended,
        })
    }

    /// Returns the writer's counters since the store was opened.
    #[must_use]
    pub fn stats(&self) -> SqliteStats {
        SqliteStats {
            transactions: self.shared.transactions.load(Ordering::Relaxed),
            jobs: self.shared.jobs.load(Ordering::Relaxed),
        }
    }

    /// Runs an operation on the writer thread, in a transaction that it may share.
    async fn write<T, F>(&self, work: F) -> Result<T, ProviderError>
    where
        T: Send + 'static,
        F: Fn(&mut Session<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let (call, answer) = Call::new(work);
        self.shared.queue.push(Box::new(call)).map_err(|_| self.closed())?;
        answer.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// Runs a read on a reader thread, or on the writer thread if the store is in memory.
    async fn read<T, F>(&self, work: F) -> Result<T, ProviderError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let Some(readers) = &self.readers else {
            return self.write(move |session| work(session.connection())).await;
        };
        let (reply, answer) = oneshot::channel();
        let read = Box::new(move |connection: &Connection| {
            // The caller may be gone. Then there is no task to tell.
            let _ = reply.send(work(connection));
        });
        readers.push(read).map_err(|_| self.closed())?;
        match answer.await {
            Ok(result) => result.map_err(|failure| failure.named_of_open(&self.shared.location)),
            Err(_) => Err(Failure::internal("a read panicked").named(&self.shared.location)),
        }
    }

    fn closed(&self) -> ProviderError {
        Failure::Found(ProviderErrorKind::Closed, String::new()).named(&self.shared.location)
    }

    /// Refuses new jobs and reads from now on.
    fn refuse(&self) {
        self.shared.queue.close();
        if let Some(readers) = &self.readers {
            readers.refuse();
        }
    }

    fn join(&self) {
        let thread = self.writer.lock().take();
        // The last handle to a provider may be dropped by an answer, on the writer thread itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

#[async_trait]
impl Provider for SqliteProvider {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            kind: "sqlite",
            location: self.shared.location.clone(),
            // One batch at a time: while it is written the next one gathers, and the answer to the first hands the next
            // one over.
            concurrent_commits: 1,
            batch_max: BATCH_WRITES_MAX,
            hides_values: false,
        }
    }

    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        let Err(job) = self.shared.queue.push(Box::new(Batch::new(batch, done))) else {
            return;
        };
        // The writer thread has ended, and the caller may hold a lock that its `done` takes. A thread of its own
        // answers.
        let closed = self.closed();
        if let Err(failure) = spawn("closed", move || job.answer(Err(closed))) {
            drop(failure);
        }
    }

    fn on_foreign_change(&self, listener: ChangeListener) {
        self.shared.listeners.add(listener);
        // The writer may sleep for as long as there is nothing to write.
        self.shared.queue.nudge();
    }

    async fn register_worker(&self, worker: NewWorker) -> Result<i64, ProviderError> {
        self.write(move |session| worker::register(session, &worker)).await
    }

    async fn renew_worker(
        &self,
        worker: &WorkerId,
        lease_ms: u64,
        description: Option<&str>,
    ) -> Result<Option<Renewal>, ProviderError> {
        let (worker, description) = (worker.clone(), description.map(str::to_owned));
        self.write(move |session| worker::renew(session, &worker, lease_ms, description.as_deref()))
            .await
    }

    async fn owned_by(
        &self,
        worker: &WorkerId,
        after: InstanceKey,
        limit: usize,
    ) -> Result<Vec<(InstanceKey, Epoch)>, ProviderError> {
        let worker = worker.clone();
        self.read(move |connection| worker::owned(connection, &worker, after, limit))
            .await
    }

    async fn announce_versions(&self, worker: &WorkerId, newest: Newest) -> Result<(), ProviderError> {
        let worker = worker.clone();
        self.write(move |session| worker::announce_versions(session, &worker, &newest))
            .await
    }

    async fn workers(&self) -> Result<Vec<Worker>, ProviderError> {
        self.read(worker::all).await
    }

    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError> {
        let worker = worker.clone();
        self.write(move |session| worker::release(session, &worker)).await
    }

    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError> {
        let (worker, report) = (worker.clone(), report.to_owned());
        self.write(move |session| suspicion::take_over(session, &worker, &report))
            .await
    }

    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError> {
        let report = report.to_owned();
        self.write(move |session| suspicion::take_over_expired(session, &report))
            .await
    }

    async fn release_most(&self, request: ReleaseMost) -> Result<ReleasedMost, ProviderError> {
        self.write(move |session| suspicion::release_most(session, &request))
            .await
    }

    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError> {
        let (request, now_ms) = (Arc::new(request), self.shared.clock.now_ms());
        let asked = Arc::clone(&request);
        let found = self
            .read(move |connection| acquire::find(connection, &asked, now_ms))
            .await?;
        // Most often nothing is due, and then no transaction of the writer is needed.
        if found.is_empty() {
            return Ok(found.into_nothing());
        }
        self.write(move |session| acquire::claim(session, &request, &found))
            .await
    }

    async fn due(&self, request: DueRequest) -> Result<Due, ProviderError> {
        let now_ms = self.shared.clock.now_ms();
        self.read(move |connection| acquire::due(connection, &request, now_ms))
            .await
    }

    async fn set_queue(&self, name: String, settings: QueueSettings) -> Result<bool, ProviderError> {
        self.write(move |session| queues::set(session, &name, &settings)).await
    }

    async fn pause_queue(&self, name: String, is_paused: bool) -> Result<bool, ProviderError> {
        self.write(move |session| queues::pause(session, &name, is_paused))
            .await
    }

    async fn delete_queue(&self, name: String) -> Result<QueueDeletion, ProviderError> {
        self.write(move |session| queues::delete(session, &name)).await
    }

    async fn queues(&self, name: Option<String>) -> Result<Vec<QueueInfo>, ProviderError> {
        let now_ms = self.shared.clock.now_ms();
        self.read(move |connection| queues::list(connection, name.as_deref(), now_ms))
            .await
    }

    async fn load(&self, request: Load) -> Result<Vec<Result<Loaded, ProviderError>>, ProviderError> {
        let loaded = self.read(move |connection| acquire::load(connection, &request)).await?;
        let named = |failure: Failure| failure.named(&self.shared.location);
        Ok(loaded.into_iter().map(|one| one.map_err(named)).collect())
    }

    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError> {
        // Most often no task waits, and then no transaction of the writer is needed.
        let (request, now_ms) = (Arc::new(request), self.shared.clock.now_ms());
        let asked = Arc::clone(&request);
        let nothing = self
            .read(move |connection| tasks::nothing(connection, &asked, now_ms))
            .await?;
        if let Some(nothing) = nothing {
            return Ok(nothing);
        }
        self.write(move |session| tasks::acquire(session, &request)).await
    }

    async fn announce_activities(&self, names: Vec<String>) -> Result<Vec<String>, ProviderError> {
        self.write(move |session| tasks::know(session, &names)).await
    }

    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError> {
        let worker = worker.clone();
        self.read(move |connection| tasks::of_worker(connection, &worker)).await
    }

    async fn resume_mismatched(&self, request: ResumeMismatched) -> Result<Vec<Mismatched>, ProviderError> {
        self.write(move |session| write::resume_mismatched(session, &request))
            .await
    }

    async fn read_history(
        &self,
        key: InstanceKey,
        execution: ExecutionId,
        from: EventId,
        limit: PageLimit,
    ) -> Result<Vec<EventRecord>, ProviderError> {
        self.read(move |connection| history::read(connection, key, execution, from, limit))
            .await
    }

    async fn executions(&self, request: ExecutionsRequest) -> Result<Vec<ExecutionSummary>, ProviderError> {
        self.read(move |connection| history::executions(connection, request))
            .await
    }

    async fn takeovers(&self, key: InstanceKey) -> Result<Vec<Takeover>, ProviderError> {
        self.read(move |connection| takeovers::of(connection, key)).await
    }

    async fn footprint(&self, key: InstanceKey) -> Result<Footprint, ProviderError> {
        self.read(move |connection| footprint::of(connection, key)).await
    }

    async fn read_inbox(
        &self,
        worker: &WorkerId,
        since: &InboxPosition,
        limit: PageLimit,
    ) -> Result<Inbox, ProviderError> {
        let (worker, since) = (worker.clone(), since.clone());
        self.read(move |connection| inbox::of_worker(connection, &worker, &since, limit))
            .await
    }

    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: PageLimit,
    ) -> Result<MessagePage, ProviderError> {
        self.read(move |connection| inbox::of_instance(connection, key, mailboxes.as_deref(), limit))
            .await
    }

    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError> {
        self.read(move |connection| status::statuses(connection, &ids)).await
    }

    async fn open_work(&self, id: String) -> Result<Option<OpenWork>, ProviderError> {
        self.read(move |connection| open_work::of(connection, id.clone())).await
    }

    async fn state(&self, request: StateRequest) -> Result<Option<StoredState>, ProviderError> {
        self.read(move |connection| state::read(connection, &request)).await
    }

    async fn asks(&self, names: Vec<AskName>) -> Result<Vec<Option<AskState>>, ProviderError> {
        self.read(move |connection| asks::states(connection, &names)).await
    }

    async fn streams(&self, names: Vec<StreamName>) -> Result<Vec<Option<StreamState>>, ProviderError> {
        self.read(move |connection| streams::states(connection, &names)).await
    }

    async fn streams_of(&self, id: String) -> Result<Option<Vec<StreamInfo>>, ProviderError> {
        self.read(move |connection| streams::list(connection, &id)).await
    }

    async fn read_stream(&self, request: StreamRequest) -> Result<Option<StreamPage>, ProviderError> {
        self.read(move |connection| streams::read(connection, &request)).await
    }

    async fn prune_streams(&self, now_ms: i64, limit: usize) -> Result<bool, ProviderError> {
        self.write(move |session| streams::prune(session, now_ms, limit)).await
    }

    async fn logs(&self, request: LogRequest) -> Result<Option<LogPage>, ProviderError> {
        self.read(move |connection| logs::read(connection, &request)).await
    }

    async fn prune_logs(&self, before_ms: i64, limit: usize) -> Result<bool, ProviderError> {
        self.write(move |session| logs::prune(session, before_ms, limit)).await
    }

    async fn ids_of(&self, keys: Vec<InstanceKey>) -> Result<Vec<Option<String>>, ProviderError> {
        self.read(move |connection| status::ids_of(connection, &keys)).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage, ProviderError> {
        self.read(move |connection| listing::list(connection, &request)).await
    }

    async fn prune(&self, request: PruneRequest) -> Result<Pruned, ProviderError> {
        self.write(move |session| deletion::prune(session, &request)).await
    }

    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError> {
        self.write(move |session| deletion::prune_executions(session, &request))
            .await
    }

    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError> {
        // Most often nothing is left to sweep, and then no transaction of the writer is needed.
        if !self.read(deletion::any_left).await? {
            return Ok(false);
        }
        self.write(move |session| deletion::sweep(session, limit)).await
    }

    async fn stored_texts(&self, request: TextRequest) -> Result<TextPage, ProviderError> {
        self.read(move |connection| texts::page(connection, &request)).await
    }

    async fn replace_texts(&self, changes: Vec<TextChange>) -> Result<usize, ProviderError> {
        self.write(move |session| texts::replace(session, &changes)).await
    }

    async fn stats(&self) -> Result<StoreStats, ProviderError> {
        let now_ms = self.shared.clock.now_ms();
        self.read(move |connection| stats::of_store(connection, now_ms)).await
    }

    async fn store_id(&self) -> Result<String, ProviderError> {
        self.read(stats::store_id).await
    }

    async fn overdue(&self, request: OverdueRequest) -> Result<OverdueWork, ProviderError> {
        let now_ms = self.shared.clock.now_ms();
        self.read(move |connection| overdue::of_store(connection, now_ms, &request))
            .await
    }

    /// Runs on the writer's connection, because the other connections have settings of their own.
    async fn inspect(&self) -> Result<Inspection, ProviderError> {
        let file = self.shared.file.clone();
        self.write(move |session| inspection::of_store(session, file.as_deref()))
            .await
    }

    async fn check(&self, request: CheckRequest) -> Result<Checked, ProviderError> {
        self.read(move |connection| integrity::step(connection, request)).await
    }

    async fn back_up(&self, to: PathBuf, replace: bool) -> Result<u64, ProviderError> {
        let Some(from) = self.shared.file.clone() else {
            let detail = Failure::Found(
                ProviderErrorKind::CannotOpen,
                "a store in memory cannot be backed up.".into(),
            );
            return Err(detail.named(&self.shared.location));
        };
        let (reply, answer) = oneshot::channel();
        // The backup has a thread of its own, because the readers have other calls to serve.
        spawn("backup", move || drop(reply.send(backup::copy(&from, &to, replace))))
            .map_err(|failure| failure.named(&self.shared.location))?;
        let panicked = |_| Failure::internal("a backup panicked").named(&self.shared.location);
        answer.await.map_err(panicked)?
    }

    async fn close(&self) {
        self.refuse();
        let mut ended = self.ended.clone();
        // An error says that the thread is gone without having reported its end: it has ended all the same.
        let _ = ended.wait_for(|ended| *ended).await;
        self.join();
    }
}

impl Drop for SqliteProvider {
    fn drop(&mut self) {
        self.refuse();
        self.join();
    }
}
