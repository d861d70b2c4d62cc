//! The provider. It hands batches to the writing task and all other operations to connections of the pool, and closes
//! both.

mod calls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox};
use perdure_provider::{
    Acquire, Acquired, AcquiredTasks, AnswerListener, AskName, AskState, Change, ChangeListener, CheckRequest, Checked,
    CommitDone, Due, DueRequest, Epoch, ExecutionSummary, ExecutionsRequest, Footprint, Inbox, InboxPosition,
    Inspection, InstanceKey, InstanceStatus, ListPage, ListRequest, Load, Loaded, LogPage, LogRequest, MessagePage,
    Mismatched, NewWorker, Newest, OpenWork, OverdueRequest, OverdueWork, PageLimit, Provider, ProviderError,
    ProviderErrorKind, ProviderInfo, PruneExecutions, PruneRequest, Pruned, PrunedExecutions, QueueDeletion, QueueInfo,
    QueueSettings, ReleaseMost, ReleasedMost, Renewal, ResumeMismatched, StateRequest, StoreStats, StoredState,
    StreamInfo, StreamName, StreamPage, StreamRequest, StreamState, TakenOver, Takeover, TaskName, TaskRequest,
    TextChange, TextPage, TextRequest, Worker, WorkerId, Write,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::change_notifier::ChangeNotifier;
use crate::connection::Connections;
use crate::error::Failure;
use crate::options::{BATCH_WRITES_MAX, CLOSING_MAX, PostgresOptions};
use crate::writer::{self, Batch};
use crate::{
    acquire, asks, deletion, drive, due, executions, footprint, history, inbox, inspection, integrity, listing, load,
    logs, open_work, opening, overdue, queues, state, stats, status, streams, suspicion, takeovers, tasks, texts,
    worker, write,
};

/// Perdure's store in a schema of a Postgres database.
pub struct PostgresProvider {
    connections: Arc<Connections>,
    notifier: Arc<ChangeNotifier>,
    queue: Mutex<Option<UnboundedSender<Batch>>>,
    closed: AtomicBool,
    /// Operations that were handed over, and the task that writes.
    at_work: TaskTracker,
    /// The task that notifies other processes and hears them.
    telling: TaskTracker,
    /// `None` only while the provider is dropped.
    runtime: Option<Runtime>,
}

impl PostgresProvider {
    /// Connects to the store in a schema. The store is created if it does not exist (unless
    /// [`PostgresOptions::migrate`] forbids it); its database is not.
    ///
    /// The URL is libpq's: `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=/path`. A
    /// server that asks for a method that its `require_auth` does not allow is sent no password.
    ///
    /// # Errors
    ///
    /// `CannotOpen`, `NotADatabase` and `SchemaVersion` say what is wrong with the URL, the rights or the existing
    /// schema, which is left as it is. `Busy` and `Io` may pass. No error shows the password.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self, ProviderError> {
        let name = |failure: Failure| failure.named("");
        let connections = Connections::new(url, &options).map_err(name)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("perdure-postgres")
            .enable_all()
            .build()
            .map_err(|error| name(Failure::Found(ProviderErrorKind::Busy, error.to_string())))?;
        let connections = Arc::new(connections);
        let notifier = ChangeNotifier::new(Arc::clone(&connections), uuid::Uuid::new_v4().simple().to_string());
        let (queue, queued) = unbounded_channel();
        let provider = Self {
            queue: Mutex::new(Some(queue)),
            connections: Arc::clone(&connections),
            notifier: Arc::clone(&notifier),
            closed: AtomicBool::new(false),
            at_work: TaskTracker::new(),
            telling: TaskTracker::new(),
            runtime: Some(runtime),
        };
        let prepared = provider.run(opening::prepare(Arc::clone(&connections), options)).await;
        prepared.map_err(|failure| failure.named(&connections.location))?;
        let runtime = provider.runtime();
        provider.telling.spawn_on(Arc::clone(&notifier).run(), runtime.handle());
        let writing = writer::run(connections, notifier, queued);
        drive::spawn(runtime.handle(), provider.at_work.track_future(writing));
        Ok(provider)
    }

    /// Returns a warning for the user if the server is another machine and the connection is not encrypted.
    pub fn warning(&self) -> Option<String> {
        self.connections.hosts.warning(&self.connections.location)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime
            .as_ref()
            .expect("it is there until the provider is dropped")
    }

    fn refused(&self) -> ProviderError {
        Failure::Found(ProviderErrorKind::Closed, String::new()).named(&self.connections.location)
    }
}

