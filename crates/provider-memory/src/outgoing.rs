//! What a handle says later: answers to batches, and changes that others made.
//!
//! Each is said once and in order, by a task of its own, so that nothing is said within a call: whoever calls may hold a lock that the
//! answer takes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;

type Say = Box<dyn FnOnce() + Send>;

pub(crate) struct Outgoing {
    tokio: Handle,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Say>,
    /// A task is there that takes what waits.
    is_taken: bool,
}

impl Outgoing {
    pub(crate) fn new(tokio: Handle) -> Arc<Self> {
        Arc::new(Self {
            tokio,
            queue: Mutex::default(),
        })
    }

    /// Say something, after all that was to be said before.
    pub(crate) fn push(self: &Arc<Self>, say: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Box::new(say));
        if !std::mem::replace(&mut queue.is_taken, true) {
            self.tokio.spawn(Arc::clone(self).say_all());
        }
    }

    /// Everything that was to be said until now was said.
    pub(crate) async fn flush(self: &Arc<Self>) {
        let (said, all) = oneshot::channel();
        self.push(move || {
            // A caller that is gone has nobody to tell.
            let _ = said.send(());
        });
        // An error says that the runtime ends: nobody hears anything any more.
        let _ = all.await;
    }

    async fn say_all(self: Arc<Self>) {
        loop {
            let waiting = {
                let mut queue = self.queue.lock();
                queue.is_taken = !queue.waiting.is_empty();
                std::mem::take(&mut queue.waiting)
            };
            if waiting.is_empty() {
                return;
            }
            for say in waiting {
                // A caller's code must not keep the others from their answers.
                let _ = catch_unwind(AssertUnwindSafe(say));
            }
            // What an answer sets going may be answered without an end: others are to have their turn.
            yield_now().await;
        }
    }
}
