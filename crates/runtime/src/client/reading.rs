//! Operations of clients that read lists of instances and histories page by page. No more than a page is held here.

use std::path::PathBuf;
use std::sync::Arc;

use perdure_engine::{EventId, EventRecord, ExecutionId};
use perdure_provider::{
    CheckRequest, Checked, ExecutionSummary, ExecutionsRequest, Filter, Footprint, Inspection, InstanceKey,
    InstanceStatus, LIST_BYTES_MAX, ListPage, ListRequest, LogPage, LogRequest, OpenWork, OverdueRequest, OverdueWork,
    PageLimit, Place, ProviderInfo, StateRequest, StoredState, Takeover, Worker,
};

use crate::client::store::{Reply, Store};
use crate::error::RuntimeError;
use crate::options::{EXECUTIONS_PAGE, HISTORY_PAGE, LIST_WALK, LOG_PAGE};

/// A client's request for a page of a history.
#[derive(Clone, Debug)]
pub struct HistoryRequest {
    /// Id of the instance.
    pub id: String,
    /// The instance that an earlier page was of; `None`: the instance that has the id now.
    pub key: Option<InstanceKey>,
    /// The execution; `None`: the current one.
    pub execution: Option<ExecutionId>,
    /// The first event.
    pub from: EventId,
    /// Highest number of events, and never more than a [page](HISTORY_PAGE), which limits the bytes, too.
    pub limit: usize,
}

/// A page of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPage {
    /// The instance of the history.
    pub key: InstanceKey,
    /// The execution of the history.
    pub execution: ExecutionId,
    /// The events, in order.
    pub events: Vec<EventRecord>,
    /// True if there were no further events.
    pub is_last: bool,
}

/// A client's request for a page of the executions of an instance.
#[derive(Clone, Debug)]
pub struct ExecutionsQuery {
    /// Id of the instance.
    pub id: String,
    /// The instance that an earlier page was of; `None`: the instance that has the id now.
    pub key: Option<InstanceKey>,
    /// The newest execution of the page; `None`: the current one.
    pub from: Option<ExecutionId>,
    /// Highest number of executions, and never more than a [page](EXECUTIONS_PAGE), which limits the bytes, too.
    pub limit: usize,
}

/// A page of the executions of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionsPage {
    /// The status of the instance, read before the executions.
    pub instance: InstanceStatus,
    /// The executions, the newest first.
    pub executions: Vec<ExecutionSummary>,
    /// The execution to go on from; `None`: there are no more executions.
    pub next: Option<ExecutionId>,
}

