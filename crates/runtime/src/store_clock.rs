//! The store's clock, as far as this process knows it.
//!
//! Leases and due times are compared with the store's clock (P9). A timer must be due for the engine, too, when the store says that its
//! instance is, and a machine whose clock is an hour off must neither fire timers early nor late. So everything here goes by the
//! machine's clock plus a difference to the store's, which each answer that tells the store's time narrows down: the answer was made
//! between the question and now, and the difference moves no further than that demands. Where both are one clock it stays zero.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use perdure_provider::Clock;

/// The machine's clock, set to the store's.
pub(crate) struct StoreClock {
    machine: Arc<dyn Clock>,
    ahead_ms: AtomicI64,
}

/// When a question was asked, by the machine's clock.
#[derive(Clone, Copy)]
pub(crate) struct Asked(i64);

impl StoreClock {
    pub(crate) fn new(machine: Arc<dyn Clock>) -> Self {
        Self {
            machine,
            ahead_ms: AtomicI64::new(0),
        }
    }

    /// A question goes to the store now.
    pub(crate) fn ask(&self) -> Asked {
        Asked(self.machine.now_ms())
    }

    /// The answer to it told the store's time.
    pub(crate) fn hear(&self, asked: Asked, store_ms: i64) {
        // At least so much is the store ahead, or `now_ms` would still be before the time that it told.
        let least = store_ms - self.machine.now_ms();
        let most = (store_ms - asked.0).max(least);
        let narrowed = |ahead: i64| Some(ahead.clamp(least, most));
        let _ = self
            .ahead_ms
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, narrowed);
    }
}

impl Clock for StoreClock {
    fn now_ms(&self) -> i64 {
        self.machine.now_ms() + self.ahead_ms.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use perdure_provider::ManualClock;

    use super::*;

    /// What is shown after an answer that told `store_ms` and took `took_ms`, by a machine's clock at 1 000.
    fn shown(clock: &StoreClock, machine: &ManualClock, took_ms: i64, store_ms: i64) -> i64 {
        let asked = clock.ask();
        machine.advance(took_ms);
        clock.hear(asked, store_ms);
        clock.now_ms()
    }

    #[test]
    fn one_clock_for_both_is_left_alone() {
        let machine = Arc::new(ManualClock::new(1_000));
        let clock = StoreClock::new(machine.clone());
        assert_eq!(shown(&clock, &machine, 10, 1_004), 1_010);
        assert_eq!(shown(&clock, &machine, 0, 1_010), 1_010);
    }

    #[test]
    fn a_difference_is_followed_and_no_told_time_is_still_to_come() {
        let machine = Arc::new(ManualClock::new(1_000));
        let clock = StoreClock::new(machine.clone());
        assert_eq!(shown(&clock, &machine, 10, 3_601_000), 3_601_000);
        // A slow answer tells less than is known.
        assert_eq!(shown(&clock, &machine, 500, 3_601_400), 3_601_500);
        // The store was set back, or the machine's clock forward.
        machine.advance(7_200_000);
        assert_eq!(shown(&clock, &machine, 10, 3_700_000), 3_700_010);
    }
}
