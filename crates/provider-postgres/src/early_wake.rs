//! Announces the answer to a batch before it is read. Waking the thread that waits for the answer takes about as long
//! as reading it.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use perdure_provider::AnswerListener;

/// The listeners, and whether there is an answer to announce.
#[derive(Default)]
pub(crate) struct EarlyWake {
    listeners: RwLock<Vec<AnswerListener>>,
    /// True while a batch that is one statement is written.
    is_awaited: AtomicBool,
}

/// Marks an answer as awaited, until it is dropped.
struct AwaitedGuard<'w>(&'w EarlyWake);

impl EarlyWake {
    pub(crate) fn add_listener(&self, listener: AnswerListener) {
        self.listeners.write().push(listener);
    }

    /// Writes a batch, of which there is one at a time.
    pub(crate) async fn awaiting<T>(&self, written: impl Future<Output = T>) -> T {
        self.is_awaited.store(true, Ordering::Release);
        let _awaited = AwaitedGuard(self);
        written.await
    }

    /// Tells the listeners that a connection has something to read, if an answer is awaited.
    pub(crate) fn socket_readable(&self) {
        if self.is_awaited.load(Ordering::Acquire) {
            for listener in &*self.listeners.read() {
                listener();
            }
        }
    }
}

impl Drop for AwaitedGuard<'_> {
    fn drop(&mut self) {
        self.0.is_awaited.store(false, Ordering::Release);
    }
}