impl Store {
    /// Reads the status of an instance; `None` if there is no instance with this id.
    pub fn status(self: &Arc<Self>, id: String, reply: Reply<Option<InstanceStatus>>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            let answer = this.find(id).await;
            reply(answer);
        });
    }

    /// Lists instances that match, the newest first. The page has `limit` instances if there are as many, and fewer
    /// only if their results are large.
    pub fn list(self: &Arc<Self>, filter: Filter, after: Option<Place>, limit: usize, reply: Reply<ListPage>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.list_page(filter, after, limit).await) });
    }

    async fn list_page(&self, filter: Filter, after: Option<Place>, limit: usize) -> Result<ListPage, RuntimeError> {
        let mut found = ListPage {
            instances: Vec::new(),
            next: after,
        };
        let mut bytes = 0;
        loop {
            // The limit of the walk lets others read in between, where many instances do not match.
            let request = ListRequest {
                filter: filter.clone(),
                after: found.next,
                limit: limit - found.instances.len(),
                walk_max: LIST_WALK,
            };
            let page = self.provider.list(request).await?;
            bytes += page.instances.iter().map(InstanceStatus::payload_bytes).sum::<usize>();
            found.instances.extend(page.instances);
            found.next = page.next;
            if found.next.is_none() || found.instances.len() >= limit || bytes > LIST_BYTES_MAX {
                return Ok(found);
            }
        }
    }

    /// Reads a page of the history of an instance's execution.
    pub fn history(self: &Arc<Self>, request: HistoryRequest, reply: Reply<HistoryPage>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move { reply(this.history_page(request).await) });
    }

    async fn history_page(&self, request: HistoryRequest) -> Result<HistoryPage, RuntimeError> {
        let HistoryRequest {
            id,
            key,
            execution,
            from,
            limit,
        } = request;
        let limit = PageLimit {
            rows: limit.min(HISTORY_PAGE.rows),
            ..HISTORY_PAGE
        };
        let status = self.found(id.clone(), key).await?;
        let execution = execution.unwrap_or(status.execution);
        if !(ExecutionId::FIRST..=status.execution).contains(&execution) {
            return Err(RuntimeError::ExecutionNotFound {
                id,
                execution: execution.0,
                last: status.execution.0,
            });
        }
        let events = self.provider.read_history(status.key, execution, from, limit).await?;
        if events.is_empty() && from == EventId::FIRST {
            let execution = execution.0;
            return Err(RuntimeError::ExecutionPruned { id, execution });
        }
        Ok(HistoryPage {
            key: status.key,
            execution,
            is_last: !limit.is_reached(events.len(), events.iter().map(EventRecord::bytes).sum()),
            events,
        })
    }

    /// Reads the open work of an instance, and the workers that run it; `None` if there is no instance with this id.
    pub fn open_work(self: &Arc<Self>, id: String, reply: Reply<Option<(OpenWork, Vec<Worker>)>>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move { reply(this.read_open_work(id).await) });
    }

    async fn read_open_work(&self, id: String) -> Result<Option<(OpenWork, Vec<Worker>)>, RuntimeError> {
        let Some(work) = self.provider.open_work(id).await? else {
            return Ok(None);
        };
        let runs = |worker: &Worker| {
            let id = Some(&worker.id);
            work.owner.as_ref() == id || work.tasks.iter().any(|task| task.worker.as_ref() == id)
        };
        let is_run = work.owner.is_some() || work.tasks.iter().any(|task| task.worker.is_some());
        let mut workers = if is_run {
            self.provider.workers().await?
        } else {
            Vec::new()
        };
        workers.retain(runs);
        Ok(Some((work, workers)))
    }

    /// Reads a page of the executions of an instance, from `from` down or from the current one.
    pub fn executions(self: &Arc<Self>, request: ExecutionsQuery, reply: Reply<ExecutionsPage>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.executions_page(request).await) });
    }

    async fn executions_page(&self, request: ExecutionsQuery) -> Result<ExecutionsPage, RuntimeError> {
        let ExecutionsQuery { id, key, from, limit } = request;
        let instance = self.found(id, key).await?;
        let from = from.unwrap_or(instance.execution).min(instance.execution);
        let limit = PageLimit {
            rows: limit.min(EXECUTIONS_PAGE.rows),
            ..EXECUTIONS_PAGE
        };
        let request = ExecutionsRequest {
            key: instance.key,
            from,
            limit,
        };
        let executions = self.provider.executions(request).await?;
        let last = executions.last().map_or(0, |summary| summary.execution.0);
        Ok(ExecutionsPage {
            instance,
            executions,
            next: (last > 1).then(|| ExecutionId(last - 1)),
        })
    }

    /// Reads the takeovers of dead workers that an instance lived through.
    pub fn takeovers(self: &Arc<Self>, id: String, reply: Reply<Vec<Takeover>>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            let takeovers = async {
                let key = this.found(id, None).await?.key;
                Ok(this.provider.takeovers(key).await?)
            };
            reply(takeovers.await);
        });
    }

    /// Reads the room that an instance takes in the store.
    pub fn footprint(self: &Arc<Self>, id: String, reply: Reply<Footprint>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            let footprint = async {
                let key = this.found(id, None).await?.key;
                Ok(this.provider.footprint(key).await?)
            };
            reply(footprint.await);
        });
    }

    /// Reads lines that an instance logged; `None` if there is no instance with this id.
    pub fn logs(self: &Arc<Self>, request: LogRequest, reply: Reply<Option<LogPage>>) {
        let this = Arc::clone(self);
        let request = LogRequest {
            limit: request.limit.min(LOG_PAGE),
            ..request
        };
        self.tokio
            .spawn(async move { reply(this.provider.logs(request).await.map_err(RuntimeError::from)) });
    }

    /// Reads the state of an instance, or one value of it; `None` if there is no instance with this id.
    pub fn state(self: &Arc<Self>, request: StateRequest, reply: Reply<Option<StoredState>>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.state(request).await.map_err(RuntimeError::from)) });
    }

    /// Reads the work that is overdue.
    pub fn overdue(self: &Arc<Self>, request: OverdueRequest, reply: Reply<OverdueWork>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.overdue(request).await.map_err(RuntimeError::from)) });
    }

    /// Does one step of the check of the store's rows.
    pub fn check(self: &Arc<Self>, request: CheckRequest, reply: Reply<Checked>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.check(request).await.map_err(RuntimeError::from)) });
    }

    /// Copies the store into another file while it is in use.
    pub fn back_up(self: &Arc<Self>, to: PathBuf, replace: bool, reply: Reply<u64>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.back_up(to, replace).await.map_err(RuntimeError::from)) });
    }

    /// Reads the setup of the store and the workers that use it.
    pub fn inspect(self: &Arc<Self>, reply: Reply<(ProviderInfo, Inspection)>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            let found = this.provider.inspect().await;
            reply(
                found
                    .map(|found| (this.provider.info(), found))
                    .map_err(RuntimeError::from),
            );
        });
    }

    /// Returns the status of the instance. Another instance that has the id by now is not the one with the key.
    async fn found(&self, id: String, key: Option<InstanceKey>) -> Result<InstanceStatus, RuntimeError> {
        self.find(id.clone())
            .await?
            .filter(|status| key.is_none_or(|key| key == status.key))
            .ok_or(RuntimeError::InstanceNotFound { id })
    }

    async fn find(&self, id: String) -> Result<Option<InstanceStatus>, RuntimeError> {
        Ok(self.provider.statuses(vec![id]).await?.pop().flatten())
    }
}
