//! The faults that all links share: their rates, and the random numbers that draw them.

use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use perdure_provider::ProviderErrorKind;
use tokio::time::Instant;

use crate::plan::{FaultRates, Refusal};

/// Calls that write nothing.
const READS: [&str; 10] = [
    "inspect",
    "list",
    "overdue",
    "owned_by",
    "read_history",
    "read_inbox",
    "read_messages",
    "stats",
    "statuses",
    "workers",
];

/// The faults that all links share: their rates, and the random numbers that draw them.
pub(crate) struct LinkFaults {
    pub(crate) rates: Mutex<FaultRates>,
    pub(crate) rng: Mutex<Rng>,
    /// Until then no call of any process comes through.
    pub(crate) outage_until: Mutex<Instant>,
    /// Until then every call is refused, or every call that writes.
    pub(crate) refusal: Mutex<Option<(Instant, Refusal)>>,
    /// The number of times that each fault happened.
    pub(crate) fired: Mutex<std::collections::BTreeMap<&'static str, u64>>,
    /// The time by which the last of the calls that got stuck so far comes through.
    stuck_until: Mutex<Instant>,
}

impl LinkFaults {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            rates: Mutex::default(),
            rng: Mutex::new(rng),
            outage_until: Mutex::new(Instant::now()),
            refusal: Mutex::default(),
            fired: Mutex::default(),
            stuck_until: Mutex::new(Instant::now()),
        }
    }

    /// The time by which the last of the calls that got stuck so far comes through.
    pub(crate) fn stuck_until(&self) -> Instant {
        *self.stuck_until.lock()
    }

    pub(crate) fn fire(&self, fault: &'static str) {
        *self.fired.lock().entry(fault).or_default() += 1;
    }

    /// True `per_mille` times out of a thousand.
    pub(super) fn chance(&self, per_mille: u16) -> bool {
        per_mille > 0 && self.rng.lock().u16(..1_000) < per_mille
    }

    /// The error with which the store refuses a call now, if it does.
    pub(super) fn refuses(&self, call: &str) -> Option<ProviderErrorKind> {
        let (until, refusal) = (*self.refusal.lock())?;
        let is_answered = refusal.lets_read && READS.contains(&call);
        (Instant::now() < until && !is_answered).then_some(refusal.kind)
    }

    pub(super) fn ms(&self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.lock().u64(range))
    }

    pub(super) fn one_way(&self) -> Duration {
        let rates = *self.rates.lock();
        if self.chance(rates.slow) {
            self.fire("slow call");
            return self.ms(20..800);
        }
        if self.chance(rates.stuck) {
            self.fire("stuck call");
            let wait = self.ms(1_000..12_000);
            let mut stuck_until = self.stuck_until.lock();
            *stuck_until = stuck_until.max(Instant::now() + wait);
            return wait;
        }
        self.ms(0..3)
    }
}
