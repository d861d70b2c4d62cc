//! The orderly end of all processes: no new work begins, and work under way comes to rest. The caller decides how long
//! that may take.

use std::future::poll_fn;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::{Poll, Waker};

use crate::sync::{AtomicBool, Mutex};

/// State of the end: if it has begun, and the task that waits for it.
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
    /// Begins the end. From here on no new work begins: code that would begin some [asks](Self::has_begun) first.
    pub fn begin(&self) {
        self.begun.store(true, Release);
    }

    /// True if the end has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Acquire)
    }

    /// Reports that a process has come to rest. Cheap before the end has begun.
    pub fn tell(&self) {
        if self.has_begun() {
            let waiter = self.waiter.lock().take();
            if let Some(waiter) = waiter {
                waiter.wake();
            }
        }
    }

    /// Waits, after [`begin`](Self::begin), until all is at rest. The answer of `is_at_rest` may change with each
    /// [`tell`](Self::tell) (L7). Only one task may wait at a time.
    pub async fn over(&self, is_at_rest: impl Fn() -> bool) {
        poll_fn(|context| {
            // The waiter is stored first: between the answer and a change of it, one of the two sides sees the other.
            *self.waiter.lock() = Some(context.waker().clone());
            if is_at_rest() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
