//! The provider that the runtime and the clients of a process use.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use perdure_engine::{Bug, is_planted};
use perdure_provider::{
    Acquire, Acquired, AcquiredTasks, Change, ChangeListener, CommitDone, Inbox, InboxPosition, InnerCall, Mismatched,
    NewWorker, PageLimit, Provider, ProviderError, ProviderInfo, ProviderWrapper, QueueSettings, ReleaseMost,
    ReleasedMost, ResumeMismatched, TakenOver, TaskRequest, WorkerId, Write,
};

use super::batch::Sent;
use super::{Link, Received, sleep};

/// The longest time that a lost notification may stay unnoticed.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// The number of messages that may come again.
const SEEN_MAX: usize = 8;

/// Calls about workers and what is theirs whose only answer is that they were carried out. The answer may be lost.
const CONFIRMATIONS: [&str; 3] = ["announce_activities", "announce_versions", "renew_worker"];

/// The provider that the runtime and the clients of a process use.
pub(crate) struct Linked(pub(crate) Arc<Link>);

#[async_trait]
impl ProviderWrapper for Linked {
    fn inner(&self) -> &dyn Provider {
        &*self.0.inner.provider
    }

    async fn forward<T: Send>(&self, name: &'static str, call: InnerCall<'_, T>) -> Result<T, ProviderError> {
        let answer = self.0.call(name, call).await;
        if CONFIRMATIONS.contains(&name) {
            self.0.lose_confirmation(name, answer)
        } else {
            answer
        }
    }

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
                let rates = *link.faults.rates.lock();
                let listener = Arc::clone(&listener);
                let (change, wait) = if link.faults.chance(rates.deaf) {
                    link.faults.fire("lost notification");
                    if is_planted(Bug::NoSafetyPoll) {
                        return;
                    }
                    // The provider's own poll finds that something has changed.
                    (Change::anything(), SAFETY_POLL)
                } else {
                    (change.clone(), link.faults.one_way())
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
        self.0.lose_confirmation("register_worker", answer)
    }

    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError> {
        let gone = |_: &u64| self.0.witness.gone(worker);
        let answer = self
            .0
            .call_observed("release_worker", self.0.inner.provider.release_worker(worker), gone)
            .await;
        self.0.lose_confirmation("release_worker", answer)
    }

    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError> {
        let taken_over = |taken: &TakenOver| {
            self.0.taken_over(taken);
            self.0.witness.gone(worker);
        };
        let answer = self
            .0
            .call_observed(
                "take_over_worker",
                self.0.inner.provider.take_over_worker(worker, report),
                taken_over,
            )
            .await;
        self.0.lose_confirmation("take_over_worker", answer)
    }

    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError> {
        let taken_over = |taken: &TakenOver| self.0.taken_over(taken);
        let answer = self
            .0
            .call_observed(
                "take_over_expired_workers",
                self.0.inner.provider.take_over_expired_workers(report),
                taken_over,
            )
            .await;
        self.0.lose_confirmation("take_over_expired_workers", answer)
    }

    async fn release_most(&self, request: ReleaseMost) -> Result<ReleasedMost, ProviderError> {
        let kept = request.clone();
        let released = |given: &ReleasedMost| {
            self.0.witness.releases_most(&self.0.name, &kept, given);
            given
                .poison_pill
                .iter()
                .for_each(|poison_pill| self.0.witness.suspended_as_poison_pill(&poison_pill.id));
        };
        let given = self
            .0
            .call_observed("release_most", self.0.inner.provider.release_most(request), released)
            .await;
        let given = self.0.lose_confirmation("release_most", given);
        self.0.witness.has_released_most(&self.0.name);
        given
    }

    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError> {
        let asked = request.clone();
        let acquired = |acquired: &Acquired| self.0.witness.acquired(&self.0.log, &self.0.name, &asked, acquired);
        let answer = self
            .0
            .call_observed("acquire", self.0.inner.provider.acquire(request), acquired)
            .await;
        let answer = self.0.lose_answer("acquire", answer);
        if let Ok(acquired) = &answer {
            let keys = acquired.instances.iter().map(|instance| instance.key);
            self.0.witness.has_again(&self.0.name, keys);
        }
        answer
    }

    async fn set_queue(&self, name: String, settings: QueueSettings) -> Result<bool, ProviderError> {
        let (queue, limits) = (name.clone(), settings.clone());
        let set = |_: &bool| {
            let Link { witness, log, name, .. } = &*self.0;
            log.say(name, format_args!("sets the limits of {queue}: {}", limits.to_text()));
            witness.sets_limits(&queue, limits.clone());
        };
        let answer = self
            .0
            .call_observed("set_queue", self.0.inner.provider.set_queue(name, settings), set)
            .await;
        self.0.lose_confirmation("set_queue", answer)
    }

    async fn pause_queue(&self, name: String, is_paused: bool) -> Result<bool, ProviderError> {
        let queue = name.clone();
        let set = |_: &bool| {
            let Link { witness, log, name, .. } = &*self.0;
            let verb = if is_paused { "pauses" } else { "resumes" };
            log.say(name, format_args!("{verb} queue {queue}"));
            witness.pauses(&queue, is_paused);
        };
        let call = self.0.inner.provider.pause_queue(name, is_paused);
        let answer = self.0.call_observed("pause_queue", call, set).await;
        self.0.lose_confirmation("pause_queue", answer)
    }

    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError> {
        let worker = request.worker.clone();
        let acquired = |acquired: &AcquiredTasks| {
            let Link { witness, log, name, .. } = &*self.0;
            let tasks = acquired.tasks.iter();
            tasks.for_each(|task| witness.takes(log, name, &worker, task));
        };
        let answer = self
            .0
            .call_observed("acquire_tasks", self.0.inner.provider.acquire_tasks(request), acquired)
            .await;
        self.0.lose_answer("acquire_tasks", answer)
    }

    async fn resume_mismatched(&self, request: ResumeMismatched) -> Result<Vec<Mismatched>, ProviderError> {
        let resumed = |resumed: &Vec<Mismatched>| resumed.iter().for_each(|unfit| self.0.witness.resumed(unfit.key));
        let answer = self
            .0
            .call_observed(
                "resume_mismatched",
                self.0.inner.provider.resume_mismatched(request),
                resumed,
            )
            .await;
        self.0.lose_confirmation("resume_mismatched", answer)
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
            .call_observed(
                "read_inbox",
                self.0.inner.provider.read_inbox(worker, since, limit),
                received,
            )
            .await?;
        self.0
            .witness
            .note_revocations(&self.0.name, inbox.revoked.iter().map(|revoked| revoked.key));
        let rates = *self.0.faults.rates.lock();
        let mut state = self.0.state.lock();
        // Both are drawn in any case. A store may say some things twice by itself, and stores differ in that.
        let overtakes = self.0.faults.chance(rates.overtaking);
        let repeats = self.0.faults.chance(rates.repeating);
        let is_new = |message: &Received| !state.seen.contains(message);
        if overtakes && overtake(&mut inbox.messages, is_new) {
            self.0.faults.fire("message that overtook another");
        }
        if repeats && !state.seen.is_empty() {
            self.0.faults.fire("message that came twice");
            inbox.messages.splice(0..0, state.seen.iter().cloned());
        }
        state.seen.extend(inbox.messages.iter().cloned());
        let surplus = state.seen.len().saturating_sub(SEEN_MAX);
        state.seen.drain(..surplus);
        Ok(inbox)
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
