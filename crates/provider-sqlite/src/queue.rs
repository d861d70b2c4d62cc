//! A queue between callers and a thread of the provider.
//!
//! The queue has no limit of its own. Each entry belongs to a caller that waits for its answer, and a caller that
//! writes on its own account keeps to `ProviderInfo::concurrent_commits` and `batch_max`.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    ready: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// True if the taking thread is to look around although nothing was pushed.
    nudged: bool,
}

/// The result of waiting.
pub(crate) enum Received<T> {
    /// At least one item.
    Items(Vec<T>),
    /// No item in the given time.
    Idle,
    /// No item, and a [`nudge`](Queue::nudge).
    Nudged,
    /// No item, and none will come.
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                closed: false,
                nudged: false,
            }),
            ready: Condvar::new(),
        }
    }

    /// Adds an item, or returns it if the queue is closed.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// Wakes the taking thread if it waits for items.
    pub(crate) fn nudge(&self) {
        self.state.lock().nudged = true;
        self.ready.notify_all();
    }

    /// Refuses further items; those that wait are still handed out.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.ready.notify_all();
    }

    /// Waits for items, at most for `max_wait`, and takes items from the front as long as `fits` accepts them. The
    /// first item is always taken.
    pub(crate) fn take(&self, max_wait: Option<Duration>, mut fits: impl FnMut(&T) -> bool) -> Received<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(first) = state.items.pop_front() {
                let mut fitting = fits(&first);
                let mut items = vec![first];
                while fitting && let Some(next) = state.items.front() {
                    fitting = fits(next);
                    if fitting {
                        items.extend(state.items.pop_front());
                    }
                }
                return Received::Items(items);
            }
            if state.closed {
                return Received::Closed;
            }
            if std::mem::take(&mut state.nudged) {
                return Received::Nudged;
            }
            match max_wait {
                None => self.ready.wait(&mut state),
                Some(max_wait) => {
                    if self.ready.wait_for(&mut state, max_wait).timed_out() && state.items.is_empty() && !state.closed
                    {
                        return Received::Idle;
                    }
                }
            }
        }
    }
}
