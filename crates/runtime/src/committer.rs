//! Group commit over instances and clients: whatever waits goes into the next batch, with no delay added.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use perdure_provider::{Outcome, Provider, ProviderError, Write};
use tokio::runtime::Handle;

use crate::options::{BATCH_BYTES_MAX, CLIENT_ATTEMPTS, RETRY_DELAYS};

/// Told what came of a write, on a thread of the provider.
pub(crate) type WriteDone = Box<dyn FnOnce(Result<Outcome, ProviderError>) + Send>;

/// Whether a write is given up when the store stays busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Tried until it is written or the store is closed: nothing is failed because a store was slow, busy or gone for a while.
    Endless,
    /// Tried [`CLIENT_ATTEMPTS`] times; then the caller is told.
    Limited,
}

struct Item {
    write: Write,
    patience: Patience,
    attempts: u32,
    /// A batch with it was refused for good, perhaps because of another write in it: it goes by itself.
    alone: bool,
    done: WriteDone,
}

/// Collects writes and hands them to the provider in batches.
pub(crate) struct Committer {
    provider: Arc<dyn Provider>,
    tokio: Handle,
    concurrent: usize,
    batch_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Item>,
    in_flight: usize,
    /// Batches that failed in a row.
    failures: u32,
    /// A batch failed and the next one waits for its time.
    backing_off: bool,
    /// A thread hands batches over. One at a time does, so that they go in order, and so that a provider which answers at once is
    /// not called again from within its answer.
    pumping: bool,
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
        })
    }

    pub(crate) fn submit(self: &Arc<Self>, write: Write, patience: Patience, done: WriteDone) {
        self.state.lock().waiting.push_back(Item {
            write,
            patience,
            attempts: 0,
            alone: false,
            done,
        });
        self.pump();
    }

    pub(crate) fn stats(&self) -> CommitStats {
        self.state.lock().stats
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
        self.provider.commit(
            batch,
            Box::new(move |result| match result {
                Ok(outcomes) => this.written(items, outcomes),
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
                item.attempts += 1;
                let is_patient = item.patience == Patience::Endless || item.attempts < CLIENT_ATTEMPTS;
                // Refused for good, perhaps because of one write in it: the others must not suffer for that.
                item.alone |= !error.retryable();
                let again = if error.retryable() { is_patient } else { !was_alone };
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
