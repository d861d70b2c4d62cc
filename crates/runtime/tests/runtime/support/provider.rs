//! The calls of the store that a test controls: each fails or waits as the test said, and otherwise behaves like a real
//! store's.

use std::sync::Arc;

use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox};
use perdure_provider::{
    Acquire, Acquired, AcquiredTasks, ChangeListener, CheckRequest, Checked, CommitDone, Epoch, Inbox, InboxPosition,
    Inspection, InstanceKey, InstanceStatus, ListPage, ListRequest, Load, Loaded, MessagePage, Mismatched, NewWorker,
    Newest, Overdue, PageLimit, Provider, ProviderError, ProviderErrorKind, ProviderInfo, PruneExecutions,
    PruneRequest, Pruned, PrunedExecutions, ReleaseMost, ReleasedMost, Renewal, ResumeMismatched, StoreStats,
    TakenOver, TaskName, TaskRequest, TextChange, TextPage, TextRequest, Worker, WorkerId, Write,
};

use super::memory::{Call, Memory, is_damaged, planned};

#[async_trait::async_trait]
impl Provider for Memory {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            concurrent_commits: self.concurrent,
            batch_max: 4,
            ..self.provider.info()
        }
    }

    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        self.hand_over(batch, done);
    }

    /// No listener is told: a test itself says when a session is to look.
    fn on_foreign_change(&self, _: ChangeListener) {}

    async fn register_worker(&self, worker: NewWorker) -> Result<i64, ProviderError> {
        self.enter(Call::Register)?;
        let now = self.provider.register_worker(worker).await;
        self.leave(Call::Register).await;
        now
    }

    async fn renew_worker(
        &self,
        worker: &WorkerId,
        lease_ms: u64,
        about: Option<&str>,
    ) -> Result<Option<Renewal>, ProviderError> {
        self.enter(Call::Renew)?;
        self.leave(Call::Renew).await;
        self.note_renewal(about);
        self.provider.renew_worker(worker, lease_ms, about).await
    }

    async fn owned_by(
        &self,
        worker: &WorkerId,
        after: InstanceKey,
        limit: usize,
    ) -> Result<Vec<(InstanceKey, Epoch)>, ProviderError> {
        self.enter(Call::Owned)?;
        let owned = self.provider.owned_by(worker, after, limit).await;
        self.leave(Call::Owned).await;
        owned
    }

    async fn announce_versions(&self, worker: &WorkerId, newest: Newest) -> Result<(), ProviderError> {
        self.provider.announce_versions(worker, newest).await
    }

    /// All workers are on another machine, so only their leases tell of their death.
    async fn workers(&self) -> Result<Vec<Worker>, ProviderError> {
        let mut workers = self.provider.workers().await?;
        for worker in &mut workers {
            worker.host = "another machine".into();
        }
        Ok(workers)
    }

    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError> {
        self.enter(Call::Release)?;
        self.leave(Call::Release).await;
        self.provider.release_worker(worker).await
    }

    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError> {
        self.provider.take_over_worker(worker, report).await
    }

    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError> {
        let taken = self.provider.take_over_expired_workers(report).await;
        self.enter(Call::TakeOver)?;
        taken
    }

    async fn release_most(&self, request: ReleaseMost) -> Result<ReleasedMost, ProviderError> {
        self.enter(Call::ReleaseMost)?;
        self.leave(Call::ReleaseRequest).await;
        let given = self.provider.release_most(request).await;
        self.leave(Call::ReleaseMost).await;
        given
    }

    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError> {
        self.enter(Call::Acquire)?;
        let acquired = self.provider.acquire(request).await;
        self.leave(Call::Acquire).await;
        acquired
    }

    async fn load(&self, request: Load) -> Result<Vec<Result<Loaded, ProviderError>>, ProviderError> {
        self.enter(Call::Load)?;
        if self.is_poison(&request) {
            std::future::pending::<()>().await;
        }
        if let Some(kind) = self.failure_of(&request) {
            return Err(planned(kind));
        }
        let mut loaded = self.provider.load(request).await?;
        let histories = loaded.iter().flatten().flat_map(|one| &one.history);
        self.note_load(histories.map(EventRecord::bytes).sum());
        for one in &mut loaded {
            let messages = one.iter().flat_map(|loaded| &loaded.messages.messages);
            if messages.into_iter().any(|message| is_damaged(&message.body)) {
                *one = Err(planned(ProviderErrorKind::Corrupt));
            }
        }
        self.leave(Call::Load).await;
        Ok(loaded)
    }

    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError> {
        self.enter(Call::Tasks)?;
        let acquired = self.provider.acquire_tasks(request).await;
        self.leave(Call::Tasks).await;
        acquired
    }

    async fn announce_activities(&self, names: Vec<String>) -> Result<Vec<String>, ProviderError> {
        self.provider.announce_activities(names).await
    }

    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError> {
        self.enter(Call::Tasks)?;
        self.note_list_of_tasks();
        // No store answers at once.
        tokio::task::yield_now().await;
        self.provider.tasks_of(worker).await
    }

    async fn resume_mismatched(&self, request: ResumeMismatched) -> Result<Vec<Mismatched>, ProviderError> {
        self.enter(Call::ResumeMismatched)?;
        let resumed = self.provider.resume_mismatched(request).await;
        self.leave(Call::ResumeMismatched).await;
        resumed
    }

    async fn read_history(
        &self,
        key: InstanceKey,
        execution: ExecutionId,
        from: EventId,
        limit: PageLimit,
    ) -> Result<Vec<EventRecord>, ProviderError> {
        self.enter(Call::History)?;
        let page = self.provider.read_history(key, execution, from, limit).await;
        self.leave(Call::History).await;
        page
    }

    async fn read_inbox(
        &self,
        worker: &WorkerId,
        since: &InboxPosition,
        limit: PageLimit,
    ) -> Result<Inbox, ProviderError> {
        self.enter(Call::Inbox)?;
        let mut inbox = self.provider.read_inbox(worker, since, limit).await;
        for (_, message) in inbox.iter_mut().flat_map(|inbox| &mut inbox.messages) {
            if let Ok(damaged) = message
                && is_damaged(&damaged.body)
            {
                *message = Err(damaged.seq);
            }
        }
        self.leave(Call::Inbox).await;
        inbox
    }

    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: PageLimit,
    ) -> Result<MessagePage, ProviderError> {
        self.enter(Call::Messages)?;
        let page = self.provider.read_messages(key, mailboxes, limit).await?;
        if page.messages.iter().any(|message| is_damaged(&message.body)) {
            return Err(planned(ProviderErrorKind::Corrupt));
        }
        self.leave(Call::Messages).await;
        Ok(page)
    }

    /// The instance `damaged` cannot be read, nor can others together with it.
    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError> {
        self.enter(Call::Statuses)?;
        if ids.iter().any(|id| id == "damaged") {
            return Err(planned(ProviderErrorKind::Corrupt));
        }
        let statuses = self.provider.statuses(ids).await;
        self.leave(Call::Statuses).await;
        statuses
    }

    async fn ids_of(&self, keys: Vec<InstanceKey>) -> Result<Vec<Option<String>>, ProviderError> {
        self.provider.ids_of(keys).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage, ProviderError> {
        self.enter(Call::List)?;
        let page = self.provider.list(request).await;
        self.leave(Call::List).await;
        page
    }

    async fn prune(&self, request: PruneRequest) -> Result<Pruned, ProviderError> {
        self.enter(Call::Prune)?;
        let pruned = self.provider.prune(request).await;
        self.leave(Call::Prune).await;
        pruned
    }

    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError> {
        self.enter(Call::Prune)?;
        self.provider.prune_executions(request).await
    }

    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError> {
        self.enter(Call::Sweep)?;
        self.provider.sweep(limit).await
    }

    async fn stored_texts(&self, request: TextRequest) -> Result<TextPage, ProviderError> {
        self.provider.stored_texts(request).await
    }

    async fn replace_texts(&self, changes: Vec<TextChange>) -> Result<usize, ProviderError> {
        self.provider.replace_texts(changes).await
    }

    async fn stats(&self) -> Result<StoreStats, ProviderError> {
        self.provider.stats().await
    }

    async fn overdue(&self) -> Result<Vec<Overdue>, ProviderError> {
        self.provider.overdue().await
    }

    async fn inspect(&self) -> Result<Inspection, ProviderError> {
        self.provider.inspect().await
    }

    async fn check(&self, request: CheckRequest) -> Result<Checked, ProviderError> {
        self.provider.check(request).await
    }

    async fn close(&self) {
        self.refuse_all();
    }
}
