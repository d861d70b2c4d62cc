//! The lease of a worker. Until its end the worker may act as the owner of its instances and tasks.

use std::time::Duration;

use parking_lot::Mutex;
use perdure_engine::{Bug, is_planted};
use tokio::time::Instant;

/// The end of a worker's lease, by a monotonic clock: a wall clock that jumps must neither end a lease nor prolong it.
pub(crate) struct Lease {
    given: Instant,
    lasts: Duration,
    /// `None`: the lease was found to have ended, and counts as ended from then on.
    end: Mutex<Option<Instant>>,
}

impl Lease {
    /// Returns a lease that was asked for at `given`. The store's lease begins then or later.
    pub(crate) fn new(lasts: Duration, given: Instant) -> Self {
        Self {
            given,
            lasts,
            end: Mutex::new(Some(given + lasts)),
        }
    }

    /// Returns the time when the lease was first asked for.
    pub(crate) fn given(&self) -> Instant {
        self.given
    }

    /// Returns the end of the lease.
    pub(crate) fn end(&self) -> Option<Instant> {
        *self.end.lock()
    }

    /// True if the lease has not ended. A process that stood still asks this before it knows for how long it stood.
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

    /// Renews the lease. The request was made at `asked`. Returns `false` if the renewal came too late.
    pub(crate) fn renew(&self, asked: Instant) -> bool {
        let mut end = self.end.lock();
        if end.is_some() {
            *end = Some(asked + self.lasts);
        }
        end.is_some()
    }
}
