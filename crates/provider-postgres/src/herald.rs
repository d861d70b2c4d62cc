//! Tells that the answer to a batch is there before it is read: to wake the thread that waits for it takes about as long as that.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use perdure_provider::AnswerListener;

/// Whom to tell, and whether there is anything to tell.
#[derive(Default)]
pub(crate) struct Herald {
    listeners: RwLock<Vec<AnswerListener>>,
    /// A batch that is one statement is written.
    is_awaited: AtomicBool,
}

/// While it is there, an answer is awaited.
struct Awaited<'h>(&'h Herald);

impl Herald {
    pub(crate) fn add_listener(&self, listener: AnswerListener) {
        self.listeners.write().push(listener);
    }

    /// Write a batch, of which there is one at a time.
    pub(crate) async fn awaiting<T>(&self, written: impl Future<Output = T>) -> T {
        self.is_awaited.store(true, Ordering::Release);
        let _awaited = Awaited(self);
        written.await
    }

    /// A connection has something to be read.
    pub(crate) fn something_came(&self) {
        if self.is_awaited.load(Ordering::Acquire) {
            for listener in &*self.listeners.read() {
                listener();
            }
        }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.is_awaited.store(false, Ordering::Release);
    }
}
