//! The calls of the store that a test controls: each fails or waits as the test said, and otherwise behaves like a real
//! store's.

use std::sync::Arc;

use perdure_engine::{EventRecord, Mailbox};
use perdure_provider::{
    ChangeListener, CommitDone, Inbox, InboxPosition, InnerCall, InstanceKey, InstanceStatus, Load, Loaded,
    MessagePage, PageLimit, Provider, ProviderError, ProviderErrorKind, ProviderInfo, ProviderWrapper, PruneExecutions,
    PrunedExecutions, ReleaseMost, ReleasedMost, Renewal, TakenOver, TaskName, Worker, WorkerId, Write,
};

use super::memory::{Call, Memory, is_damaged, planned};

/// Returns the call that a test may let fail or hold back, by its method, if nothing else is special about the call.
fn controlled(name: &str) -> Option<Call> {
    Some(match name {
        "acquire" => Call::Acquire,
        "acquire_tasks" => Call::Tasks,
        "announce_versions" => Call::AnnounceVersions,
        "list" => Call::List,
        "owned_by" => Call::Owned,
        "prune" => Call::Prune,
        "read_history" => Call::History,
        "register_worker" => Call::Register,
        "resume_mismatched" => Call::ResumeMismatched,
        _ => return None,
    })
}

#[async_trait::async_trait]
impl ProviderWrapper for Memory {
    fn inner(&self) -> &dyn Provider {
        &*self.provider
    }

    async fn forward<T: Send>(&self, name: &'static str, call: InnerCall<'_, T>) -> Result<T, ProviderError> {
        let Some(controlled) = controlled(name) else {
            return call.await;
        };
        self.enter(controlled)?;
        let answer = call.await;
        self.leave(controlled).await;
        answer
    }

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

    /// Only [`send`](Memory::send) tells the listener. Otherwise a test itself says when a session is to look.
    fn on_foreign_change(&self, listener: ChangeListener) {
        self.listen(listener);
    }

    async fn renew_worker(
        &self,
        worker: &WorkerId,
        lease_ms: u64,
        description: Option<&str>,
    ) -> Result<Option<Renewal>, ProviderError> {
        self.enter(Call::Renew)?;
        self.leave(Call::Renew).await;
        self.note_renewal(description);
        self.provider.renew_worker(worker, lease_ms, description).await
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

    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError> {
        self.enter(Call::Tasks)?;
        self.note_list_of_tasks();
        // No store answers at once.
        tokio::task::yield_now().await;
        self.provider.tasks_of(worker).await
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

    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError> {
        self.enter(Call::Prune)?;
        self.provider.prune_executions(request).await
    }

    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError> {
        self.enter(Call::Sweep)?;
        self.provider.sweep(limit).await
    }

    async fn close(&self) {
        self.refuse_all();
    }
}
