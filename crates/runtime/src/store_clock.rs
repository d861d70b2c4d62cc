//! The store's clock, as far as this process knows it.
//!
//! Leases and due times are compared with the store's clock (P9). A timer must be due for the engine, too, when the store says that its
//! instance is, and a machine whose clock is an hour off, or is set while it runs, must neither fire timers early nor late: what a turn
//! takes for the time stays in its history. So the machine's clock is read once. Everything here goes by the time that has passed since,
//! plus a difference to the store's clock, which each answer that tells the store's time narrows down: the answer was made between the
//! question and now, and the difference moves no further than that demands. Where both are one clock it stays zero.

use std::sync::atomic::{AtomicI64, Ordering};

use perdure_provider::Clock;
use tokio::time::Instant;

/// The machine's clock, set to the store's.
pub(crate) struct StoreClock {
    since: Instant,
    /// What the machine's clock showed then, and how far the store's is ahead of that.
    at_first_ms: i64,
    ahead_ms: AtomicI64,
}

/// When a question was asked, before any difference.
#[derive(Clone, Copy)]
pub(crate) struct Asked(i64);

impl StoreClock {
    pub(crate) fn new(machine: &dyn Clock) -> Self {
        Self {
            since: Instant::now(),
            at_first_ms: machine.now_ms(),
            ahead_ms: AtomicI64::new(0),
        }
    }

    fn machine_ms(&self) -> i64 {
        let passed = i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.at_first_ms.saturating_add(passed)
    }

    /// A question goes to the store now.
    pub(crate) fn ask(&self) -> Asked {
        Asked(self.machine_ms())
    }

    /// The answer to it told the store's time.
    pub(crate) fn hear(&self, asked: Asked, store_ms: i64) {
        // At least so much is the store ahead, or `now_ms` would still be before the time that it told.
        let least = store_ms - self.machine_ms();
        let most = (store_ms - asked.0).max(least);
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

    use perdure_provider::ManualClock;

    use super::*;

    /// What is shown after an answer that told `store_ms` and took `took_ms`.
    async fn shown(clock: &StoreClock, took_ms: u64, store_ms: i64) -> i64 {
        let asked = clock.ask();
        tokio::time::advance(Duration::from_millis(took_ms)).await;
        clock.hear(asked, store_ms);
        clock.now_ms()
    }

    #[tokio::test(start_paused = true)]
    async fn one_clock_for_both_is_left_alone() {
        let clock = StoreClock::new(&ManualClock::new(1_000));
        assert_eq!(shown(&clock, 10, 1_004).await, 1_010);
        assert_eq!(shown(&clock, 0, 1_010).await, 1_010);
    }

    #[tokio::test(start_paused = true)]
    async fn a_difference_is_followed_and_no_told_time_is_still_to_come() {
        let clock = StoreClock::new(&ManualClock::new(1_000));
        assert_eq!(shown(&clock, 10, 3_601_000).await, 3_601_000);
        // A slow answer tells less than is known.
        assert_eq!(shown(&clock, 500, 3_601_400).await, 3_601_500);
        // The store was set back.
        assert_eq!(shown(&clock, 10, 1_000_010).await, 1_000_020);
    }

    /// What a turn took for the time was an hour ahead then, and so was each timer that its instance created from there on.
    #[tokio::test(start_paused = true)]
    async fn a_machine_whose_clock_is_set_shows_the_same() {
        let machine = ManualClock::new(1_000);
        let clock = StoreClock::new(&machine);
        machine.advance(3_600_000);
        assert_eq!(clock.now_ms(), 1_000);
    }
}
