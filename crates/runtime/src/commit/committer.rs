//! Group commit over instances and clients: all waiting writes go into the next batch, with no delay added.
//!
//! - **C1** A batch that fails for now is tried again, before the writes that came after it. After [`BATCH_TRIES_MAX`]
//!   failures in a row, the writes are tried one by one, because one of them may be the cause.
//! - **C2** A write that fails by itself is deferred for a while, with an increasing delay, and the other writes pass
//!   it. The write is never given up for that: the store may be away, and then each write fails.
//! - **C3** No write passes a write of the same subject that is deferred. The subject is an instance, by its id or by
//!   its key.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use perdure_provider::{
    CommitOutcome, InstanceKey, Outcome, Provider, ProviderError, ProviderErrorKind, Suspend, Terminate, Write,
};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::metrics::{Durations, Histogram};
use crate::options::{BATCH_BYTES_MAX, BATCH_TRIES_MAX, CLIENT_LOOK, CLIENT_PATIENCE, RETRY_DELAYS};
use crate::platform::panics::contained;
use crate::platform::retry::is_final;

/// The callback that receives the outcome of a write. The provider's answer calls it.
pub(crate) type WriteDone = Box<dyn FnOnce(Result<Outcome, ProviderError>) + Send>;

/// Time that a write is tried while the store stays busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The write is tried until it is written or the store is closed. Nothing fails because a store was slow, busy or
    /// gone for a while.
    Endless,
    /// The write is tried for [`CLIENT_PATIENCE`]. Then the caller is told. A write that is under way by then waits for
    /// the store's answer.
    Limited,
}

struct Item {
    write: Write,
    /// Time at which the write is given up if it still waits.
    until: Option<Instant>,
    /// True if the write goes in a batch of its own. A batch with this write was refused for good, perhaps because of
    /// another write in it, or the write has failed by itself.
    alone: bool,
    /// The error of a try that may have written the write. A further try writes it at most once, but after the process
    /// has ended meanwhile, the write may turn out to be written.
    unknown: Option<ProviderError>,
    /// Number of times that the write has failed by itself.
    failures: u32,
    /// Time until which the write is deferred.
    deferred_until: Option<Instant>,
    done: WriteDone,
}

impl Item {
    /// Ends the tries with an error. `last` may be the error of other writes.
    fn give_up(self, last: &ProviderError) {
        let error = self.unknown.unwrap_or_else(|| ProviderError {
            outcome: CommitOutcome::NotCommitted,
            ..last.clone()
        });
        // A callback that panics must not keep the other writes from their answers.
        drop(contained(|| (self.done)(Err(error))));
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    fn is_deferred(&self, now: Instant) -> bool {
        self.deferred_until.is_some_and(|until| until > now)
    }
}

/// The subject of a write (C3).
#[derive(PartialEq, Eq, Hash)]
enum Subject<'w> {
    Id(&'w str),
    Key(InstanceKey),
}

impl<'w> Subject<'w> {
    fn of(write: &'w Write) -> Self {
        match write {
            Write::Start(new) => Subject::Id(&new.id),
            Write::KeyedStart(keyed) => Subject::Id(&keyed.start.id),
            Write::Message(message) => Subject::Id(&message.instance),
            Write::Ask(ask) => Subject::Id(&ask.message.instance),
            Write::StartWithMessage(both) => Subject::Id(&both.start.id),
            Write::Terminate(Terminate { id, .. })
            | Write::Suspend(Suspend { id, .. })
            | Write::Resume { id, .. }
            | Write::Delete { id } => Subject::Id(id),
            Write::Turn(turn) => Subject::Key(turn.key),
            Write::Heartbeat(heartbeat) => Subject::Key(heartbeat.key),
            Write::Append(append) => Subject::Key(append.key),
            Write::TaskDone(done) => Subject::Key(done.task.key),
            Write::Probation(probation) => Subject::Key(probation.key),
            Write::ReleaseInstance(let_go) => Subject::Key(let_go.key),
            Write::ReleaseTask(let_go) => Subject::Key(let_go.task.key),
        }
    }
}

/// Collects writes and hands them to the provider in batches.
pub struct Committer {
    provider: Arc<dyn Provider>,
    tokio: Handle,
    concurrent: usize,
    batch_max: usize,
    state: Mutex<State>,
    latency: Histogram,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Item>,
    in_flight: usize,
    /// Number of batches that failed in a row, and the error of the last of them.
    failures: u32,
    failure: Option<ProviderError>,
    /// True while the next batch waits because a batch failed.
    backing_off: bool,
    /// True while a thread hands over batches. One thread at a time does, so that the batches go in order, and so that
    /// a provider that answers at once is not called again from within its answer.
    pumping: bool,
    /// True while a task looks after the writes with limited patience.
    looking: bool,
    stats: CommitStats,
}

impl State {
    /// Takes the waiting writes that make the next batch. The batch is empty if all waiting writes are evicted.
    fn take_batch(&mut self, most: usize) -> Vec<Item> {
        if self.failures >= BATCH_TRIES_MAX {
            return Vec::from_iter(self.take_probe());
        }
        let now = Instant::now();
        let mut taken = Vec::with_capacity(most.min(self.waiting.len()));
        let (mut bytes, mut passed) = (0, 0);
        while taken.len() < most && bytes < BATCH_BYTES_MAX {
            let Some(item) = self.waiting.get(passed) else { break };
            if item.is_deferred(now) || self.follows_passed(passed) {
                passed += 1;
                continue;
            }
            let is_alone = item.alone;
            if is_alone && !taken.is_empty() {
                break;
            }
            bytes += item.write.payload_bytes();
            taken.extend(self.waiting.remove(passed));
            if is_alone {
                break;
            }
        }
        taken
    }

