//! `Encoded`: a provider that puts a codec in front of another provider.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox};
use perdure_provider::{
    Acquire, Acquired, AcquiredTasks, AnswerListener, AskName, AskState, ChangeListener, CheckRequest, Checked,
    CommitDone, Due, DueRequest, Epoch, ExecutionSummary, ExecutionsRequest, Footprint, Inbox, InboxPosition,
    Inspection, InstanceKey, InstanceStatus, ListPage, ListRequest, Load, Loaded, LogPage, LogRequest, MessagePage,
    Mismatched, NewWorker, Newest, OpenWork, Outcome, OverdueRequest, OverdueWork, PageLimit, Provider, ProviderError,
    ProviderErrorKind, ProviderInfo, PruneExecutions, PruneRequest, Pruned, PrunedExecutions, QueueDeletion, QueueInfo,
    QueueSettings, ReleaseMost, ReleasedMost, Renewal, ResumeMismatched, StateRequest, StoreStats, StoredState,
    StreamInfo, StreamName, StreamPage, StreamRequest, StreamState, TakenOver, Takeover, TaskName, TaskRequest,
    TextChange, TextPage, TextRequest, Worker, WorkerId, Write,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::codec::{self, TextCodec};
use crate::inner::Inner;
use crate::names::Memory;
use crate::slot::Values;
use crate::values;

/// A store whose values go through a codec (C1 to C5).
pub struct Encoded {
    store: Arc<dyn Provider>,
    inner: Arc<Inner>,
    order: Mutex<Order>,
    at_work: TaskTracker,
    /// `None` only while the provider is dropped.
    runtime: Option<Runtime>,
}

/// The progress of the last batch, for which the next one has to wait (C2). The sender of each receiver is dropped when
/// the last batch has come that far.
#[derive(Default)]
struct Order {
    handed_over: Option<oneshot::Receiver<()>>,
    answered: Option<oneshot::Receiver<()>>,
}

async fn wait_for(before: Option<oneshot::Receiver<()>>) {
    if let Some(before) = before {
        // An error means that the sender was dropped: the batch before has come that far, with any result.
        drop(before.await);
    }
}

impl Encoded {
    /// Puts a codec in front of a store.
    ///
    /// # Errors
    ///
    /// `Busy`: no thread can be started for the codec.
    pub fn new(store: Arc<dyn Provider>, codec: Arc<dyn TextCodec>) -> Result<Self, ProviderError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("perdure-codec")
            .enable_time()
            .build()
            .map_err(|error| ProviderError::new(ProviderErrorKind::Busy, error))?;
        let memory = Memory::default();
        Ok(Self {
            store,
            inner: Arc::new(Inner { codec, memory }),
            order: Mutex::default(),
            at_work: TaskTracker::new(),
            runtime: Some(runtime),
        })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime
            .as_ref()
            .expect("it is there until the provider is dropped")
    }

    /// Runs work on the thread that has the timers of the codec. The caller's thread may have none.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let done = self.at_work.spawn_on(work, self.runtime().handle()).await;
        done.unwrap_or_else(|_| {
            let message = "an operation of the codec panicked";
            Err(ProviderError::new(ProviderErrorKind::Internal, message))
        })
    }

    fn parts(&self) -> (Arc<dyn Provider>, Arc<Inner>) {
        (Arc::clone(&self.store), Arc::clone(&self.inner))
    }
}

