//! What the tests run on: a store in memory that can fail, hold answers back and be looked into, and a host that runs scripts.
//!
//! All of it lives on one thread with a paused clock: a test says what happens when, and nothing depends on chance.

mod host;
mod memory;
mod queues;

use std::sync::Arc;

use perdure_provider::Clock;
use tokio::time::Instant;

pub(crate) use host::{Fixture, Op, Script, answer};
pub(crate) use memory::{Call, Memory};

/// Tokio's clock, which a test can pause, as wall clock.
pub(crate) struct PausedClock(Instant);

impl PausedClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for PausedClock {
    fn now_ms(&self) -> i64 {
        1_000_000 + i64::try_from(self.0.elapsed().as_millis()).expect("a test is short")
    }
}
