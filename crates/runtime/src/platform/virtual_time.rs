//! Virtual time, for tests: tasks that run when they are told to, and a clock that stands still until it is set
//! forward.
//!
//! Everything is done on the calling thread, within the call. The clock of the [`Machine`] and tokio's are set forward
//! together, so that a runtime on them sees one time. Nothing here knows what is due: the caller that sets the clock
//! asks the [runtime](crate::Runtime::next_due_ms).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use perdure_provider::{Clock, Worker};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

use crate::platform::machine::{Machine, Process};

/// The number of times that all tasks must have come to rest: after the first time, timers that are due are looked at,
/// and the tasks that they wake run then.
const RESTS: u32 = 2;

/// A set of tasks with a clock of its own.
pub struct VirtualTime {
    tokio: Runtime,
    machine: Arc<VirtualMachine>,
    /// The waker to wake when no task can go on.
    resting: Arc<Mutex<Option<Waker>>>,
}

impl VirtualTime {
    /// Returns a set of tasks whose clock shows `now_ms`. Random numbers of the machine come from `seed`.
    ///
    /// # Errors
    ///
    /// Fails if the system has no room for another set of tasks.
    pub fn new(now_ms: i64, seed: u64) -> io::Result<Self> {
        let resting: Arc<Mutex<Option<Waker>>> = Arc::default();
        let at_rest = Arc::clone(&resting);
        let tokio = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            // The task that is woken here keeps the clock from going on by itself.
            .on_thread_park(move || {
                if let Some(waker) = at_rest.lock().take() {
                    waker.wake();
                }
            })
            .build()?;
        let since = tokio.block_on(async { Instant::now() });
        let machine = Arc::new(VirtualMachine {
            since,
            begin_ms: now_ms,
            now_ms: AtomicI64::new(now_ms),
            rng: Mutex::new(Rng::with_seed(seed)),
        });
        Ok(Self {
            tokio,
            machine,
            resting,
        })
    }

    /// Returns the machine that has this clock.
    #[must_use]
    pub fn machine(&self) -> Arc<dyn Machine> {
        Arc::clone(&self.machine) as Arc<dyn Machine>
    }

    /// Returns the handle that spawns tasks.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        self.tokio.handle()
    }

    /// Runs the tasks until none of them can go on.
    pub fn settle(&self) {
        let mut rests = 0;
        self.tokio.block_on(std::future::poll_fn(|context| {
            if rests == RESTS {
                return Poll::Ready(());
            }
            rests += 1;
            *self.resting.lock() = Some(context.waker().clone());
            Poll::Pending
        }));
    }

    /// Sets the clock forward. Timers that are due then wait for [`settle`](Self::settle).
    pub fn set(&self, to_ms: i64) {
        let by_ms = to_ms - self.machine.now_ms();
        if let Ok(by_ms) = u64::try_from(by_ms) {
            self.machine.now_ms.store(to_ms, Ordering::SeqCst);
            self.tokio.block_on(tokio::time::advance(Duration::from_millis(by_ms)));
        }
    }
}

struct VirtualMachine {
    since: Instant,
    begin_ms: i64,
    now_ms: AtomicI64,
    rng: Mutex<Rng>,
}

impl Clock for VirtualMachine {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }
}

impl Machine for VirtualMachine {
    fn moment(&self) -> Instant {
        let passed_ms = u64::try_from(self.now_ms() - self.begin_ms).expect("the clock is never set back");
        self.since + Duration::from_millis(passed_ms)
    }

    fn random(&self) -> u128 {
        self.rng.lock().u128(..)
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

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn tasks_run_when_they_are_told_to_and_the_clock_stands_still() {
        let time = VirtualTime::new(1_000, 1).expect("it is made");
        let done = Arc::new(AtomicI64::new(0));
        let counted = Arc::clone(&done);
        time.handle().spawn(async move {
            for _ in 0..500 {
                tokio::task::yield_now().await;
                counted.fetch_add(1, Ordering::SeqCst);
            }
            crate::platform::time::sleep(Duration::from_millis(1)).await;
            counted.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(done.load(Ordering::SeqCst), 0);
        time.settle();
        time.settle();
        assert_eq!(done.load(Ordering::SeqCst), 500);
        assert_eq!(time.machine().now_ms(), 1_000);
        time.set(1_001);
        time.settle();
        assert_eq!(done.load(Ordering::SeqCst), 501);
    }

    #[test]
    fn due_timers_on_the_way_wake_their_waiters_and_both_clocks_agree() {
        let time = VirtualTime::new(0, 1).expect("it is made");
        let (machine, woken) = (time.machine(), Arc::new(Notify::new()));
        let moments = Arc::new(Mutex::new(Vec::new()));
        let (seen, waits) = (Arc::clone(&moments), Arc::clone(&woken));
        time.handle().spawn(async move {
            crate::platform::time::sleep(Duration::from_secs(86_400)).await;
            waits.notify_one();
        });
        let clock = time.machine();
        time.handle().spawn(async move {
            woken.notified().await;
            seen.lock().push((clock.now_ms(), Instant::now(), clock.moment()));
        });
        let begin = machine.moment();
        time.settle();
        time.set(DAY_MS - 1);
        time.settle();
        assert_eq!(*moments.lock(), []);
        time.set(DAY_MS);
        time.settle();
        let day = begin + Duration::from_secs(86_400);
        assert_eq!(*moments.lock(), [(DAY_MS, day, day)]);
        // The clock is never set back.
        time.set(0);
        assert_eq!(machine.now_ms(), DAY_MS);
    }
}
