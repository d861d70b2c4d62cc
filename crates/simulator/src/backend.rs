//! The store of a run.

use std::sync::Arc;

use perdure_provider::{Outcome, Provider, ProviderError, Write};
use perdure_provider_memory::{MemoryStore, Snapshot};

use crate::machine::VirtualClock;

/// A store that processes connect to.
pub(crate) trait Backend {
    /// Another process connects.
    fn connect(&self) -> Connection;

    /// Everything that is stored, where that can be seen.
    fn snapshot(&self) -> Option<Snapshot>;
}

/// Writes a batch and tells what came of it at once, so that nobody else writes in between.
type WriteNow = Box<dyn Fn(&Arc<Vec<Write>>) -> Result<Vec<Outcome>, ProviderError> + Send + Sync>;

/// What a process has of a store.
pub(crate) struct Connection {
    /// Everything but what it writes.
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) write: WriteNow,
}

/// A store in memory, whose clock is right.
pub(crate) struct InMemory(Arc<MemoryStore>);

impl InMemory {
    pub(crate) fn new() -> Self {
        Self(MemoryStore::new(VirtualClock::new(0)))
    }
}

impl Backend for InMemory {
    fn connect(&self) -> Connection {
        let provider = self.0.connect();
        let writer = Arc::clone(&provider);
        Connection {
            provider,
            write: Box::new(move |batch| writer.write(batch)),
        }
    }

    fn snapshot(&self) -> Option<Snapshot> {
        Some(self.0.snapshot())
    }
}
