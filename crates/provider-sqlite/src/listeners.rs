//! The listeners that are told when another process may have written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use perdure_provider::{Change, ChangeListener};

#[derive(Default)]
pub(crate) struct Listeners {
    list: Mutex<Vec<Arc<ChangeListener>>>,
    any: AtomicBool,
}

impl Listeners {
    pub(crate) fn add(&self, listener: ChangeListener) {
        self.list.lock().push(Arc::new(listener));
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Tells each listener. A listener may add others, because the lock is not held.
    pub(crate) fn tell(&self) {
        let list = self.list.lock().clone();
        for listener in list {
            listener(&Change::anything());
        }
    }
}
