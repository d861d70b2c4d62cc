//! The base of the tests: a store in memory that can fail, hold answers back and be looked into, and a host that runs
//! scripts.
//!
//! All of it lives on one thread with a paused clock: a test says what happens when, and nothing depends on chance.

mod answer;
mod fixture;
mod memory;
mod provider;
mod rows;
mod script;

use std::sync::Arc;
use std::time::Duration;

use perdure_provider::{Clock, Worker};
use tokio::time::Instant;

pub(crate) use answer::{Answer, answer};
pub(crate) use fixture::Fixture;
pub(crate) use memory::{Call, Memory};
pub(crate) use script::{Op, Script};

use perdure_runtime::{LaneId, Machine, Process, ThisMachine};

/// The lane of the thread that made the runtime.
pub(crate) const MAIN: LaneId = LaneId(0);

/// Sleeps by the paused clock, which goes on at once when nothing else happens.
#[expect(clippy::disallowed_methods, reason = "the clock of the tests is paused")]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Tokio's clock, which a test can pause, as a wall clock.
pub(crate) struct PausedClock {
    since: Instant,
    at_first_ms: i64,
}

impl PausedClock {
    pub(crate) fn new() -> Arc<Self> {
        Self::off_by(0)
    }

    /// Returns the clock of a machine that is set wrong by `ms`.
    pub(crate) fn off_by(ms: i64) -> Arc<Self> {
        Arc::new(Self {
            since: Instant::now(),
            at_first_ms: 1_000_000 + ms,
        })
    }
}

impl Clock for PausedClock {
    fn now_ms(&self) -> i64 {
        self.at_first_ms + i64::try_from(self.since.elapsed().as_millis()).expect("a test is short")
    }
}

impl Machine for PausedClock {
    fn random(&self) -> u128 {
        ThisMachine::read().random()
    }

    fn process(&self) -> Process {
        ThisMachine::read().process()
    }

    fn knows_gone(&self, worker: &Worker) -> bool {
        ThisMachine::read().knows_gone(worker)
    }
}
