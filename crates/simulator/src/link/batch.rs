//! Batches of writes on the way to the store. The store may hold one back and write it late.

use std::sync::Arc;

use parking_lot::Mutex;
use perdure_engine::{Bug, is_planted};
use perdure_provider::{CommitDone, Outcome, ProviderError, ProviderErrorKind, Write};

use super::{Link, sleep};

/// A batch that was sent and not answered. The link is a clone, because the sender may be gone.
pub(super) struct Sent {
    pub(super) link: Arc<Link>,
    pub(super) batch: Arc<Vec<Write>>,
    pub(super) done: CommitDone,
}

impl Sent {
    pub(super) async fn go(self) {
        let Self { link, batch, done } = self;
        let turn = link.order.lock().await;
        let moment = match link.there("commit").await {
            Ok(moment) => moment,
            Err(error) => {
                drop(turn);
                return done(Err(error));
            }
        };
        let rates = *link.faults.rates.lock();
        if moment.is_none() && link.faults.chance(rates.late) {
            let answer = DelayedBatch::send(&link, batch).resolve(&link).await;
            drop(turn);
            return done(answer);
        }
        let outcomes = link.write(&batch);
        link.write_again(&batch, outcomes.as_deref().unwrap_or_default());
        link.back("commit", moment).await;
        drop(turn);
        done(outcomes);
    }
}

/// A batch that the store holds back (it waits for a lock, or a proxy is slow) and writes later, even if the connection
/// is gone. With it goes a mark, as a store leaves one with each transaction. A process that has lost the answer learns
/// from the mark if the batch was written, and takes the mark if it was not. A batch that finds its mark taken does
/// nothing.
struct DelayedBatch(Arc<Mutex<BatchMark>>);

enum BatchMark {
    Free,
    /// The batch was written, with this answer.
    Left(Result<Vec<Outcome>, ProviderError>),
    /// The batch was given up.
    Taken,
}

impl DelayedBatch {
    fn send(link: &Arc<Link>, batch: Arc<Vec<Write>>) -> Self {
        link.faults.fire("batch that was held back");
        let mark = Arc::new(Mutex::new(BatchMark::Free));
        let (store, left) = (Arc::clone(link), Arc::clone(&mark));
        let held_back = link.faults.ms(20..12_000);
        tokio::spawn(async move {
            sleep(held_back).await;
            let mut mark = left.lock();
            if matches!(*mark, BatchMark::Taken) {
                return store
                    .log
                    .say(&store.name, format_args!("a batch finds that it was given up"));
            }
            store.log.say(&store.name, format_args!("a batch comes late"));
            *mark = BatchMark::Left(store.write(&batch));
        });
        Self(mark)
    }

    /// Cuts the connection. Returns the answer of the batch if it was written, and gives it up otherwise.
    async fn resolve(self, link: &Link) -> Result<Vec<Outcome>, ProviderError> {
        sleep(link.faults.ms(20..1_000)).await;
        link.runs().await;
        let is_left_alone = is_planted(Bug::GivenUpComesToPass);
        let answer = {
            let mut mark = self.0.lock();
            let found = if is_left_alone {
                BatchMark::Free
            } else {
                BatchMark::Taken
            };
            std::mem::replace(&mut *mark, found)
        };
        match answer {
            BatchMark::Left(outcomes) => outcomes,
            BatchMark::Free | BatchMark::Taken => {
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
    /// Writes some turns twice. The second time, turns that append events must be fenced off. A turn that was refused
    /// is not written again: no store does that, and what refused it may be over, as a suspension is after the resume.
    fn write_again(&self, batch: &[Write], outcomes: &[Outcome]) {
        let rates = *self.faults.rates.lock();
        let appends = |write: &Write| matches!(write, Write::Turn(turn) if !turn.events.is_empty());
        if !batch.iter().any(appends) || !self.faults.chance(rates.repeating) {
            return;
        }
        let written = batch.iter().zip(outcomes);
        let turns: Vec<Write> = written
            .filter(|(write, outcome)| appends(write) && matches!(outcome, Outcome::Committed { .. }))
            .map(|(write, _)| write.clone())
            .collect();
        if !turns.is_empty() {
            self.faults.fire("turn that was written twice");
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
