//! Streams as clients read them (P23): a page at a time, and a wait for the next entry.

use std::sync::Arc;

use perdure_provider::{InstanceKey, PageLimit, StreamInfo, StreamName, StreamPage, StreamRequest, StreamState};

use crate::client::store::{Reply, Store};
use crate::client::watch::{AwaitingEntry, WaitId};
use crate::error::RuntimeError;
use crate::options::STREAM_PAGE;

/// A client's place in a stream.
#[derive(Clone, Debug)]
pub struct StreamPlace {
    /// The stream.
    pub name: StreamName,
    /// The instance that an earlier page was of; `None`: the instance that has the id now.
    pub key: Option<InstanceKey>,
    /// Index of the next entry to read.
    pub from: u64,
}

impl StreamPlace {
    fn not_found(&self) -> RuntimeError {
        let id = self.name.instance.clone();
        RuntimeError::InstanceNotFound { id }
    }
}

impl Store {
    /// Reads a page of a stream. Replies with `InstanceNotFound` if there is no such instance, or another one has its
    /// id.
    pub fn read_stream(self: &Arc<Self>, place: StreamPlace, limit: usize, reply: Reply<StreamPage>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            let not_found = place.not_found();
            let request = StreamRequest {
                name: place.name,
                from: place.from,
                limit: PageLimit {
                    rows: limit.clamp(1, STREAM_PAGE.rows),
                    ..STREAM_PAGE
                },
            };
            let page = this.provider.read_stream(request).await.map_err(RuntimeError::from);
            let is_it = |page: &StreamPage| place.key.is_none_or(|key| key == page.state.key);
            reply(page.and_then(|page| page.filter(is_it).ok_or(not_found)));
        });
    }

    /// Waits until a stream has the entry of a place, or will not have it because the stream is closed, the instance
    /// has ended, or another one has its id. The place names its instance, or the wait is over at once.
    pub fn await_entry(&self, wait: WaitId, place: StreamPlace, reply: Reply<()>) {
        let Some(key) = place.key else {
            return reply(Ok(()));
        };
        let awaiting = AwaitingEntry { index: place.from, key };
        let done = Box::new(move |state: Result<Option<StreamState>, _>| reply(state.map(|_| ())));
        self.streams.add(wait, place.name.clone(), awaiting, done);
        self.streams.mark_changed(&place.name);
    }

    /// Reads the streams of an instance; `None` if there is no instance with this id.
    pub fn streams_of(self: &Arc<Self>, id: String, reply: Reply<Option<Vec<StreamInfo>>>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.streams_of(id).await.map_err(RuntimeError::from)) });
    }
}
