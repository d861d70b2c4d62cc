//! The link from a process to its store, on which things go wrong.
//!
//! A link is a [`Provider`] around another one. Its faults are drawn from the seed: a call fails before it reaches the
//! store, takes long on its way there or back, or the process dies before, in between or after. A stopped process makes
//! no calls and hears no answers until it goes on; calls that it had sent go their way meanwhile. A dead process never
//! hears anything again, and calls that it had sent may still be carried out a little later, as with a connection that
//! outlives its client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use parking_lot::Mutex;
use perdure_engine::{Bug, EventId, EventRecord, ExecutionId, Mailbox, Message, MessageSeq, is_planted};
use perdure_provider::{
    Acquire, Acquired, AcquiredTasks, Change, ChangeListener, CheckRequest, Checked, CommitDone, Epoch, Inbox,
    InboxPosition, Inspection, InstanceKey, InstanceStatus, ListPage, ListRequest, Load, Loaded, MessagePage,
    Mismatched, NewWorker, Newest, Outcome, Overdue, PageLimit, Provider, ProviderError, ProviderErrorKind,
    ProviderInfo, PruneExecutions, PruneRequest, Pruned, PrunedExecutions, ReleaseMost, ReleasedMost, Renewal,
    ResumeMismatched, StoreStats, TakenOver, TaskName, TaskRequest, TextChange, TextPage, TextRequest, Worker,
    WorkerId, Write,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::Connection;
use crate::log::Log;
use crate::plan::{Moment, Refusal, Weather};
use crate::witness::Witness;

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pulse {
    Running,
    /// The process stands still, as after SIGSTOP.
    Stopped,
    /// The process was killed, as by SIGKILL.
    Dead,
}

/// The state that all links share: the weather, and chance.
pub(crate) struct Air {
    pub(crate) weather: Mutex<Weather>,
    pub(crate) rng: Mutex<Rng>,
    /// Until then no call of any process comes through.
    pub(crate) outage_until: Mutex<Instant>,
    /// Until then every call is refused, or every call that writes.
    pub(crate) refusal: Mutex<Option<(Instant, Refusal)>>,
    /// The number of times that each fault happened.
    pub(crate) fired: Mutex<std::collections::BTreeMap<&'static str, u64>>,
    /// The time by which the last of the calls that got stuck so far comes through.
    stuck_until: Mutex<Instant>,
}

impl Air {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            weather: Mutex::default(),
            rng: Mutex::new(rng),
            outage_until: Mutex::new(Instant::now()),
            refusal: Mutex::default(),
            fired: Mutex::default(),
            stuck_until: Mutex::new(Instant::now()),
        }
    }

    /// The time by which the last of the calls that got stuck so far comes through.
    pub(crate) fn stuck_until(&self) -> Instant {
        *self.stuck_until.lock()
    }

    pub(crate) fn fire(&self, fault: &'static str) {
        *self.fired.lock().entry(fault).or_default() += 1;
    }

    /// True `per_mille` times out of a thousand.
    fn chance(&self, per_mille: u16) -> bool {
        per_mille > 0 && self.rng.lock().u16(..1_000) < per_mille
    }

    /// The error with which the store refuses a call now, if it does.
    fn refuses(&self, call: &str) -> Option<ProviderErrorKind> {
        let (until, refusal) = (*self.refusal.lock())?;
        let is_answered = refusal.lets_read && READS.contains(&call);
        (Instant::now() < until && !is_answered).then_some(refusal.kind)
    }

    fn ms(&self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.lock().u64(range))
    }

    fn one_way(&self) -> Duration {
        let weather = *self.weather.lock();
        if self.chance(weather.slow) {
            self.fire("slow call");
            return self.ms(20..800);
        }
        if self.chance(weather.stuck) {
            self.fire("stuck call");
            let wait = self.ms(1_000..12_000);
            let mut stuck_until = self.stuck_until.lock();
            *stuck_until = stuck_until.max(Instant::now() + wait);
            return wait;
        }
        self.ms(0..3)
    }
}

/// Called when the process dies in one of its calls.
pub(crate) type Death = Box<dyn Fn() + Send + Sync>;

/// The link of one process.
pub(crate) struct Link {
    inner: Connection,
    air: Arc<Air>,
    log: Arc<Log>,
    witness: Arc<Witness>,
    name: String,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    /// Keeps the batches in their order on the way to the store.
    order: Arc<tokio::sync::Mutex<()>>,
    death: Death,
}

