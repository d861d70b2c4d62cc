//! The notifications of a handle: answers to batches, and changes that others made.
//!
//! Each is given once and in order, by a task of its own. None is given within a call, because the caller may hold a
//! lock that the answer takes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;

type Callback = Box<dyn FnOnce() + Send>;

pub(crate) struct Callbacks {
    tokio: Handle,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Callback>,
    /// True while a task exists that takes the waiting notifications.
    is_taken: bool,
}

impl Callbacks {
    pub(crate) fn new(tokio: Handle) -> Arc<Self> {
        Arc::new(Self {
            tokio,
            queue: Mutex::default(),
        })
    }

    /// Adds a notification, after all earlier ones.
    pub(crate) fn push(self: &Arc<Self>, callback: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Box::new(callback));
        if !std::mem::replace(&mut queue.is_taken, true) {
            self.tokio.spawn(Arc::clone(self).run_all());
        }
    }

    /// Waits until every notification that was added until now was given.
    pub(crate) async fn flush(self: &Arc<Self>) {
        let (said, all) = oneshot::channel();
        self.push(move || {
            // The caller may be gone. Then there is no task to tell.
            let _ = said.send(());
        });
        // An error says that the runtime ends: no task receives notifications any more.
        let _ = all.await;
    }

    async fn run_all(self: Arc<Self>) {
        loop {
            let waiting = {
                let mut queue = self.queue.lock();
                queue.is_taken = !queue.waiting.is_empty();
                std::mem::take(&mut queue.waiting)
            };
            if waiting.is_empty() {
                return;
            }
            for callback in waiting {
                // A panic in a caller's code must not keep the others from their answers.
                let _ = catch_unwind(AssertUnwindSafe(callback));
            }
            // An answer may cause further answers without an end, so other tasks get their turn here.
            yield_now().await;
        }
    }
}
