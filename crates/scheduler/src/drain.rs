//! The end of all processes, in good order: nothing new begins, and what is under way comes to rest. How long that may take is the caller's.

use std::future::poll_fn;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::{Poll, Waker};

use crate::sync::{AtomicBool, Mutex};

/// Whether that has begun, and who waits for it.
pub struct Drain {
    begun: AtomicBool,
    waiter: Mutex<Option<Waker>>,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            begun: AtomicBool::new(false),
            waiter: Mutex::new(None),
        }
    }
}

impl Drain {
    /// From here on nothing new begins: whoever would begin it [asks](Self::has_begun).
    pub fn begin(&self) {
        self.begun.store(true, Release);
    }

    /// Whether it has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Acquire)
    }

    /// Something has come to rest. Cheap until it has begun.
    pub fn tell(&self) {
        if self.has_begun() {
            let waiter = self.waiter.lock().take();
            if let Some(waiter) = waiter {
                waiter.wake();
            }
        }
    }

    /// After [`begin`](Self::begin): until all is at rest, by an answer that may change with each [`tell`](Self::tell) (L7). One waits at a time.
    pub async fn over(&self, is_at_rest: impl Fn() -> bool) {
        poll_fn(|context| {
            // First: between the answer and a change of it, one of the two sees the other.
            *self.waiter.lock() = Some(context.waker().clone());
            if is_at_rest() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
