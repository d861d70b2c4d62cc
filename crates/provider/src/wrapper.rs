//! Providers that pass their calls on to another provider, for tests and simulations.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox};

use crate::{
    Acquire, Acquired, AcquiredTasks, AskName, AskState, ChangeListener, CheckRequest, Checked, CommitDone, Due,
    DueRequest, Epoch, ExecutionSummary, ExecutionsRequest, Footprint, Inbox, InboxPosition, Inspection, InstanceKey,
    InstanceStatus, ListPage, ListRequest, Load, Loaded, LogPage, LogRequest, MessagePage, Mismatched, NewWorker,
    Newest, OpenWork, OverdueRequest, OverdueWork, PageLimit, Provider, ProviderError, ProviderInfo, PruneExecutions,
    PruneRequest, Pruned, PrunedExecutions, QueueDeletion, QueueInfo, QueueSettings, ReleaseMost, ReleasedMost,
    Renewal, ResumeMismatched, StateRequest, StoreStats, StoredState, StreamInfo, StreamName, StreamPage,
    StreamRequest, StreamState, TakenOver, Takeover, TaskName, TaskRequest, TextChange, TextPage, TextRequest, Worker,
    WorkerId, Write,
};

/// A call of the inner provider that has not begun.
pub type InnerCall<'c, T> = Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'c>>;

/// Defines [`ProviderWrapper`] and makes each wrapper a provider, from the signatures of the calls.
macro_rules! wrapper {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        /// A provider around another one. A call that the wrapper does not override is passed on by
        /// [`forward`](Self::forward).
        #[doc(hidden)]
        #[async_trait]
        pub trait ProviderWrapper: Send + Sync + 'static {
            /// Returns the inner provider.
            fn inner(&self) -> &dyn Provider;

            /// Carries out a call of the inner provider. `name` is the name of the method.
            async fn forward<T: Send>(&self, _name: &'static str, call: InnerCall<'_, T>) -> Result<T, ProviderError> {
                call.await
            }

            fn info(&self) -> ProviderInfo {
                self.inner().info()
            }

            fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
                self.inner().commit(batch, done);
            }

            fn on_foreign_change(&self, listener: ChangeListener) {
                self.inner().on_foreign_change(listener);
            }

            async fn close(&self) {
                self.inner().close().await;
            }

            $(async fn $name(&self, $($arg: $type),*) -> Result<$answer, ProviderError> {
                self.forward(stringify!($name), self.inner().$name($($arg),*)).await
            })*
        }

        #[async_trait]
        impl<W: ProviderWrapper> Provider for W {
            fn info(&self) -> ProviderInfo {
                ProviderWrapper::info(self)
            }

            fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
                ProviderWrapper::commit(self, batch, done);
            }

            fn on_foreign_change(&self, listener: ChangeListener) {
                ProviderWrapper::on_foreign_change(self, listener);
            }

            async fn close(&self) {
                ProviderWrapper::close(self).await;
            }

            $(async fn $name(&self, $($arg: $type),*) -> Result<$answer, ProviderError> {
                ProviderWrapper::$name(self, $($arg),*).await
            })*
        }
    };
}

wrapper! {
    register_worker(worker: NewWorker) -> i64;
    renew_worker(worker: &WorkerId, lease_ms: u64, description: Option<&str>) -> Option<Renewal>;
    owned_by(worker: &WorkerId, after: InstanceKey, limit: usize) -> Vec<(InstanceKey, Epoch)>;
    announce_versions(worker: &WorkerId, newest: Newest) -> ();
    workers() -> Vec<Worker>;
    release_worker(worker: &WorkerId) -> u64;
    take_over_worker(worker: &WorkerId, report: &str) -> TakenOver;
    take_over_expired_workers(report: &str) -> TakenOver;
    release_most(request: ReleaseMost) -> ReleasedMost;
    acquire(request: Acquire) -> Acquired;
    due(request: DueRequest) -> Due;
    set_queue(name: String, settings: QueueSettings) -> bool;
    pause_queue(name: String, is_paused: bool) -> bool;
    delete_queue(name: String) -> QueueDeletion;
    queues(name: Option<String>) -> Vec<QueueInfo>;
    load(request: Load) -> Vec<Result<Loaded, ProviderError>>;
    acquire_tasks(request: TaskRequest) -> AcquiredTasks;
    announce_activities(names: Vec<String>) -> Vec<String>;
    tasks_of(worker: &WorkerId) -> Vec<TaskName>;
    resume_mismatched(request: ResumeMismatched) -> Vec<Mismatched>;
    read_history(key: InstanceKey, execution: ExecutionId, from: EventId, limit: PageLimit) -> Vec<EventRecord>;
    executions(request: ExecutionsRequest) -> Vec<ExecutionSummary>;
    footprint(key: InstanceKey) -> Footprint;
    takeovers(key: InstanceKey) -> Vec<Takeover>;
    read_inbox(worker: &WorkerId, since: &InboxPosition, limit: PageLimit) -> Inbox;
    read_messages(key: InstanceKey, mailboxes: Option<Vec<Mailbox>>, limit: PageLimit) -> MessagePage;
    statuses(ids: Vec<String>) -> Vec<Option<InstanceStatus>>;
    open_work(id: String) -> Option<OpenWork>;
    state(request: StateRequest) -> Option<StoredState>;
    asks(names: Vec<AskName>) -> Vec<Option<AskState>>;
    streams(names: Vec<StreamName>) -> Vec<Option<StreamState>>;
    streams_of(id: String) -> Option<Vec<StreamInfo>>;
    read_stream(request: StreamRequest) -> Option<StreamPage>;
    prune_streams(now_ms: i64, limit: usize) -> bool;
    logs(request: LogRequest) -> Option<LogPage>;
    prune_logs(before_ms: i64, limit: usize) -> bool;
    ids_of(keys: Vec<InstanceKey>) -> Vec<Option<String>>;
    list(request: ListRequest) -> ListPage;
    prune(request: PruneRequest) -> Pruned;
    prune_executions(request: PruneExecutions) -> PrunedExecutions;
    sweep(limit: usize) -> bool;
    stored_texts(request: TextRequest) -> TextPage;
    replace_texts(changes: Vec<TextChange>) -> usize;
    stats() -> StoreStats;
    store_id() -> String;
    overdue(request: OverdueRequest) -> OverdueWork;
    inspect() -> Inspection;
    check(request: CheckRequest) -> Checked;
}
