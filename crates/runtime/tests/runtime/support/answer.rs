//! The answer to a request of a client.

use std::sync::Arc;

use parking_lot::Mutex;
use perdure_runtime::{Reply, RuntimeError};

/// The answer to a request.
pub(crate) struct Answer<T>(Arc<Mutex<Option<Result<T, RuntimeError>>>>);

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Returns a place for an answer.
pub(crate) fn answer() -> Answer<()> {
    Answer::default()
}

impl<T: Send + 'static> Answer<T> {
    pub(crate) fn reply(&self) -> Reply<T> {
        let place = Arc::clone(&self.0);
        Box::new(move |answer| {
            assert!(place.lock().replace(answer).is_none(), "it was answered twice");
        })
    }

    pub(crate) fn take(&self) -> Option<Result<T, RuntimeError>> {
        self.0.lock().take()
    }
}