/// A message of an inbox, and its instance.
type Received = (InstanceKey, Result<Message, MessageSeq>);

struct State {
    pulse: Pulse,
    calls: u64,
    /// The call at which the process dies.
    crash: Option<(u64, Moment)>,
    /// Earlier messages of the inbox, which may come again.
    seen: VecDeque<Received>,
}

/// Calls that write nothing.
const READS: [&str; 10] = [
    "inspect",
    "list",
    "overdue",
    "owned_by",
    "read_history",
    "read_inbox",
    "read_messages",
    "stats",
    "statuses",
    "workers",
];
/// The longest time that a lost notification may stay unnoticed.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// The number of messages that may come again.
const SEEN_MAX: usize = 8;

impl Link {
    pub(crate) fn new(
        inner: Connection,
        air: Arc<Air>,
        log: Arc<Log>,
        witness: Arc<Witness>,
        name: String,
        death: Death,
    ) -> Arc<Self> {
        let state = State {
            pulse: Pulse::Running,
            calls: 0,
            crash: None,
            seen: VecDeque::new(),
        };
        Arc::new(Self {
            inner,
            air,
            log,
            witness,
            name,
            state: Arc::new(Mutex::new(state)),
            changed: Arc::new(Notify::new()),
            order: Arc::default(),
            death,
        })
    }

    pub(crate) fn set_pulse(&self, pulse: Pulse) {
        self.state.lock().pulse = pulse;
        self.changed.notify_waiters();
    }

    /// Lets the process die `calls` calls from now.
    pub(crate) fn crash_at(&self, calls: u64, moment: Moment) {
        let mut state = self.state.lock();
        state.crash = Some((state.calls + calls, moment));
    }

    /// Removes the planned crash.
    pub(crate) fn calm_down(&self) {
        self.state.lock().crash = None;
    }

    /// Waits until the process runs, for ever if it is dead.
    async fn runs(&self) {
        loop {
            let changed = self.changed.notified();
            match self.state.lock().pulse {
                Pulse::Running => return,
                Pulse::Stopped | Pulse::Dead => {}
            }
            changed.await;
        }
    }

    /// Counts the next call. Returns its number, and the moment in it at which the process dies, if it does.
    fn number(&self) -> (u64, Option<Moment>) {
        let mut state = self.state.lock();
        state.calls += 1;
        let number = state.calls;
        (
            number,
            state.crash.take_if(|(at, _)| *at <= number).map(|(_, moment)| moment),
        )
    }

    async fn die(&self, moment: Moment, call: &str) {
        self.dies(moment, call);
        std::future::pending().await
    }

    fn dies(&self, moment: Moment, call: &str) {
        self.log.say(&self.name, format_args!("dies {moment:?} {call}"));
        self.air.fire(match moment {
            Moment::Before => "crash before a call",
            Moment::Between => "crash before an answer",
            Moment::After => "crash after an answer",
        });
        self.set_pulse(Pulse::Dead);
        (self.death)();
    }

    /// The way to the store. After an error the call does not reach the store.
    async fn there(&self, call: &str) -> Result<Option<Moment>, ProviderError> {
        self.runs().await;
        let (_, moment) = self.number();
        if moment == Some(Moment::Before) {
            self.die(Moment::Before, call).await;
        }
        sleep(self.air.one_way()).await;
        if self.state.lock().pulse == Pulse::Dead && self.air.chance(500) {
            // The call was lost on the way when the process died.
            std::future::pending::<()>().await;
        }
        let kinds = [ProviderErrorKind::Busy, ProviderErrorKind::Io, ProviderErrorKind::Full];
        let weather = *self.air.weather.lock();
        let kind = if Instant::now() < *self.air.outage_until.lock() {
            self.air.fire("call in an outage");
            sleep(self.air.ms(0..200)).await;
            Some(ProviderErrorKind::Io)
        } else if let Some(kind) = self.air.refuses(call) {
            self.air.fire("refused call");
            Some(kind)
        } else if self.air.chance(weather.failing) {
            self.air.fire("failed call");
            Some(kinds[self.air.rng.lock().usize(..3)])
        } else {
            None
        };
        let Some(kind) = kind else { return Ok(moment) };
        self.runs().await;
        self.log.say(&self.name, format_args!("{call} fails: {kind:?}"));
        Err(ProviderError::new(kind, "a planned fault"))
    }

