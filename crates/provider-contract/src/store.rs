//! A fresh store for one check, with short forms of its calls.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use perdure_engine::{EventId, EventRecord, ExecutionId, Mailbox, MessageBody, MessageSeq, Payload};
use perdure_provider::{
    Acquire, Acquired, AcquiredInstance, CheckRequest, Clock, CommitDone, InstanceKey, InstanceStatus, Load, Loaded,
    ManualClock, MessagePage, Mismatched, NewInstance, NewMessage, OnConflict, Outcome, PageLimit, Provider,
    ProviderError, ProviderErrorKind, ResumeMismatched, Rule, Suspend, Terminate, TurnCommit, WorkerId, Write,
};
use tokio::sync::oneshot;

pub(crate) use crate::values::*;

/// The longest time that a check may take. Only a failure takes as long.
const CHECK_MAX: Duration = Duration::from_secs(60);

/// Makes the stores of one provider.
pub trait Fixture: Sized + Send + Sync + 'static {
    /// Opens a fresh, empty store whose clock is `clock`.
    fn open(clock: Arc<ManualClock>) -> impl Future<Output = Self> + Send;

    /// Returns the handle on the store that [`open`](Self::open) made.
    fn provider(&self) -> Arc<dyn Provider>;

    /// Opens another handle on the same store, as another process would have it. Returns `None` if no other process can
    /// reach this store.
    fn second(&self) -> impl Future<Output = Option<Arc<dyn Provider>>> + Send;
}

/// A store under test.
pub struct Store {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) clock: Arc<ManualClock>,
    second: Option<Arc<dyn Provider>>,
    /// Keeps the resources of the store alive.
    _fixture: Box<dyn std::any::Any + Send + Sync>,
}

impl Store {
    /// Opens a fresh store.
    pub async fn open<F: Fixture>() -> Self {
        let clock = Arc::new(ManualClock::new(START_MS));
        let fixture = F::open(Arc::clone(&clock)).await;
        let (provider, second) = (fixture.provider(), fixture.second().await);
        Self {
            provider,
            clock,
            second,
            _fixture: Box::new(fixture),
        }
    }

    /// Runs a check, and closes the store after it. No row of an instance that is gone may be left then.
    pub async fn finish(&self, check: impl Future<Output = ()>) {
        within(check).await;
        within(self.expect_no_orphans()).await;
        within(self.provider.close()).await;
        if let Some(second) = &self.second {
            within(second.close()).await;
        }
    }

    async fn expect_no_orphans(&self) {
        let mut after = None;
        loop {
            let request = CheckRequest { after, limit: 1_000 };
            let checked = match self.provider.check(request).await {
                Ok(checked) => checked,
                Err(error) if error.kind == ProviderErrorKind::Closed => return,
                Err(error) => panic!("the store is checked: {error}"),
            };
            let orphans: Vec<_> = checked
                .findings
                .into_iter()
                .filter(|finding| finding.rule == Rule::Orphan && finding.instance.is_none())
                .collect();
            assert!(orphans.is_empty(), "{orphans:?}");
            after = checked.next;
            if after.is_none() {
                return;
            }
        }
    }

    /// The same store through another handle, as another process has it.
    pub(crate) fn second(&self) -> Option<Handle<'_>> {
        self.second.as_ref().map(|provider| Handle {
            provider,
            clock: &self.clock,
        })
    }

    /// Hands over eight writes at once, each in its own batch, through the handles in turn. Returns their outcomes.
    pub(crate) async fn eight_at_once(&self, write: impl Fn() -> Write) -> Vec<Outcome> {
        let first = self.first();
        let second = self.second().unwrap_or(first);
        let answers: Vec<_> = (0..8)
            .map(|n| {
                let (done, answered) = answer();
                let handle = if n % 2 == 0 { first } else { second };
                handle.provider.commit(Arc::new(vec![write()]), done);
                answered
            })
            .collect();
        let mut outcomes = Vec::new();
        for answered in answers {
            let batch = within(answered).await.expect("a batch is answered");
            outcomes.extend(batch.expect("the batch is written"));
        }
        outcomes
    }

    /// Hands over eight starts at once. Returns the number of those that started an instance: the others found one.
    pub(crate) async fn starts_of_eight(&self, write: impl Fn() -> Write) -> usize {
        let outcomes = self.eight_at_once(write).await;
        let is_start = |outcome: &&Outcome| match outcome {
            Outcome::Started { .. } => true,
            Outcome::Exists => false,
            other => panic!("started or exists, not {other:?}"),
        };
        outcomes.iter().filter(is_start).count()
    }

    pub(crate) fn first(&self) -> Handle<'_> {
        Handle {
            provider: &self.provider,
            clock: &self.clock,
        }
    }
}

/// Fails after [`CHECK_MAX`] instead of hanging.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(CHECK_MAX, work)
        .await
        .expect("what the check waits for never came")
}

