//! Operations of clients that delete ended instances and old histories, and that count the contents of the store.
//!
//! A deletion is answered when the deleted history is swept away, too. A process that ends in between leaves the rest
//! to the next deletion of any process.

use std::sync::Arc;

use perdure_provider::{Filter, Outcome, Place, PruneExecutions, PruneRequest, StoreStats, Write};

use crate::client::abandoning::Deletion;
use crate::client::store::{Reply, Store, unexpected};
use crate::client::watch::WaitId;
use crate::error::RuntimeError;
use crate::options::{PRUNE_BATCH, PRUNE_WALK, SWEEP_EVENTS};

impl Store {
    /// Deletes an instance that has ended.
    pub fn delete(self: &Arc<Self>, id: String, reply: Reply<()>) {
        let this = Arc::clone(self);
        self.write(Write::Delete { id: id.clone() }, move |outcome| match outcome {
            Ok(Outcome::Deleted) => {
                this.mark_changed(&id);
                let tokio = this.tokio.clone();
                tokio.spawn(async move { reply(this.sweep().await) });
            }
            Ok(Outcome::NotFound) => reply(Err(RuntimeError::InstanceNotFound { id })),
            Ok(Outcome::NotEnded { status }) => reply(Err(RuntimeError::NotEnded { id, status })),
            other => reply(Err(unexpected(other))),
        });
    }

    /// Deletes ended instances that match, those that ended longest ago first and `limit` at most. Replies with the
    /// number of deleted instances. [`Store::abandon`] ends the deletion before its next batch.
    pub fn prune(self: &Arc<Self>, id: WaitId, filter: Filter, limit: Option<u64>, reply: Reply<u64>) {
        let this = Arc::clone(self);
        let deletion = self.deletions.begin(id);
        self.tokio
            .spawn(async move { reply(this.prune_all(&deletion, &filter, limit).await) });
    }

    async fn prune_all(&self, deletion: &Deletion, filter: &Filter, limit: Option<u64>) -> Result<u64, RuntimeError> {
        let limit = limit.unwrap_or(u64::MAX);
        let mut deleted = 0;
        let mut after: Option<Place> = None;
        while deleted < limit && !deletion.is_abandoned() {
            let request = PruneRequest {
                filter: filter.clone(),
                after,
                limit: usize::try_from(limit - deleted).map_or(PRUNE_BATCH, |left| left.min(PRUNE_BATCH)),
                walk_max: PRUNE_WALK,
            };
            let pruned = self.provider.prune(request).await?;
            deleted += pruned.deleted as u64;
            after = pruned.next;
            if pruned.deleted > 0 {
                self.sweep_until(|| deletion.is_abandoned()).await?;
            }
            if after.is_none() {
                break;
            }
        }
        self.sweep_until(|| deletion.is_abandoned()).await?;
        Ok(deleted)
    }

    /// Deletes the histories of former executions of instances that match, except for the last `keep` of each instance.
    /// Replies with the number of these executions. [`Store::abandon`] ends the deletion before its next step.
    pub fn prune_executions(self: &Arc<Self>, id: WaitId, filter: Filter, keep: u64, reply: Reply<u64>) {
        let this = Arc::clone(self);
        let deletion = self.deletions.begin(id);
        self.tokio
            .spawn(async move { reply(this.prune_all_executions(&deletion, &filter, keep).await) });
    }

    async fn prune_all_executions(&self, deletion: &Deletion, filter: &Filter, keep: u64) -> Result<u64, RuntimeError> {
        let mut deleted = 0;
        let mut from = None;
        loop {
            let request = PruneExecutions {
                filter: filter.clone(),
                keep,
                from,
                events_max: SWEEP_EVENTS,
                walk_max: PRUNE_WALK,
            };
            let pruned = self.provider.prune_executions(request).await?;
            deleted += pruned.deleted as u64;
            from = pruned.next;
            if from.is_none() || deletion.is_abandoned() {
                return Ok(deleted);
            }
        }
    }

    /// Sweeps step by step, so that turns are committed in between.
    pub(crate) async fn sweep(&self) -> Result<(), RuntimeError> {
        self.sweep_until(|| false).await
    }

    /// Sweeps as [`sweep`](Self::sweep) does, until `is_over`.
    async fn sweep_until(&self, is_over: impl Fn() -> bool + Send) -> Result<(), RuntimeError> {
        while !is_over() && self.provider.sweep(SWEEP_EVENTS).await? {}
        Ok(())
    }

    /// Reads the identity of the store.
    pub fn store_id(self: &Arc<Self>, reply: Reply<String>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.store_id().await.map_err(RuntimeError::from)) });
    }

    /// Counts the contents of the store.
    pub fn stats(self: &Arc<Self>, reply: Reply<StoreStats>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.stats().await.map_err(RuntimeError::from)) });
    }
}
