//! A budget of bytes for data that is in memory for a while.
//!
//! - **Y1** The bytes that are held exceed the budget by one item at most, if all of them were
//!   [reserved](ByteBudget::reserve): one item always passes when nothing else is held.
//! - **Y2** Waiting reservations are served in the order in which they came. While one waits there is no
//!   [room](ByteBudget::room) for others.
//! - **Y3** A holder of bytes may [take](ByteBudget::take) more without waiting. Otherwise two holders that wait for
//!   each other would wait for ever.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The budget.
pub(crate) struct ByteBudget {
    max: usize,
    state: Mutex<State>,
    freed: Notify,
    turnstile: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    held: usize,
    waiting: usize,
}

/// Bytes that are held until this is dropped.
pub(crate) struct Reservation {
    budget: Arc<ByteBudget>,
    bytes: usize,
}

impl ByteBudget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            state: Mutex::default(),
            freed: Notify::new(),
            turnstile: tokio::sync::Mutex::new(()),
        })
    }

    /// Returns the number of bytes that may still be held.
    pub(crate) fn room(&self) -> usize {
        let state = self.state.lock();
        if state.waiting > 0 {
            return 0;
        }
        self.max.saturating_sub(state.held)
    }

    /// Waits until bytes were given back.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Holds a number of bytes, even if there is no room for them.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Reservation {
        self.state.lock().held += bytes;
        Reservation {
            budget: Arc::clone(self),
            bytes,
        }
    }

    /// Holds a number of bytes as soon as there is room for them, or nothing else is held.
    pub(crate) async fn reserve(self: &Arc<Self>, bytes: usize) -> Reservation {
        let _waiting = WaitingReservation::of(self);
        let _turn = self.turnstile.lock().await;
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            {
                let mut state = self.state.lock();
                if state.held == 0 || state.held.saturating_add(bytes) <= self.max {
                    state.held += bytes;
                    return Reservation {
                        budget: Arc::clone(self),
                        bytes,
                    };
                }
            }
            freed.await;
        }
    }
}

/// Counts a reservation that waits, until it is served or aborted.
struct WaitingReservation<'b>(&'b ByteBudget);

impl<'b> WaitingReservation<'b> {
    fn of(budget: &'b ByteBudget) -> Self {
        budget.state.lock().waiting += 1;
        Self(budget)
    }
}

impl Drop for WaitingReservation<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
        self.0.freed.notify_waiters();
    }
}

impl Reservation {
    /// Changes the number of bytes, because another number turned out to be right or some were given back.
    pub(crate) fn set(&mut self, bytes: usize) {
        let mut state = self.budget.state.lock();
        state.held = state.held - self.bytes + bytes;
        drop(state);
        let is_less = bytes < self.bytes;
        self.bytes = bytes;
        if is_less {
            self.budget.freed.notify_waiters();
        }
    }

    /// Adds the bytes that another value holds.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_always_passes_and_the_others_wait_in_their_order() {
        let budget = ByteBudget::new(100);
        let large = budget.reserve(1_000).await;
        assert_eq!(budget.room(), 0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiting: Vec<_> = [90, 90, 10]
            .into_iter()
            .enumerate()
            .map(|(n, bytes)| {
                let (budget, order) = (Arc::clone(&budget), Arc::clone(&order));
                tokio::spawn(async move {
                    let held = budget.reserve(bytes).await;
                    order.lock().push(n);
                    tokio::task::yield_now().await;
                    drop(held);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(order.lock().is_empty());
        drop(large);
        for task in waiting {
            task.await.expect("it comes to an end");
        }
        assert_eq!(*order.lock(), [0, 1, 2]);
        assert_eq!(budget.room(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn returned_bytes_make_room() {
        let budget = ByteBudget::new(100);
        let mut first = budget.take(60);
        first.add(budget.take(60));
        assert_eq!(budget.room(), 0);
        first.set(30);
        assert_eq!(budget.room(), 70);
        drop(first);
        assert_eq!(budget.room(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_aborted_waits_no_more() {
        let budget = ByteBudget::new(100);
        let held = budget.take(100);
        let waiting = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { drop(budget.reserve(1).await) }
        });
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.is_err());
        drop(held);
        assert_eq!(budget.room(), 100);
    }
}
