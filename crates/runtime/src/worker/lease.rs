//! Until when a worker may take for its own what it owns.

use std::time::Duration;

use parking_lot::Mutex;
use perdure_engine::{Bug, is_planted};
use tokio::time::Instant;

/// The end of a worker's lease, by a clock that nobody can set: a wall clock that jumps must neither end a lease nor prolong it.
pub(crate) struct Lease {
    given: Instant,
    lasts: Duration,
    /// `None`: it was found to have ended, and counts as such from then on.
    end: Mutex<Option<Instant>>,
}

impl Lease {
    /// One that was asked for at a time: the store gives it then or later.
    pub(crate) fn new(lasts: Duration, given: Instant) -> Self {
        Self {
            given,
            lasts,
            end: Mutex::new(Some(given + lasts)),
        }
    }

    /// When it was asked for first.
    pub(crate) fn given(&self) -> Instant {
        self.given
    }

    /// When it ends.
    pub(crate) fn end(&self) -> Option<Instant> {
        *self.end.lock()
    }

    /// Whether it has not ended. A process that stood still asks this before anything has told it how long.
    pub(crate) fn holds(&self) -> bool {
        if is_planted(Bug::LeaseNotHeeded) {
            return true;
        }
        let mut end = self.end.lock();
        if end.is_some_and(|end| Instant::now() >= end) {
            *end = None;
        }
        end.is_some()
    }

    /// It was renewed by a request that was made at a time. `false`: that came too late.
    pub(crate) fn renew(&self, asked: Instant) -> bool {
        let mut end = self.end.lock();
        if end.is_some() {
            *end = Some(asked + self.lasts);
        }
        end.is_some()
    }
}