#[async_trait]
impl Provider for Encoded {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            hides_values: true,
            ..self.store.info()
        }
    }

    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        let (store, inner) = self.parts();
        let handle = self.runtime().handle().clone();
        let at_work = self.at_work.clone();
        let (handed_over, next_handed_over) = oneshot::channel();
        let (answered, next_answered) = oneshot::channel();
        let before = std::mem::replace(
            &mut *self.order.lock(),
            Order {
                handed_over: Some(next_handed_over),
                answered: Some(next_answered),
            },
        );
        let work = async move {
            let encoded = inner.encoded(&*store, &batch).await;
            wait_for(before.handed_over).await;
            let tell = move |result: Result<Vec<Outcome>, ProviderError>| async move {
                wait_for(before.answered).await;
                // Dropped even if `done` panics.
                let _answered = answered;
                done(result);
            };
            match encoded {
                Err(error) => {
                    drop(handed_over);
                    tell(Err(error)).await;
                }
                Ok(encoded) => {
                    let finish = move |result: Result<Vec<Outcome>, ProviderError>| {
                        let answer = async move {
                            let mut result = result;
                            if let Ok(outcomes) = &mut result {
                                for (write, outcome) in batch.iter().zip(&*outcomes) {
                                    inner.memory.note_outcome(write, outcome);
                                }
                                // The batch is written. A value that cannot be decoded now stays as it is stored.
                                drop(inner.decode_outcomes(&batch, outcomes).await);
                            }
                            tell(result).await;
                        };
                        at_work.spawn_on(answer, &handle);
                    };
                    store.commit(Arc::new(encoded), Box::new(finish));
                    drop(handed_over);
                }
            }
        };
        self.at_work.spawn_on(work, self.runtime().handle());
    }

    fn on_answer_coming(&self, listener: AnswerListener) {
        self.store.on_answer_coming(listener);
    }

    fn on_foreign_change(&self, listener: ChangeListener) {
        let inner = Arc::clone(&self.inner);
        self.store.on_foreign_change(Box::new(move |change| {
            // The server may have lost its last commits.
            if change.leases {
                inner.memory.clear();
            }
            listener(change);
        }));
    }

    async fn register_worker(&self, worker: NewWorker) -> Result<i64, ProviderError> {
        self.store.register_worker(worker).await
    }

    async fn renew_worker(
        &self,
        worker: &WorkerId,
        lease_ms: u64,
        description: Option<&str>,
    ) -> Result<Option<Renewal>, ProviderError> {
        self.store.renew_worker(worker, lease_ms, description).await
    }

    async fn owned_by(
        &self,
        worker: &WorkerId,
        after: InstanceKey,
        limit: usize,
    ) -> Result<Vec<(InstanceKey, Epoch)>, ProviderError> {
        self.store.owned_by(worker, after, limit).await
    }

    async fn announce_versions(&self, worker: &WorkerId, newest: Newest) -> Result<(), ProviderError> {
        self.store.announce_versions(worker, newest).await
    }

    async fn workers(&self) -> Result<Vec<Worker>, ProviderError> {
        self.store.workers().await
    }

    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError> {
        self.store.release_worker(worker).await
    }

    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError> {
        self.store.take_over_worker(worker, report).await
    }

    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError> {
        self.store.take_over_expired_workers(report).await
    }

    async fn release_most(&self, request: ReleaseMost) -> Result<ReleasedMost, ProviderError> {
        self.store.release_most(request).await
    }

    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError> {
        let acquired = self.store.acquire(request).await?;
        for instance in &acquired.instances {
            self.inner.memory.note(instance.key, &instance.id);
        }
        Ok(acquired)
    }

    async fn due(&self, request: DueRequest) -> Result<Due, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let mut due = store.due(request).await?;
            inner.decode_due(&*store, &mut due).await?;
            Ok(due)
        })
        .await
    }

    async fn set_queue(&self, name: String, settings: QueueSettings) -> Result<bool, ProviderError> {
        self.store.set_queue(name, settings).await
    }

    async fn pause_queue(&self, name: String, is_paused: bool) -> Result<bool, ProviderError> {
        self.store.pause_queue(name, is_paused).await
    }

    async fn delete_queue(&self, name: String) -> Result<QueueDeletion, ProviderError> {
        self.store.delete_queue(name).await
    }

    async fn queues(&self, name: Option<String>) -> Result<Vec<QueueInfo>, ProviderError> {
        self.store.queues(name).await
    }

    async fn load(&self, request: Load) -> Result<Vec<Result<Loaded, ProviderError>>, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let asked: Vec<_> = request.instances.iter().map(|one| (one.key, one.execution)).collect();
            let mut loaded = store.load(request).await?;
            inner.decode_loaded(&*store, &asked, &mut loaded).await?;
            Ok(loaded)
        })
        .await
    }

    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let mut acquired = store.acquire_tasks(request).await?;
            let mut values = Values::new();
            for task in &mut acquired.tasks {
                inner.memory.note(task.task.key, &task.instance_id);
                values::of_task(task, &mut values);
            }
            codec::decode(&*inner.codec, values).await?;
            Ok(acquired)
        })
        .await
    }

    async fn announce_activities(&self, names: Vec<String>) -> Result<Vec<String>, ProviderError> {
        self.store.announce_activities(names).await
    }

    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError> {
        self.store.tasks_of(worker).await
    }

    async fn resume_mismatched(&self, request: ResumeMismatched) -> Result<Vec<Mismatched>, ProviderError> {
        self.store.resume_mismatched(request).await
    }

    /// Ends the page by the bytes of the decoded events, which differ from those in the store.
    async fn read_history(
        &self,
        key: InstanceKey,
        execution: ExecutionId,
        from: EventId,
        limit: PageLimit,
    ) -> Result<Vec<EventRecord>, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let (mut events, mut from, mut bytes) = (Vec::new(), from, 0);
            while !limit.is_reached(events.len(), bytes) {
                let rest = PageLimit {
                    rows: limit.rows - events.len(),
                    bytes: limit.bytes - bytes,
                };
                let mut page = store.read_history(key, execution, from, rest).await?;
                let kept: usize = page.iter().map(EventRecord::bytes).sum();
                let is_last = !rest.is_reached(page.len(), kept);
                inner.decode_events(&*store, key, execution, &mut page).await?;
                bytes += page.iter().map(EventRecord::bytes).sum::<usize>();
                events.append(&mut page);
                match events.last() {
                    Some(last) if !is_last => from = last.event_id.next(),
                    _ => break,
                }
            }
            Ok(events)
        })
        .await
    }

    /// Ends the page by the bytes in the store.
    async fn executions(&self, request: ExecutionsRequest) -> Result<Vec<ExecutionSummary>, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let mut page = store.executions(request).await?;
            inner.decode_executions(&*store, request.key, &mut page).await?;
            Ok(page)
        })
        .await
    }

    async fn takeovers(&self, key: InstanceKey) -> Result<Vec<Takeover>, ProviderError> {
        self.store.takeovers(key).await
    }

    async fn footprint(&self, key: InstanceKey) -> Result<Footprint, ProviderError> {
        self.store.footprint(key).await
    }

    async fn read_inbox(
        &self,
        worker: &WorkerId,
        since: &InboxPosition,
        limit: PageLimit,
    ) -> Result<Inbox, ProviderError> {
        let (store, inner) = self.parts();
        let (worker, since) = (worker.clone(), since.clone());
        self.run(async move {
            let mut inbox = store.read_inbox(&worker, &since, limit).await?;
            inner.decode_inbox(&*store, &mut inbox).await?;
            Ok(inbox)
        })
        .await
    }

    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: PageLimit,
    ) -> Result<MessagePage, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let mut page = store.read_messages(key, mailboxes, limit).await?;
            inner.decode_messages(&*store, key, &mut page).await?;
            Ok(page)
        })
        .await
    }

    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let mut statuses = store.statuses(ids).await?;
            inner.decode_statuses(statuses.iter_mut().flatten()).await?;
            Ok(statuses)
        })
        .await
    }

    async fn open_work(&self, id: String) -> Result<Option<OpenWork>, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let mut work = store.open_work(id).await?;
            if let Some(work) = &mut work {
                inner.memory.note(work.status.key, &work.status.id);
                let mut values = Values::new();
                values::of_open_work(work, &mut values);
                codec::decode(&*inner.codec, values).await?;
            }
            Ok(work)
        })
        .await
    }

    async fn state(&self, request: StateRequest) -> Result<Option<StoredState>, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let id: Arc<str> = request.id.as_str().into();
            let mut state = store.state(request).await?;
            if let Some(state) = &mut state {
                let mut values = Values::new();
                values::of_state(&id, state, &mut values);
                codec::decode(&*inner.codec, values).await?;
            }
            Ok(state)
        })
        .await
    }

    async fn asks(&self, names: Vec<AskName>) -> Result<Vec<Option<AskState>>, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let mut states = store.asks(names.clone()).await?;
            let mut values = Values::new();
            for (name, state) in names.iter().zip(&mut states) {
                if let Some(state) = state {
                    values::of_ask(name, state, &mut values);
                }
            }
            codec::decode(&*inner.codec, values).await?;
            Ok(states)
        })
        .await
    }

    async fn streams(&self, names: Vec<StreamName>) -> Result<Vec<Option<StreamState>>, ProviderError> {
        self.store.streams(names).await
    }

    async fn streams_of(&self, id: String) -> Result<Option<Vec<StreamInfo>>, ProviderError> {
        self.store.streams_of(id).await
    }

    async fn read_stream(&self, request: StreamRequest) -> Result<Option<StreamPage>, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move { inner.read_stream(&*store, request).await }).await
    }

    async fn prune_streams(&self, now_ms: i64, limit: usize) -> Result<bool, ProviderError> {
        self.store.prune_streams(now_ms, limit).await
    }

    async fn logs(&self, request: LogRequest) -> Result<Option<LogPage>, ProviderError> {
        self.store.logs(request).await
    }

    async fn prune_logs(&self, before_ms: i64, limit: usize) -> Result<bool, ProviderError> {
        self.store.prune_logs(before_ms, limit).await
    }

    async fn ids_of(&self, keys: Vec<InstanceKey>) -> Result<Vec<Option<String>>, ProviderError> {
        self.store.ids_of(keys).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage, ProviderError> {
        let (store, inner) = self.parts();
        self.run(async move {
            let mut page = store.list(request).await?;
            inner.decode_statuses(page.instances.iter_mut()).await?;
            Ok(page)
        })
        .await
    }

    async fn prune(&self, request: PruneRequest) -> Result<Pruned, ProviderError> {
        self.store.prune(request).await
    }

    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError> {
        self.store.prune_executions(request).await
    }

    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError> {
        self.store.sweep(limit).await
    }

    /// Returns the texts as they are stored. A caller that encodes them anew decodes and encodes them itself.
    async fn stored_texts(&self, request: TextRequest) -> Result<TextPage, ProviderError> {
        self.store.stored_texts(request).await
    }

    async fn replace_texts(&self, changes: Vec<TextChange>) -> Result<usize, ProviderError> {
        self.store.replace_texts(changes).await
    }

    async fn stats(&self) -> Result<StoreStats, ProviderError> {
        self.store.stats().await
    }

    async fn store_id(&self) -> Result<String, ProviderError> {
        self.store.store_id().await
    }

    async fn overdue(&self, request: OverdueRequest) -> Result<OverdueWork, ProviderError> {
        self.store.overdue(request).await
    }

    async fn inspect(&self) -> Result<Inspection, ProviderError> {
        self.store.inspect().await
    }

    async fn check(&self, request: CheckRequest) -> Result<Checked, ProviderError> {
        self.store.check(request).await
    }

    async fn back_up(&self, to: PathBuf, replace: bool) -> Result<u64, ProviderError> {
        self.store.back_up(to, replace).await
    }

    async fn close(&self) {
        let before = std::mem::take(&mut *self.order.lock());
        wait_for(before.answered).await;
        self.store.close().await;
    }
}

impl Drop for Encoded {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The provider may be dropped on any thread, also on one that must not block.
            runtime.shutdown_background();
        }
    }
}