    /// Takes the first of the writes that have failed by themselves the least often. So each write gets its turn, even
    /// if many others always fail.
    fn take_probe(&mut self) -> Option<Item> {
        let now = Instant::now();
        let mut subjects = HashSet::new();
        let mut best: Option<(u32, usize)> = None;
        for (place, item) in self.waiting.iter().enumerate() {
            if subjects.insert(Subject::of(&item.write))
                && !item.is_deferred(now)
                && best.is_none_or(|(failures, _)| item.failures < failures)
            {
                best = Some((item.failures, place));
                if item.failures == 0 {
                    break;
                }
            }
        }
        let (_, place) = best?;
        self.waiting.remove(place)
    }

    /// Returns true if the write at this position has the subject of a write before it. All writes before it are
    /// passed.
    fn follows_passed(&self, passed: usize) -> bool {
        if passed == 0 {
            return false;
        }
        let subject = Subject::of(&self.waiting[passed].write);
        let mut before = self.waiting.iter().take(passed);
        before.any(|item| Subject::of(&item.write) == subject)
    }
}

/// Counts of committed writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommitStats {
    /// Batches written.
    pub batches: u64,
    /// Writes in these batches.
    pub writes: u64,
    /// Batches that failed and were tried again.
    pub retries: u64,
}

/// A batch that is at the provider. If the provider drops the batch, the tokio runtime that the answer was to come from
/// has ended. The writes that wait behind it are then never written, and their waiters would keep the store, and with
/// it this committer, for ever.
struct BatchInFlight(Option<Arc<Committer>>);

impl BatchInFlight {
    fn answered(mut self) -> Arc<Committer> {
        self.0.take().expect("a batch is answered once")
    }
}

impl Drop for BatchInFlight {
    fn drop(&mut self) {
        if let Some(committer) = self.0.take() {
            let waiting = std::mem::take(&mut committer.state.lock().waiting);
            // The state is not locked here: the waiters may release more.
            drop(waiting);
        }
    }
}

impl Committer {
    /// Returns a committer that hands its batches to a provider.
    pub fn new(provider: Arc<dyn Provider>, tokio: Handle) -> Arc<Self> {
        let info = provider.info();
        Arc::new(Self {
            provider,
            tokio,
            concurrent: info.concurrent_commits,
            batch_max: info.batch_max,
            state: Mutex::default(),
            latency: Histogram::default(),
        })
    }

    /// Adds a write. `done` receives its outcome.
    pub fn submit(self: &Arc<Self>, write: Write, patience: Patience, done: WriteDone) {
        let until = (patience == Patience::Limited).then(|| Instant::now() + CLIENT_PATIENCE);
        self.state.lock().waiting.push_back(Item {
            write,
            until,
            alone: false,
            unknown: None,
            failures: 0,
            deferred_until: None,
            done,
        });
        self.pump();
        if until.is_some() {
            self.look_after_clients();
        }
    }

