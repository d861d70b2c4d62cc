//! Machines with virtual clocks, on which processes live and die.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use fastrand::Rng;
use parking_lot::Mutex;
use perdure_provider::{Clock, Worker};
use perdure_runtime::{Machine, Process};
use tokio::time::Instant;

/// The time that every right clock shows at the beginning, ms since 1970: some time in 2033.
pub(crate) const BEGINNING_MS: i64 = 2_000_000_000_000;

/// A clock that goes with tokio's, which is virtual. It may be wrong by an offset.
pub(crate) struct VirtualClock {
    since: Instant,
    off_ms: AtomicI64,
}

impl VirtualClock {
    pub(crate) fn new(off_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            since: Instant::now(),
            off_ms: AtomicI64::new(off_ms),
        })
    }

    /// Sets the clock forward or back.
    pub(crate) fn jump(&self, ms: i64) {
        self.off_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now_ms(&self) -> i64 {
        let elapsed = i64::try_from(self.since.elapsed().as_millis()).expect("no run takes so long");
        BEGINNING_MS + self.off_ms.load(Ordering::Relaxed) + elapsed
    }
}

/// The numbers of the living processes. A number is never used again.
pub(crate) type LivePids = Arc<Mutex<BTreeSet<u32>>>;

/// The machine as one process sees it.
pub(crate) struct VirtualMachine {
    clock: Arc<VirtualClock>,
    host: String,
    pid: u32,
    living: LivePids,
    rng: Mutex<Rng>,
}

impl VirtualMachine {
    pub(crate) fn new(clock: Arc<VirtualClock>, host: String, pid: u32, living: LivePids, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            clock,
            host,
            pid,
            living,
            rng: Mutex::new(Rng::with_seed(seed)),
        })
    }
}

impl Clock for VirtualMachine {
    fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }
}

impl Machine for VirtualMachine {
    fn random(&self) -> u128 {
        self.rng.lock().u128(..)
    }

    fn process(&self) -> Process {
        Process {
            host: self.host.clone(),
            pid: self.pid,
            start: "1".into(),
        }
    }

    fn knows_gone(&self, worker: &Worker) -> bool {
        worker.host == self.host && !self.living.lock().contains(&worker.pid)
    }
}