    /// The way back.
    async fn back(&self, call: &str, moment: Option<Moment>) {
        if moment == Some(Moment::Between) {
            self.die(Moment::Between, call).await;
        }
        sleep(self.air.one_way()).await;
        self.runs().await;
        if moment == Some(Moment::After) {
            // The process hears the answer, and dies once it has acted on it.
            self.dies(Moment::After, call);
        }
    }

    async fn call<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        self.seen(name, call, |_| {}).await
    }

    /// A [`call`](Self::call) of which the witness is told when it is carried out.
    async fn seen<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
        tell: impl FnOnce(&T),
    ) -> Result<T, ProviderError> {
        let moment = self.there(name).await?;
        let answer = call.await;
        self.log.say(&self.name, format_args!("{name}"));
        if let Ok(answer) = &answer {
            tell(answer);
        }
        self.back(name, moment).await;
        answer
    }

    /// Loses the answer to a request for work, although the call was carried out.
    fn lose<T>(&self, name: &str, answer: Result<T, ProviderError>) -> Result<T, ProviderError> {
        let per_mille = self.air.weather.lock().unanswered;
        self.lose_some(per_mille, "lost answer", name, answer)
    }

    /// Does the same as [`lose`](Self::lose) for any other call about workers and what is theirs.
    fn unconfirm<T>(&self, name: &str, answer: Result<T, ProviderError>) -> Result<T, ProviderError> {
        let per_mille = self.air.weather.lock().unconfirmed;
        self.lose_some(per_mille, "lost confirmation", name, answer)
    }

    fn lose_some<T>(
        &self,
        per_mille: u16,
        fault: &'static str,
        name: &str,
        answer: Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        if answer.is_err() || !self.air.chance(per_mille) {
            return answer;
        }
        self.air.fire(fault);
        self.log.say(&self.name, format_args!("{name} is not answered"));
        let error = ProviderError::new(ProviderErrorKind::Io, "a planned fault: the answer is lost.");
        Err(error.of_unknown_outcome())
    }

    fn taken_over(&self, taken: &TakenOver) {
        taken.workers.iter().for_each(|worker| self.witness.gone(worker));
        taken
            .poison_pills
            .iter()
            .for_each(|poison_pill| self.witness.suspended_as_poison_pill(&poison_pill.id));
    }
}

