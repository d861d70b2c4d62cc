//! The store of a run.

use std::sync::Arc;

use perdure_provider::{Outcome, Provider, ProviderError, Write};
use perdure_provider_memory::{MemoryStore, Snapshot};

use crate::machine::VirtualClock;

/// A store that processes connect to.
pub(crate) trait Backend {
    /// Connects another process.
    fn connect(&self) -> Connection;

    /// Returns a snapshot of all rows, or `None` if the store cannot be seen into.
    fn snapshot(&self) -> Option<Snapshot>;
}

/// Writes a batch and returns the outcomes at once, so that no other process writes in between.
type WriteNow = Box<dyn Fn(&Arc<Vec<Write>>) -> Result<Vec<Outcome>, ProviderError> + Send + Sync>;

/// The connection of a process to a store.
pub(crate) struct Connection {
    /// Serves all calls but commits.
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
