//! A page of a history that is read while the pages before it are replayed.

use perdure_engine::{EventId, EventRecord};
use perdure_provider::ProviderError;
use tokio::task::JoinHandle;

use crate::platform::byte_budget::Reservation;

/// The page of an instance's history that follows the pages it has. The page is read while those are replayed. A drop
/// aborts the read.
pub(crate) struct PageAhead {
    pub(crate) from: EventId,
    pub(crate) page: JoinHandle<Result<Page, ProviderError>>,
}

/// A page of a history, and the memory that it takes.
pub(crate) struct Page {
    pub(crate) events: Vec<EventRecord>,
    pub(crate) held: Reservation,
    pub(crate) is_last: bool,
}

impl Drop for PageAhead {
    fn drop(&mut self) {
        self.page.abort();
    }
}