/// One handle on a store.
#[derive(Clone, Copy)]
pub(crate) struct Handle<'s> {
    pub(crate) provider: &'s Arc<dyn Provider>,
    pub(crate) clock: &'s ManualClock,
}

/// A callback for [`commit`](Provider::commit), and a receiver of the result that it is called with.
pub(crate) fn answer() -> (CommitDone, oneshot::Receiver<Result<Vec<Outcome>, ProviderError>>) {
    let (send, receive) = oneshot::channel();
    (
        Box::new(move |result| send.send(result).expect("a check waits for every answer")),
        receive,
    )
}

impl Handle<'_> {
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub(crate) async fn try_batch(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, ProviderError> {
        let (done, answered) = answer();
        self.provider.commit(Arc::new(writes), done);
        within(answered).await.expect("a batch is answered")
    }

    /// Hands over a batch. Returns true if `done` was called on this thread before [`commit`](Provider::commit)
    /// returned.
    pub(crate) async fn is_answered_within_the_call(&self, writes: Vec<Write>) -> bool {
        let caller = thread::current().id();
        let is_calling = Arc::new(AtomicBool::new(true));
        let (answered, within_call) = oneshot::channel();
        let done = {
            let is_calling = Arc::clone(&is_calling);
            move |_| {
                let within_call = thread::current().id() == caller && is_calling.load(Ordering::SeqCst);
                answered.send(within_call).expect("a check waits for every answer");
            }
        };
        self.provider.commit(Arc::new(writes), Box::new(done));
        is_calling.store(false, Ordering::SeqCst);
        within(within_call).await.expect("a batch is answered")
    }

    pub(crate) async fn batch(&self, writes: Vec<Write>) -> Vec<Outcome> {
        self.try_batch(writes).await.expect("the batch is written")
    }

    pub(crate) async fn write(&self, write: Write) -> Outcome {
        let [outcome] = <[Outcome; 1]>::try_from(self.batch(vec![write]).await).expect("one outcome for one write");
        outcome
    }

    pub(crate) async fn turn(&self, turn: TurnCommit) -> Outcome {
        self.write(Write::Turn(Box::new(turn))).await
    }

    /// Writes a turn that must pass.
    pub(crate) async fn commit(&self, turn: TurnCommit) -> Option<i64> {
        match self.turn(turn).await {
            Outcome::Committed { wake_at_ms, .. } => wake_at_ms,
            other => panic!("the turn is committed, not {other:?}"),
        }
    }

    pub(crate) async fn worker(&self, id: &str) -> WorkerId {
        let worker = new_worker(id);
        self.provider
            .register_worker(worker.clone())
            .await
            .expect("the worker is registered");
        worker.id
    }

    pub(crate) async fn start(&self, instance: NewInstance) -> InstanceKey {
        match self.write(Write::Start(Box::new(instance))).await {
            Outcome::Started { key, .. } => key,
            other => panic!("the instance is started, not {other:?}"),
        }
    }

    pub(crate) async fn acquire(&self, worker: &WorkerId) -> Acquired {
        self.acquire_up_to(worker, 100).await
    }

    pub(crate) async fn acquire_up_to(&self, worker: &WorkerId, limit: usize) -> Acquired {
        let registered = vec![(NAME.to_owned(), VERSION.to_owned())];
        self.request(Acquire {
            worker: worker.clone(),
            registered,
            limit: PageLimit::rows(limit),
            history_page: PageLimit::rows(100),
            left_ms: 0,
            looked: false,
        })
        .await
    }

    pub(crate) async fn request(&self, request: Acquire) -> Acquired {
        self.request_page(request, PageLimit::rows(1_000)).await
    }

    /// Acquires instances and loads them.
    async fn request_page(&self, request: Acquire, message_page: PageLimit) -> Acquired {
        let history_page = request.history_page;
        let mut acquired = self
            .provider
            .acquire(request)
            .await
            .expect("the store answers a request for work");
        let load = Load {
            instances: acquired.instances.iter().map(AcquiredInstance::to_load).collect(),
            history_page,
            message_page,
        };
        let loaded = self.provider.load(load).await.expect("the store answers");
        assert_eq!(loaded.len(), acquired.instances.len());
        let with = |(instance, loaded): (AcquiredInstance, Result<Loaded, _>)| {
            assert!(instance.history.is_empty(), "nothing of it is read with it");
            instance.with(loaded.expect("it can be read"))
        };
        acquired.instances = acquired.instances.into_iter().zip(loaded).map(with).collect();
        acquired
    }

    /// Acquires the one instance that is due, with at most a page of messages.
    pub(crate) async fn acquire_page(&self, worker: &WorkerId, message_page: PageLimit) -> AcquiredInstance {
        let request = Acquire {
            worker: worker.clone(),
            registered: vec![(NAME.to_owned(), VERSION.to_owned())],
            limit: PageLimit::rows(1),
            history_page: PageLimit::rows(100),
            left_ms: 0,
            looked: false,
        };
        let acquired = self.request_page(request, message_page).await;
        acquired.instances.into_iter().next().expect("one is due")
    }

    /// Acquires the one instance that is due.
    pub(crate) async fn acquire_one(&self, worker: &WorkerId) -> AcquiredInstance {
        let acquired = self.acquire(worker).await;
        let ids: Vec<_> = acquired.instances.iter().map(|instance| instance.id.clone()).collect();
        let [instance] =
            <[AcquiredInstance; 1]>::try_from(acquired.instances).unwrap_or_else(|_| panic!("one is due, not {ids:?}"));
        instance
    }

    /// Starts an instance and acquires it.
    pub(crate) async fn owned(&self, id: &str, worker: &WorkerId) -> AcquiredInstance {
        self.start(instance(id)).await;
        self.acquire_one(worker).await
    }

    /// Starts an instance, in the place of one that has ended, and acquires it.
    pub(crate) async fn acquire_anew(&self, id: &str, worker: &WorkerId) -> AcquiredInstance {
        let on_conflict = OnConflict::RestartIfTerminal;
        self.start(NewInstance {
            on_conflict,
            ..instance(id)
        })
        .await;
        self.acquire_one(worker).await
    }

    pub(crate) async fn send(&self, id: &str, body: MessageBody) -> Outcome {
        self.send_within(None, id, body).await
    }

    /// Sends a message if no more than `unread_max` messages wait then.
    pub(crate) async fn send_within(&self, unread_max: Option<u64>, id: &str, body: MessageBody) -> Outcome {
        let message = NewMessage {
            instance: id.to_owned(),
            body,
            unread_max,
            time_ms: self.now_ms(),
        };
        self.write(Write::Message(message)).await
    }

    /// Sends a message that must arrive.
    pub(crate) async fn deliver(&self, id: &str, body: MessageBody) -> MessageSeq {
        match self.send(id, body).await {
            Outcome::Delivered { seq, .. } => seq,
            other => panic!("the message is delivered, not {other:?}"),
        }
    }

    pub(crate) async fn terminate(&self, id: &str, reason: Payload) -> Outcome {
        self.write(Write::Terminate(Terminate {
            id: id.to_owned(),
            reason,
            time_ms: self.now_ms(),
        }))
        .await
    }

    pub(crate) async fn suspend(&self, id: &str, report: &str) -> Outcome {
        self.write(Write::Suspend(Suspend {
            id: id.to_owned(),
            report: report.to_owned(),
            time_ms: self.now_ms(),
        }))
        .await
    }

    pub(crate) async fn delete(&self, id: &str) -> Outcome {
        self.write(Write::Delete { id: id.to_owned() }).await
    }

    pub(crate) async fn resume(&self, id: &str) -> Outcome {
        self.write(Write::Resume {
            id: id.to_owned(),
            time_ms: self.now_ms(),
        })
        .await
    }

    /// Registers code of the orchestration that checks start. Returns the instances that go on because of it, at most
    /// `limit`.
    pub(crate) async fn resume_mismatched(
        &self,
        code: &str,
        after: Option<Mismatched>,
        limit: usize,
    ) -> Vec<Mismatched> {
        let request = ResumeMismatched {
            name: NAME.to_owned(),
            version: VERSION.to_owned(),
            code: code.to_owned(),
            after,
            limit,
            time_ms: self.now_ms(),
        };
        self.provider
            .resume_mismatched(request)
            .await
            .expect("the store answers")
    }

    pub(crate) async fn find(&self, id: &str) -> Option<InstanceStatus> {
        let statuses = self.provider.statuses(vec![id.to_owned()]).await;
        let [status] = <[_; 1]>::try_from(statuses.expect("the store answers")).expect("one status for one id");
        status
    }

    pub(crate) async fn status(&self, id: &str) -> InstanceStatus {
        self.find(id).await.expect("there is such an instance")
    }

    pub(crate) async fn history(&self, key: InstanceKey) -> Vec<EventRecord> {
        self.provider
            .read_history(key, ExecutionId::FIRST, EventId::FIRST, PageLimit::rows(usize::MAX))
            .await
            .expect("the store answers")
    }

    pub(crate) async fn messages(&self, key: InstanceKey) -> Vec<perdure_engine::Message> {
        self.page(key, None, usize::MAX).await.messages
    }

    pub(crate) async fn page(&self, key: InstanceKey, mailboxes: Option<Vec<Mailbox>>, limit: usize) -> MessagePage {
        let page = self
            .provider
            .read_messages(key, mailboxes, PageLimit::rows(limit))
            .await;
        page.expect("the store answers")
    }

    /// Asserts that nothing is due for a worker that can run the orchestration of the checks.
    pub(crate) async fn assert_nothing_due(&self, worker: &WorkerId) {
        let acquired = self.acquire(worker).await;
        assert!(
            acquired.instances.is_empty(),
            "nothing is due, but {:?}",
            acquired.instances
        );
    }
}