#[expect(clippy::disallowed_methods, reason = "the way takes its time, which is virtual")]
pub(crate) async fn sleep(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// A batch that was sent and not answered. The link is a clone, because the sender may be gone.
struct Sent {
    link: Arc<Link>,
    batch: Arc<Vec<Write>>,
    done: CommitDone,
}

impl Sent {
    async fn go(self) {
        let Self { link, batch, done } = self;
        let turn = link.order.lock().await;
        let moment = match link.there("commit").await {
            Ok(moment) => moment,
            Err(error) => {
                drop(turn);
                return done(Err(error));
            }
        };
        let weather = *link.air.weather.lock();
        if moment.is_none() && link.air.chance(weather.late) {
            let answer = Late::send(&link, batch).resolve(&link).await;
            drop(turn);
            return done(answer);
        }
        let outcomes = link.write(&batch);
        link.write_again(&batch);
        link.back("commit", moment).await;
        drop(turn);
        done(outcomes);
    }
}

/// A batch that the store holds back (it waits for a lock, or a proxy is slow) and writes later, even if the connection
/// is gone. With it goes a mark, as a store leaves one with each transaction. A process that has lost the answer learns
/// from the mark if the batch was written, and takes the mark if it was not. A batch that finds its mark taken does
/// nothing.
struct Late(Arc<Mutex<LateMark>>);

enum LateMark {
    Free,
    /// The batch was written, with this answer.
    Left(Result<Vec<Outcome>, ProviderError>),
    /// The batch was given up.
    Taken,
}

impl Late {
    fn send(link: &Arc<Link>, batch: Arc<Vec<Write>>) -> Self {
        link.air.fire("batch that was held back");
        let mark = Arc::new(Mutex::new(LateMark::Free));
        let (store, left) = (Arc::clone(link), Arc::clone(&mark));
        let held_back = link.air.ms(20..12_000);
        tokio::spawn(async move {
            sleep(held_back).await;
            let mut mark = left.lock();
            if matches!(*mark, LateMark::Taken) {
                return store
                    .log
                    .say(&store.name, format_args!("a batch finds that it was given up"));
            }
            store.log.say(&store.name, format_args!("a batch comes late"));
            *mark = LateMark::Left(store.write(&batch));
        });
        Self(mark)
    }

    /// Cuts the connection. Returns the answer of the batch if it was written, and gives it up otherwise.
    async fn resolve(self, link: &Link) -> Result<Vec<Outcome>, ProviderError> {
        sleep(link.air.ms(20..1_000)).await;
        link.runs().await;
        let is_left_alone = is_planted(Bug::GivenUpComesToPass);
        let answer = {
            let mut mark = self.0.lock();
            let found = if is_left_alone { LateMark::Free } else { LateMark::Taken };
            std::mem::replace(&mut *mark, found)
        };
        match answer {
            LateMark::Left(outcomes) => outcomes,
            LateMark::Free | LateMark::Taken => {
                link.log.say(&link.name, format_args!("gives a batch up"));
                Err(ProviderError::new(
                    ProviderErrorKind::Io,
                    "a planned fault: the connection is cut",
                ))
            }
        }
    }
}

impl Link {
    /// Writes some turns twice. The second time, turns that append events must be fenced off.
    fn write_again(&self, batch: &[Write]) {
        let weather = *self.air.weather.lock();
        let appends = |write: &&Write| matches!(write, Write::Turn(turn) if !turn.events.is_empty());
        let turns: Vec<Write> = batch.iter().filter(appends).cloned().collect();
        if !turns.is_empty() && self.air.chance(weather.repeating) {
            self.air.fire("turn that was written twice");
            drop(self.write(&Arc::new(turns)));
        }
    }

    fn write(&self, batch: &Arc<Vec<Write>>) -> Result<Vec<Outcome>, ProviderError> {
        let outcomes = (self.inner.write)(batch);
        match &outcomes {
            Ok(outcomes) => {
                for (write, outcome) in batch.iter().zip(outcomes) {
                    self.witness.wrote(&self.log, &self.name, write, outcome);
                }
            }
            Err(error) => self
                .log
                .say(&self.name, format_args!("a batch of {} fails: {error}", batch.len())),
        }
        outcomes
    }
}

/// The provider that the runtime and the clients of a process use.
pub(crate) struct Linked(pub(crate) Arc<Link>);

#[async_trait]
impl Provider for Linked {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            concurrent_commits: 1,
            ..self.0.inner.provider.info()
        }
    }

    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        let link = Arc::clone(&self.0);
        tokio::spawn(Sent { link, batch, done }.go());
    }

    fn on_foreign_change(&self, listener: ChangeListener) {
        let listener = Arc::new(listener);
        // The provider keeps the listener, and the link keeps the provider.
        let link = Arc::downgrade(&self.0);
        self.0
            .inner
            .provider
            .on_foreign_change(Box::new(move |change: &Change| {
                let Some(link) = link.upgrade() else { return };
                let weather = *link.air.weather.lock();
                let listener = Arc::clone(&listener);
                let (change, wait) = if link.air.chance(weather.deaf) {
                    link.air.fire("lost notification");
                    if is_planted(Bug::NoSafetyPoll) {
                        return;
                    }
                    // The provider's own poll finds that something has changed.
                    (Change::anything(), SAFETY_POLL)
                } else {
                    (change.clone(), link.air.one_way())
                };
                tokio::spawn(async move {
                    sleep(wait).await;
                    link.runs().await;
                    listener(&change);
                });
            }));
    }

    async fn register_worker(&self, worker: NewWorker) -> Result<i64, ProviderError> {
        // Attempts of the worker before may begin again.
        self.0.witness.disturb(&self.0.name);
        self.0.witness.registers(&worker.id, &self.0.name);
        let answer = self
            .0
            .call("register_worker", self.0.inner.provider.register_worker(worker))
            .await;
        self.0.unconfirm("register_worker", answer)
    }

    async fn renew_worker(
        &self,
        worker: &WorkerId,
        lease_ms: u64,
        about: Option<&str>,
    ) -> Result<Option<Renewal>, ProviderError> {
        let answer = self
            .0
            .call(
                "renew_worker",
                self.0.inner.provider.renew_worker(worker, lease_ms, about),
            )
            .await;
        self.0.unconfirm("renew_worker", answer)
    }

    async fn owned_by(
        &self,
        worker: &WorkerId,
        after: InstanceKey,
        limit: usize,
    ) -> Result<Vec<(InstanceKey, Epoch)>, ProviderError> {
        self.0
            .call("owned_by", self.0.inner.provider.owned_by(worker, after, limit))
            .await
    }

    async fn announce_versions(&self, worker: &WorkerId, newest: Newest) -> Result<(), ProviderError> {
        let provider = &self.0.inner.provider;
        let answer = self
            .0
            .call("announce_versions", provider.announce_versions(worker, newest))
            .await;
        self.0.unconfirm("announce_versions", answer)
    }

    async fn workers(&self) -> Result<Vec<Worker>, ProviderError> {
        self.0.call("workers", self.0.inner.provider.workers()).await
    }

    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError> {
        let gone = |_: &u64| self.0.witness.gone(worker);
        let answer = self
            .0
            .seen("release_worker", self.0.inner.provider.release_worker(worker), gone)
            .await;
        self.0.unconfirm("release_worker", answer)
    }

    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError> {
        let taken_over = |taken: &TakenOver| {
            self.0.taken_over(taken);
            self.0.witness.gone(worker);
        };
        let answer = self
            .0
            .seen(
                "take_over_worker",
                self.0.inner.provider.take_over_worker(worker, report),
                taken_over,
            )
            .await;
        self.0.unconfirm("take_over_worker", answer)
    }

    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError> {
        let taken_over = |taken: &TakenOver| self.0.taken_over(taken);
        let answer = self
            .0
            .seen(
                "take_over_expired_workers",
                self.0.inner.provider.take_over_expired_workers(report),
                taken_over,
            )
            .await;
        self.0.unconfirm("take_over_expired_workers", answer)
    }

    async fn release_most(&self, request: ReleaseMost) -> Result<ReleasedMost, ProviderError> {
        let kept = request.clone();
        let given_back = |given: &ReleasedMost| {
            self.0.witness.releases_most(&self.0.name, &kept, given);
            given
                .poison_pill
                .iter()
                .for_each(|poison_pill| self.0.witness.suspended_as_poison_pill(&poison_pill.id));
        };
        let given = self
            .0
            .seen("give_back", self.0.inner.provider.release_most(request), given_back)
            .await;
        let given = self.0.unconfirm("give_back", given);
        self.0.witness.has_released_most(&self.0.name);
        given
    }

    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError> {
        let worker = request.worker.clone();
        let acquired = |acquired: &Acquired| self.0.witness.acquired(&self.0.log, &self.0.name, &worker, acquired);
        let answer = self
            .0
            .seen("acquire", self.0.inner.provider.acquire(request), acquired)
            .await;
        let answer = self.0.lose("acquire", answer);
        if let Ok(acquired) = &answer {
            let keys = acquired.instances.iter().map(|instance| instance.key);
            self.0.witness.has_again(&self.0.name, keys);
        }
        answer
    }

    async fn load(&self, request: Load) -> Result<Vec<Result<Loaded, ProviderError>>, ProviderError> {
        self.0.call("load", self.0.inner.provider.load(request)).await
    }

    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError> {
        let acquired = |acquired: &AcquiredTasks| {
            let Link { witness, log, name, .. } = &*self.0;
            acquired.tasks.iter().for_each(|task| witness.takes(log, name, task));
        };
        let answer = self
            .0
            .seen("acquire_tasks", self.0.inner.provider.acquire_tasks(request), acquired)
            .await;
        self.0.lose("acquire_tasks", answer)
    }

    async fn announce_activities(&self, names: Vec<String>) -> Result<Vec<String>, ProviderError> {
        let answer = self
            .0
            .call("announce_activities", self.0.inner.provider.announce_activities(names))
            .await;
        self.0.unconfirm("announce_activities", answer)
    }

    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError> {
        self.0.call("tasks_of", self.0.inner.provider.tasks_of(worker)).await
    }

    async fn resume_mismatched(&self, request: ResumeMismatched) -> Result<Vec<Mismatched>, ProviderError> {
        let resumed = |resumed: &Vec<Mismatched>| resumed.iter().for_each(|unfit| self.0.witness.resumed(unfit.key));
        let answer = self
            .0
            .seen(
                "resume_mismatched",
                self.0.inner.provider.resume_mismatched(request),
                resumed,
            )
            .await;
        self.0.unconfirm("resume_mismatched", answer)
    }

    async fn read_history(
        &self,
        key: InstanceKey,
        execution: ExecutionId,
        from: EventId,
        limit: PageLimit,
    ) -> Result<Vec<EventRecord>, ProviderError> {
        self.0
            .call(
                "read_history",
                self.0.inner.provider.read_history(key, execution, from, limit),
            )
            .await
    }

    async fn read_inbox(
        &self,
        worker: &WorkerId,
        since: &InboxPosition,
        limit: PageLimit,
    ) -> Result<Inbox, ProviderError> {
        let received = |inbox: &Inbox| {
            let (log, name) = (&self.0.log, &self.0.name);
            log.say(name, format_args!("receives {} messages", inbox.messages.len()));
        };
        let mut inbox = self
            .0
            .seen(
                "read_inbox",
                self.0.inner.provider.read_inbox(worker, since, limit),
                received,
            )
            .await?;
        self.0
            .witness
            .hears(&self.0.name, inbox.revoked.iter().map(|revoked| revoked.key));
        let weather = *self.0.air.weather.lock();
        let mut state = self.0.state.lock();
        // Both are drawn in any case. A store may say some things twice by itself, and stores differ in that.
        let overtakes = self.0.air.chance(weather.overtaking);
        let repeats = self.0.air.chance(weather.repeating);
        let is_new = |message: &Received| !state.seen.contains(message);
        if overtakes && overtake(&mut inbox.messages, is_new) {
            self.0.air.fire("message that overtook another");
        }
        if repeats && !state.seen.is_empty() {
            self.0.air.fire("message that came twice");
            inbox.messages.splice(0..0, state.seen.iter().cloned());
        }
        state.seen.extend(inbox.messages.iter().cloned());
        let surplus = state.seen.len().saturating_sub(SEEN_MAX);
        state.seen.drain(..surplus);
        Ok(inbox)
    }

    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: PageLimit,
    ) -> Result<MessagePage, ProviderError> {
        self.0
            .call(
                "read_messages",
                self.0.inner.provider.read_messages(key, mailboxes, limit),
            )
            .await
    }

    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError> {
        self.0.call("statuses", self.0.inner.provider.statuses(ids)).await
    }

    async fn ids_of(&self, keys: Vec<InstanceKey>) -> Result<Vec<Option<String>>, ProviderError> {
        self.0.call("ids of", self.0.inner.provider.ids_of(keys)).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage, ProviderError> {
        self.0.call("list", self.0.inner.provider.list(request)).await
    }

    async fn prune(&self, request: PruneRequest) -> Result<Pruned, ProviderError> {
        self.0.call("prune", self.0.inner.provider.prune(request)).await
    }

    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError> {
        self.0
            .call("prune_executions", self.0.inner.provider.prune_executions(request))
            .await
    }

    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError> {
        self.0.call("sweep", self.0.inner.provider.sweep(limit)).await
    }

    async fn stored_texts(&self, request: TextRequest) -> Result<TextPage, ProviderError> {
        self.0
            .call("stored_texts", self.0.inner.provider.stored_texts(request))
            .await
    }

    async fn replace_texts(&self, changes: Vec<TextChange>) -> Result<usize, ProviderError> {
        self.0
            .call("replace_texts", self.0.inner.provider.replace_texts(changes))
            .await
    }

    async fn stats(&self) -> Result<StoreStats, ProviderError> {
        self.0.call("stats", self.0.inner.provider.stats()).await
    }

    async fn overdue(&self) -> Result<Vec<Overdue>, ProviderError> {
        self.0.call("overdue", self.0.inner.provider.overdue()).await
    }

    async fn inspect(&self) -> Result<Inspection, ProviderError> {
        self.0.call("inspect", self.0.inner.provider.inspect()).await
    }

    async fn check(&self, request: CheckRequest) -> Result<Checked, ProviderError> {
        self.0.call("check", self.0.inner.provider.check(request)).await
    }

    async fn close(&self) {
        self.0.inner.provider.close().await;
    }
}

/// Moves the second new message of an instance before the first, as if its transaction had the lower number. Returns
/// false if no instance has two new messages.
fn overtake(messages: &mut Vec<Received>, is_new: impl Fn(&Received) -> bool) -> bool {
    let new: Vec<usize> = (0..messages.len()).filter(|at| is_new(&messages[*at])).collect();
    let pair = new.iter().enumerate().find_map(|(n, second)| {
        let first = new[..n]
            .iter()
            .find(|first| messages[**first].0 == messages[*second].0)?;
        Some((*first, *second))
    });
    let Some((first, second)) = pair else { return false };
    let (key, message) = messages.remove(second);
    let message = match message {
        Ok(message) if !is_planted(Bug::OvertakingMessage) => Err(message.seq),
        message => message,
    };
    messages.insert(first, (key, message));
    true
}