    /// Gives up writes that have waited for too long, until no write with a limit waits.
    fn look_after_clients(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            if state.looking || state.waiting.iter().rev().all(|item| item.until.is_none()) {
                return;
            }
            state.looking = true;
        }
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            let mut waits = true;
            while waits {
                crate::platform::time::sleep(CLIENT_LOOK).await;
                let (given_up, error) = {
                    let mut state = this.state.lock();
                    let (given_up, waiting): (VecDeque<_>, _) = state.waiting.drain(..).partition(Item::is_over);
                    waits = waiting.iter().any(|item: &Item| item.until.is_some());
                    state.waiting = waiting;
                    state.looking = waits;
                    (given_up, state.failure.clone())
                };
                for item in given_up {
                    item.give_up(&error.clone().unwrap_or_else(|| this.busy()));
                }
            }
        });
    }

    /// Returns the error of a store that is not gone but does not come to the waiting writes.
    fn busy(&self) -> ProviderError {
        let info = self.provider.info();
        ProviderError::new(
            ProviderErrorKind::Busy,
            format!(
                "The {} store '{}' did not complete the request within {} s.",
                info.kind,
                info.location,
                CLIENT_PATIENCE.as_secs()
            ),
        )
    }

    /// Returns counts of the writes so far.
    pub fn stats(&self) -> CommitStats {
        self.state.lock().stats
    }

    /// Returns the durations of batches that were written.
    pub(crate) fn latency(&self) -> Durations {
        self.latency.read()
    }

    fn pump(self: &Arc<Self>) {
        let mut is_mine = false;
        loop {
            let items = {
                let mut state = self.state.lock();
                if state.pumping && !is_mine {
                    // The thread that pumps looks again before it stops.
                    return;
                }
                let items = if state.in_flight < self.concurrent && !state.backing_off {
                    state.take_batch(self.batch_max)
                } else {
                    Vec::new()
                };
                is_mine = !items.is_empty();
                state.pumping = is_mine;
                if !is_mine {
                    return;
                }
                state.in_flight += 1;
                items
            };
            self.send(items);
        }
    }

    fn send(self: &Arc<Self>, mut items: Vec<Item>) {
        let batch = Arc::new(
            items
                .iter_mut()
                .map(|item| std::mem::replace(&mut item.write, PLACEHOLDER))
                .collect::<Vec<_>>(),
        );
        let unanswered = BatchInFlight(Some(Arc::clone(self)));
        let kept = Arc::clone(&batch);
        let begun = Instant::now();
        self.provider.commit(
            batch,
            Box::new(move |result| {
                let this = unanswered.answered();
                match result {
                    Ok(outcomes) => {
                        this.latency.note(begun.elapsed());
                        this.written(items, outcomes);
                    }
                    Err(error) => {
                        let writes = Arc::try_unwrap(kept).unwrap_or_else(|shared| (*shared).clone());
                        for (item, write) in items.iter_mut().zip(writes) {
                            item.write = write;
                        }
                        this.failed(items, &error);
                    }
                }
            }),
        );
    }

    fn written(self: &Arc<Self>, items: Vec<Item>, outcomes: Vec<Outcome>) {
        assert_eq!(
            items.len(),
            outcomes.len(),
            "a provider answers each write of a batch (P1)"
        );
        {
            let mut state = self.state.lock();
            state.in_flight -= 1;
            state.failures = 0;
            state.failure = None;
            state.stats.batches += 1;
            state.stats.writes += items.len() as u64;
        }
        // The answers come first: the writes that they cause may be in time for the next batch.
        for (item, outcome) in items.into_iter().zip(outcomes) {
            // A callback that panics sees to that itself. The other writes must get their answers.
            drop(contained(|| (item.done)(Ok(outcome))));
        }
        self.pump();
    }

    fn failed(self: &Arc<Self>, items: Vec<Item>, error: &ProviderError) {
        let mut given_up = Vec::new();
        let is_final = is_final(error);
        let mut aside = None;
        let delay = {
            let mut state = self.state.lock();
            state.in_flight -= 1;
            state.stats.retries += 1;
            let was_alone = items.len() == 1;
            let is_tried_alone = was_alone && state.failures + 1 >= BATCH_TRIES_MAX;
            for mut item in items.into_iter().rev() {
                // The batch was refused for good, perhaps because of one write in it. The other writes must not suffer
                // for that.
                item.alone |= is_final;
                if error.outcome == CommitOutcome::Unknown {
                    item.unknown = Some(error.clone());
                }
                if !is_final && was_alone && (item.alone || is_tried_alone) {
                    item.alone = true;
                    item.failures = item.failures.saturating_add(1);
                    let delay = delay_after(item.failures);
                    item.deferred_until = Some(Instant::now() + delay);
                    aside = Some(delay);
                }
                let again = if is_final { !was_alone } else { !item.is_over() };
                if again {
                    state.waiting.push_front(item);
                } else {
                    given_up.push(item);
                }
            }
            state.failures = if is_final { 0 } else { state.failures.saturating_add(1) };
            state.failure = (!is_final).then(|| error.clone());
            state.backing_off |= !is_final;
            delay_after(state.failures)
        };
        if let Some(delay) = aside {
            let this = Arc::clone(self);
            self.tokio.spawn(async move {
                crate::platform::time::sleep(delay).await;
                this.pump();
            });
        }
        for item in given_up.into_iter().rev() {
            item.give_up(error);
        }
        if is_final {
            return self.pump();
        }
        self.look_after_clients();
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            crate::platform::time::sleep(delay).await;
            this.state.lock().backing_off = false;
            this.pump();
        });
    }
}

/// Returns the delay after this many failures in a row.
fn delay_after(failures: u32) -> Duration {
    let (first, most) = RETRY_DELAYS;
    let doubled = first.saturating_mul(1 << failures.clamp(1, 16).saturating_sub(1));
    doubled.min(most)
}

/// Placeholder in an item for a write that is under way.
const PLACEHOLDER: Write = Write::Resume {
    id: String::new(),
    time_ms: 0,
};
