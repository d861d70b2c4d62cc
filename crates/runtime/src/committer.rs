//! Group commit over instances and clients: whatever waits goes into the next batch, with no delay added.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use perdure_provider::{Outcome, Provider, ProviderError, ProviderErrorKind, Write};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::metrics::{Durations, Histogram};
use crate::options::{BATCH_BYTES_MAX, CLIENT_LOOK, CLIENT_PATIENCE, RETRY_DELAYS};

/// Told what came of a write, from where the provider answers.
pub(crate) type WriteDone = Box<dyn FnOnce(Result<Outcome, ProviderError>) + Send>;

/// Whether a write is given up when the store stays busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Tried until it is written or the store is closed: nothing is failed because a store was slow, busy or gone for a while.
    Endless,
    /// Tried for [`CLIENT_PATIENCE`]; then the caller is told. One that is under way by then waits until the store says what came of it.
    Limited,
}

struct Item {
    write: Write,
    /// When it is given up, if it still waits.
    until: Option<Instant>,
    /// A batch with it was refused for good, perhaps because of another write in it: it goes by itself.
    alone: bool,
    done: WriteDone,
}

impl Item {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }
}

/// Collects writes and hands them to the provider in batches.
pub(crate) struct Committer {
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
    /// Batches that failed in a row, and how the last of them did.
    failures: u32,
    failure: Option<ProviderError>,
    /// A batch failed and the next one waits for its time.
    backing_off: bool,
    /// A thread hands batches over. One at a time does, so that they go in order, and so that a provider which answers at once is
    /// not called again from within its answer.
    pumping: bool,
    /// A task looks after what waits with limited patience.
    looking: bool,
    stats: CommitStats,
}

impl State {
    /// How many of the waiting writes make the next batch.
    fn batch_len(&self, most: usize) -> usize {
        if self.waiting.front().is_some_and(|item| item.alone) {
            return 1;
        }
        let mut bytes = 0;
        let fits = self.waiting.iter().take(most).take_while(|item| {
            let fits = !item.alone && bytes < BATCH_BYTES_MAX;
            bytes += item.write.payload_bytes();
            fits
        });
        fits.count()
    }
}

/// Counts of what was committed.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommitStats {
    /// Batches written.
    pub batches: u64,
    /// Writes in them.
    pub writes: u64,
    /// Batches that failed and were tried again.
    pub retries: u64,
}

impl Committer {
    pub(crate) fn new(provider: Arc<dyn Provider>, tokio: Handle) -> Arc<Self> {
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

    pub(crate) fn submit(self: &Arc<Self>, write: Write, patience: Patience, done: WriteDone) {
        let until = (patience == Patience::Limited).then(|| Instant::now() + CLIENT_PATIENCE);
        self.state.lock().waiting.push_back(Item {
            write,
            until,
            alone: false,
            done,
        });
        self.pump();
        if until.is_some() {
            self.look_after_clients();
        }
    }

    /// Give up what has waited for too long, until nothing waits that may be.
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
                crate::time::sleep(CLIENT_LOOK).await;
                let (given_up, error) = {
                    let mut state = this.state.lock();
                    let (given_up, waiting): (VecDeque<_>, _) = state.waiting.drain(..).partition(Item::is_over);
                    waits = waiting.iter().any(|item: &Item| item.until.is_some());
                    state.waiting = waiting;
                    state.looking = waits;
                    (given_up, state.failure.clone())
                };
                for item in given_up {
                    (item.done)(Err(error.clone().unwrap_or_else(|| this.busy())));
                }
            }
        });
    }

    /// The store is neither gone nor does it come to what waits.
    fn busy(&self) -> ProviderError {
        let info = self.provider.info();
        ProviderError {
            kind: ProviderErrorKind::Busy,
            message: format!(
                "The {} store '{}' has not come to this within {} s.",
                info.kind,
                info.location,
                CLIENT_PATIENCE.as_secs()
            ),
        }
    }

    pub(crate) fn stats(&self) -> CommitStats {
        self.state.lock().stats
    }

    /// How long batches took that were written.
    pub(crate) fn latency(&self) -> Durations {
        self.latency.read()
    }

    fn pump(self: &Arc<Self>) {
        let mut is_mine = false;
        loop {
            let items: Vec<Item> = {
                let mut state = self.state.lock();
                if state.pumping && !is_mine {
                    // Whoever does it looks again before it stops.
                    return;
                }
                is_mine = !state.waiting.is_empty() && state.in_flight < self.concurrent && !state.backing_off;
                state.pumping = is_mine;
                if !is_mine {
                    return;
                }
                state.in_flight += 1;
                let n = state.batch_len(self.batch_max);
                state.waiting.drain(..n).collect()
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
        let this = Arc::clone(self);
        let kept = Arc::clone(&batch);
        let begun = Instant::now();
        self.provider.commit(
            batch,
            Box::new(move |result| match result {
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
        // The answers first: what they set going may be in time for the next batch.
        for (item, outcome) in items.into_iter().zip(outcomes) {
            (item.done)(Ok(outcome));
        }
        self.pump();
    }

    fn failed(self: &Arc<Self>, items: Vec<Item>, error: &ProviderError) {
        let mut given_up = Vec::new();
        let delay = {
            let mut state = self.state.lock();
            state.in_flight -= 1;
            state.stats.retries += 1;
            let was_alone = items.len() == 1;
            for mut item in items.into_iter().rev() {
                // Refused for good, perhaps because of one write in it: the others must not suffer for that.
                item.alone |= !error.retryable();
                let again = if error.retryable() { !item.is_over() } else { !was_alone };
                if again {
                    state.waiting.push_front(item);
                } else {
                    given_up.push(item);
                }
            }
            state.failures = if error.retryable() {
                state.failures.saturating_add(1)
            } else {
                0
            };
            state.failure = error.retryable().then(|| error.clone());
            state.backing_off |= error.retryable();
            let (first, most) = RETRY_DELAYS;
            first
                .saturating_mul(1 << state.failures.clamp(1, 16).saturating_sub(1))
                .min(most)
        };
        for item in given_up.into_iter().rev() {
            (item.done)(Err(error.clone()));
        }
        if !error.retryable() {
            return self.pump();
        }
        self.look_after_clients();
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            crate::time::sleep(delay).await;
            this.state.lock().backing_off = false;
            this.pump();
        });
    }
}

/// Stands in an item for a write that is under way.
const PLACEHOLDER: Write = Write::Resume {
    id: String::new(),
    time_ms: 0,
};
