//! The store's clock, as far as this process knows it.
//!
//! Leases and due times are compared with the store's clock (P9). A timer must be due for the engine, too, when the
//! store says that its instance is due. A machine whose clock is an hour off, or is set while it runs, must fire timers
//! neither early nor late: the time that a turn reads stays in its history. So all times here are those of the
//! machine's clock without its jumps, plus the difference to the store's clock. Each answer that tells the store's time
//! narrows the difference down: the answer was made between the question and now, and the difference moves no further
//! than that demands. If both are one clock the difference stays zero.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use perdure_provider::Clock;
use tokio::time::Instant;

use crate::platform::machine::Machine;

/// A clock was set if it shows this much more or less time than has passed since the last look at it, ms.
const JUMP_MS: u64 = 1_000;

/// The machine's clock, set to the store's.
pub(crate) struct StoreClock {
    machine: Arc<dyn Machine>,
    since: Instant,
    last: Mutex<ClockReading>,
    ahead_ms: AtomicI64,
}

/// A look at the machine's clock.
struct ClockReading {
    showed_ms: i64,
    /// The time since the first look, by a monotonic clock.
    passed_ms: i64,
    /// The time by which the machine's clock was set forward so far.
    set_by_ms: i64,
}

/// The time at which a request was sent, before any difference is added.
#[derive(Clone, Copy)]
pub(crate) struct RequestTime(i64);

impl StoreClock {
    pub(crate) fn new(machine: Arc<dyn Machine>) -> Self {
        let first = ClockReading {
            showed_ms: machine.now_ms(),
            passed_ms: 0,
            set_by_ms: 0,
        };
        Self {
            since: machine.moment(),
            machine,
            last: Mutex::new(first),
            ahead_ms: AtomicI64::new(0),
        }
    }

    fn machine_ms(&self) -> i64 {
        let mut last = self.last.lock();
        let passed_ms = i64::try_from((self.machine.moment() - self.since).as_millis()).unwrap_or(i64::MAX);
        let showed_ms = self.machine.now_ms();
        let jump = showed_ms - last.showed_ms - (passed_ms - last.passed_ms);
        let set_by_ms = if jump.unsigned_abs() < JUMP_MS {
            last.set_by_ms
        } else {
            last.set_by_ms + jump
        };
        *last = ClockReading {
            showed_ms,
            passed_ms,
            set_by_ms,
        };
        showed_ms - set_by_ms
    }

    /// Returns the time of a request that goes to the store now.
    pub(crate) fn request_time(&self) -> RequestTime {
        RequestTime(self.machine_ms())
    }

    /// Notes the time of the store, which the answer to a request told.
    pub(crate) fn synchronize(&self, requested: RequestTime, store_ms: i64) {
        // The store is ahead by at least this much. Otherwise `now_ms` would still be before the time that the store
        // told.
        let least = store_ms - self.machine_ms();
        let most = (store_ms - requested.0).max(least);
        let narrowed = |ahead: i64| Some(ahead.clamp(least, most));
        let _ = self
            .ahead_ms
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, narrowed);
    }
}

impl Clock for StoreClock {
    fn now_ms(&self) -> i64 {
        self.machine_ms() + self.ahead_ms.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use perdure_provider::{ManualClock, Worker};

    use super::*;
    use crate::platform::machine::Process;

    impl Machine for ManualClock {
        fn random(&self) -> u128 {
            0
        }

        fn process(&self) -> Process {
            Process {
                host: String::new(),
                pid: 0,
                start: String::new(),
            }
        }

        fn knows_gone(&self, _: &Worker) -> bool {
            false
        }
    }

    /// Returns the time that the clock shows after an answer that told `store_ms` and took `took_ms`.
    async fn shown(clock: &StoreClock, machine: &ManualClock, took_ms: i64, store_ms: i64) -> i64 {
        let asked = clock.request_time();
        machine.advance(took_ms);
        tokio::time::advance(Duration::from_millis(took_ms.unsigned_abs())).await;
        clock.synchronize(asked, store_ms);
        clock.now_ms()
    }

    #[tokio::test(start_paused = true)]
    async fn one_clock_for_both_is_left_alone() {
        let machine = Arc::new(ManualClock::new(1_000));
        let clock = StoreClock::new(machine.clone());
        assert_eq!(shown(&clock, &machine, 10, 1_004).await, 1_010);
        assert_eq!(shown(&clock, &machine, 0, 1_010).await, 1_010);
        // The two clocks of a machine are not exact.
        machine.advance(1);
        assert_eq!(clock.now_ms(), 1_011);
    }

    #[tokio::test(start_paused = true)]
    async fn a_difference_is_followed_and_no_told_time_is_still_to_come() {
        let machine = Arc::new(ManualClock::new(1_000));
        let clock = StoreClock::new(machine.clone());
        assert_eq!(shown(&clock, &machine, 10, 3_601_000).await, 3_601_000);
        // A slow answer tells less than is known.
        assert_eq!(shown(&clock, &machine, 500, 3_601_400).await, 3_601_500);
        // The store was set back.
        assert_eq!(shown(&clock, &machine, 10, 1_000_010).await, 1_000_020);
    }

    /// Regression test: the time that a turn read was an hour ahead, and so was each timer that its instance created
    /// from there on.
    #[tokio::test(start_paused = true)]
    async fn a_machine_whose_clock_is_set_shows_the_same() {
        let machine = Arc::new(ManualClock::new(1_000));
        let clock = StoreClock::new(machine.clone());
        machine.advance(3_600_000);
        assert_eq!(clock.now_ms(), 1_000);
        machine.advance(-7_200_000);
        assert_eq!(clock.now_ms(), 1_000);
    }
}
