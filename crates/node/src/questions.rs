//! Questions of Rust to JavaScript, from any thread: each question has a number, by which it is answered later.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The waiters for answers, by the number of their question. Each is answered or forgotten once.
pub(crate) struct Questions<T> {
    asked: Mutex<HashMap<u32, oneshot::Sender<T>>>,
    next: AtomicU32,
}

impl<T> Default for Questions<T> {
    fn default() -> Self {
        Self {
            asked: Mutex::default(),
            next: AtomicU32::new(0),
        }
    }
}

/// A question that was asked. It is forgotten when this value is dropped.
pub(crate) struct Question<'q, T> {
    pub(crate) number: u32,
    answer: oneshot::Receiver<T>,
    of: &'q Questions<T>,
}

impl<T> Questions<T> {
    pub(crate) fn ask(&self) -> Question<'_, T> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, answer) = oneshot::channel();
        self.asked.lock().insert(number, tell);
        Question {
            number,
            answer,
            of: self,
        }
    }

    /// Takes an answer of JavaScript, for which there may no longer be a waiter.
    pub(crate) fn answer(&self, number: u32, answer: T) {
        let asked = self.asked.lock().remove(&number);
        if let Some(asked) = asked {
            drop(asked.send(answer));
        }
    }
}

impl<T> Question<'_, T> {
    /// Waits for the answer. `None`: the question will not be answered any more.
    pub(crate) async fn answer(&mut self) -> Option<T> {
        (&mut self.answer).await.ok()
    }
}

impl<T> Drop for Question<'_, T> {
    fn drop(&mut self) {
        self.of.asked.lock().remove(&self.number);
    }
}