#[async_trait]
impl Provider for PostgresProvider {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            kind: "postgres",
            location: self.connections.location.clone(),
            // One: while a batch is written the next one gathers. The answer to the first hands the next one over.
            concurrent_commits: 1,
            batch_max: BATCH_WRITES_MAX,
            hides_values: false,
        }
    }

    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        let batch = Batch { writes: batch, done };
        let mut refused = None;
        drive::at_once(self.runtime().handle(), || {
            refused = match &*self.queue.lock() {
                Some(queue) => queue.send(batch).err().map(|unsent| unsent.0),
                None => Some(batch),
            };
        });
        if let Some(batch) = refused {
            // The caller may hold a lock that its `done` takes.
            let error = self.refused();
            self.runtime()
                .spawn(async move { writer::answer_with(batch, Err(error)) });
        }
    }

    fn on_answer_coming(&self, listener: AnswerListener) {
        self.connections.early_wake.add_listener(listener);
    }

    fn on_foreign_change(&self, listener: ChangeListener) {
        self.notifier.add_listener(listener);
    }

    async fn register_worker(&self, worker: NewWorker) -> Result<i64, ProviderError> {
        self.notifier.add_worker(&worker.id);
        self.write(move |session| {
            let worker = worker.clone();
            Box::pin(async move { worker::register(session, &worker).await })
        })
        .await
    }

    async fn renew_worker(
        &self,
        worker: &WorkerId,
        lease_ms: u64,
        description: Option<&str>,
    ) -> Result<Option<Renewal>, ProviderError> {
        let (worker, description) = (worker.clone(), description.map(str::to_owned));
        self.write(move |session| {
            let (worker, description) = (worker.clone(), description.clone());
            Box::pin(async move { worker::renew(session, &worker, lease_ms, description.as_deref()).await })
        })
        .await
    }

    async fn owned_by(
        &self,
        worker: &WorkerId,
        after: InstanceKey,
        limit: usize,
    ) -> Result<Vec<(InstanceKey, Epoch)>, ProviderError> {
        let worker = worker.clone();
        self.read(move |connection| Box::pin(async move { worker::owned(connection, &worker, after, limit).await }))
            .await
    }

    async fn announce_versions(&self, worker: &WorkerId, newest: Newest) -> Result<(), ProviderError> {
        let worker = worker.clone();
        self.write(move |session| {
            let (worker, newest) = (worker.clone(), newest.clone());
            Box::pin(async move { worker::announce_versions(session, &worker, &newest).await })
        })
        .await
    }

    async fn workers(&self) -> Result<Vec<Worker>, ProviderError> {
        self.read(|connection| Box::pin(worker::all(connection))).await
    }

    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError> {
        let released = {
            let worker = worker.clone();
            self.write(move |session| {
                let worker = worker.clone();
                Box::pin(async move { worker::release(session, &worker).await })
            })
            .await?
        };
        self.notifier.remove_worker(worker);
        self.released(false);
        Ok(released)
    }

    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError> {
        let gone: (WorkerId, Arc<str>) = (worker.clone(), report.into());
        let taken = self
            .write(move |session| {
                let (worker, report) = gone.clone();
                Box::pin(async move { suspicion::take_over(session, &worker, &report).await })
            })
            .await?;
        self.released(!taken.poison_pills.is_empty());
        Ok(taken)
    }

    async fn release_most(&self, request: ReleaseMost) -> Result<ReleasedMost, ProviderError> {
        let request = Arc::new(request);
        let given = self
            .write(move |session| {
                let request = Arc::clone(&request);
                Box::pin(async move { suspicion::release_most(session, &request).await })
            })
            .await?;
        self.released(given.poison_pill.is_some());
        Ok(given)
    }

    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError> {
        // Most often no lease has expired, which needs no transaction.
        if !self
            .read(|connection| Box::pin(worker::any_expired(connection)))
            .await?
        {
            return Ok(TakenOver::default());
        }
        let report: Arc<str> = report.into();
        let taken = self
            .write(move |session| {
                let report = Arc::clone(&report);
                Box::pin(async move { suspicion::take_over_expired(session, &report).await })
            })
            .await?;
        if !taken.workers.is_empty() {
            self.released(!taken.poison_pills.is_empty());
        }
        Ok(taken)
    }

    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError> {
        let request = Arc::new(request);
        if !request.looked {
            let asked = Arc::clone(&request);
            let look = self.read(move |connection| {
                Box::pin(async move { acquire::answer_if_nothing_due(connection, &asked).await })
            });
            // Most often nothing is due, which needs no transaction.
            if let Some(nothing) = look.await? {
                return Ok(nothing);
            }
        }
        self.write(move |session| {
            let request = Arc::clone(&request);
            Box::pin(async move { acquire::acquire(session, &request).await })
        })
        .await
    }

    async fn due(&self, request: DueRequest) -> Result<Due, ProviderError> {
        self.read(move |connection| Box::pin(async move { due::due(connection, &request).await }))
            .await
    }

    async fn set_queue(&self, name: String, settings: QueueSettings) -> Result<bool, ProviderError> {
        let queue = Arc::new((name, settings));
        let is_set = self
            .write(move |session| {
                let queue = Arc::clone(&queue);
                Box::pin(async move { queues::set(session, &queue.0, &queue.1).await })
            })
            .await?;
        self.notifier.tell(Change::of_queues());
        Ok(is_set)
    }

    async fn pause_queue(&self, name: String, is_paused: bool) -> Result<bool, ProviderError> {
        let is_known = self
            .write(move |session| {
                let name = name.clone();
                Box::pin(async move { queues::pause(session, &name, is_paused).await })
            })
            .await?;
        if !is_paused {
            self.notifier.tell(Change::of_queues());
        }
        Ok(is_known)
    }

    async fn delete_queue(&self, name: String) -> Result<QueueDeletion, ProviderError> {
        self.write(move |session| {
            let name = name.clone();
            Box::pin(async move { queues::delete(session, &name).await })
        })
        .await
    }

    async fn queues(&self, name: Option<String>) -> Result<Vec<QueueInfo>, ProviderError> {
        self.read(move |connection| Box::pin(async move { queues::list(connection, name.as_deref()).await }))
            .await
    }

    async fn load(&self, request: Load) -> Result<Vec<Result<Loaded, ProviderError>>, ProviderError> {
        let load = self.read_moment(move |connection| Box::pin(async move { load::load(connection, &request).await }));
        let named = |failure: Failure| failure.named(&self.connections.location);
        let loaded = load.await?;
        Ok(loaded.into_iter().map(|one| one.map_err(named)).collect())
    }

    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError> {
        // Most often no task waits, which needs no transaction.
        let request = Arc::new(request);
        let asked = Arc::clone(&request);
        let waiting = self
            .read(move |connection| Box::pin(async move { tasks::waiting(connection, &asked).await }))
            .await?;
        if let Some(nothing) = waiting.nothing(&request) {
            return Ok(nothing);
        }
        let acquired = self
            .write(move |session| {
                let request = Arc::clone(&request);
                Box::pin(async move { tasks::acquire(session, &request, waiting).await })
            })
            .await?;
        if acquired.handed_on {
            self.notifier.tell(Change::of_tasks());
        }
        Ok(acquired)
    }

    async fn announce_activities(&self, names: Vec<String>) -> Result<Vec<String>, ProviderError> {
        self.write(move |session| {
            let names = names.clone();
            Box::pin(async move { tasks::know(session, &names).await })
        })
        .await
    }

    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError> {
        let worker = worker.clone();
        self.read(move |connection| Box::pin(async move { tasks::of_worker(connection, &worker).await }))
            .await
    }

    async fn resume_mismatched(&self, request: ResumeMismatched) -> Result<Vec<Mismatched>, ProviderError> {
        let resumed = self
            .write(move |session| {
                let request = request.clone();
                Box::pin(async move { write::resume_mismatched(session, &request).await })
            })
            .await?;
        if !resumed.is_empty() {
            self.notifier.tell(Change {
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
        self.read(move |connection| Box::pin(history::read(connection, key, execution, from, limit)))
            .await
    }

    async fn executions(&self, request: ExecutionsRequest) -> Result<Vec<ExecutionSummary>, ProviderError> {
        self.read(move |connection| Box::pin(executions::read(connection, request)))
            .await
    }

    async fn takeovers(&self, key: InstanceKey) -> Result<Vec<Takeover>, ProviderError> {
        self.read(move |connection| Box::pin(takeovers::of(connection, key)))
            .await
    }

    async fn footprint(&self, key: InstanceKey) -> Result<Footprint, ProviderError> {
        self.read(move |connection| Box::pin(footprint::of(connection, key)))
            .await
    }

    async fn read_inbox(
        &self,
        worker: &WorkerId,
        since: &InboxPosition,
        limit: PageLimit,
    ) -> Result<Inbox, ProviderError> {
        let (worker, since) = (worker.clone(), since.clone());
        self.read(move |connection| Box::pin(async move { inbox::of_worker(connection, &worker, &since, limit).await }))
            .await
    }

    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: PageLimit,
    ) -> Result<MessagePage, ProviderError> {
        self.read_moment(move |connection| {
            Box::pin(async move { inbox::of_instance(connection, key, mailboxes.as_deref(), limit).await })
        })
        .await
    }

    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError> {
        self.read(move |connection| Box::pin(async move { status::statuses(connection, &ids).await }))
            .await
    }

    async fn open_work(&self, id: String) -> Result<Option<OpenWork>, ProviderError> {
        self.read_moment(move |connection| Box::pin(open_work::of(connection, id)))
            .await
    }

    async fn state(&self, request: StateRequest) -> Result<Option<StoredState>, ProviderError> {
        self.read_moment(move |connection| Box::pin(async move { state::read(connection, &request).await }))
            .await
    }

    async fn asks(&self, names: Vec<AskName>) -> Result<Vec<Option<AskState>>, ProviderError> {
        self.read(move |connection| Box::pin(async move { asks::states(connection, &names).await }))
            .await
    }

    async fn streams(&self, names: Vec<StreamName>) -> Result<Vec<Option<StreamState>>, ProviderError> {
        self.read(move |connection| Box::pin(async move { streams::states(connection, &names).await }))
            .await
    }

    async fn streams_of(&self, id: String) -> Result<Option<Vec<StreamInfo>>, ProviderError> {
        self.read(move |connection| Box::pin(async move { streams::list(connection, &id).await }))
            .await
    }

    async fn read_stream(&self, request: StreamRequest) -> Result<Option<StreamPage>, ProviderError> {
        self.read_moment(move |connection| Box::pin(async move { streams::read(connection, &request).await }))
            .await
    }

    async fn prune_streams(&self, now_ms: i64, limit: usize) -> Result<bool, ProviderError> {
        self.write(move |session| Box::pin(streams::prune(session, now_ms, limit)))
            .await
    }

    async fn logs(&self, request: LogRequest) -> Result<Option<LogPage>, ProviderError> {
        self.read_moment(move |connection| Box::pin(async move { logs::read(connection, &request).await }))
            .await
    }

    async fn prune_logs(&self, before_ms: i64, limit: usize) -> Result<bool, ProviderError> {
        self.write(move |session| Box::pin(logs::prune(session, before_ms, limit)))
            .await
    }

    async fn ids_of(&self, keys: Vec<InstanceKey>) -> Result<Vec<Option<String>>, ProviderError> {
        self.read(move |connection| Box::pin(async move { status::ids_of(connection, &keys).await }))
            .await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage, ProviderError> {
        self.read_moment(move |connection| Box::pin(async move { listing::list(connection, &request).await }))
            .await
    }

    async fn prune(&self, request: PruneRequest) -> Result<Pruned, ProviderError> {
        let pruned = self
            .write(move |session| {
                let request = request.clone();
                Box::pin(async move { deletion::prune(session, &request).await })
            })
            .await?;
        if pruned.deleted > 0 {
            self.notifier.tell(Change {
                statuses: true,
                ..Change::default()
            });
        }
        Ok(pruned)
    }

    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError> {
        self.write(move |session| {
            let request = request.clone();
            Box::pin(async move { deletion::prune_executions(session, &request).await })
        })
        .await
    }

    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError> {
        // Most often no deleted instance is left, which needs no transaction.
        if !self.read(|connection| Box::pin(deletion::any_left(connection))).await? {
            return Ok(false);
        }
        self.write(move |session| Box::pin(deletion::sweep(session, limit)))
            .await
    }

    async fn stored_texts(&self, request: TextRequest) -> Result<TextPage, ProviderError> {
        self.read(move |connection| Box::pin(async move { texts::page(connection, &request).await }))
            .await
    }

    async fn replace_texts(&self, changes: Vec<TextChange>) -> Result<usize, ProviderError> {
        let changes = Arc::new(changes);
        self.write(move |session| {
            let changes = Arc::clone(&changes);
            Box::pin(async move { texts::replace(session, &changes).await })
        })
        .await
    }

    async fn stats(&self) -> Result<StoreStats, ProviderError> {
        self.read(|connection| Box::pin(stats::of_store(connection))).await
    }

    async fn store_id(&self) -> Result<String, ProviderError> {
        self.read(|connection| Box::pin(stats::store_id(connection))).await
    }

    async fn overdue(&self, request: OverdueRequest) -> Result<OverdueWork, ProviderError> {
        self.read(move |connection| Box::pin(async move { overdue::of_store(connection, &request).await }))
            .await
    }

    async fn inspect(&self) -> Result<Inspection, ProviderError> {
        self.read(|connection| Box::pin(inspection::of_store(connection))).await
    }

    async fn check(&self, request: CheckRequest) -> Result<Checked, ProviderError> {
        self.read(move |connection| Box::pin(integrity::step(connection, request)))
            .await
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        drop(self.queue.lock().take());
        let (at_work, telling) = (self.at_work.clone(), self.telling.clone());
        let (connections, notifier) = (Arc::clone(&self.connections), Arc::clone(&self.notifier));
        let ended = self.runtime().spawn(async move {
            at_work.close();
            if timeout(CLOSING_MAX, at_work.wait()).await.is_err() {
                connections.close();
                at_work.wait().await;
            }
            notifier.end();
            telling.close();
            telling.wait().await;
            connections.close();
        });
        // The task runs no foreign code that could panic.
        let _ = ended.await;
    }
}

impl Drop for PostgresProvider {
    fn drop(&mut self) {
        self.connections.close();
        if let Some(runtime) = self.runtime.take() {
            // The provider may be dropped on any thread, also on one that must not block.
            runtime.shutdown_background();
        }
    }
}
