//! The contract of all providers, on a store in memory that two handles share.

use std::sync::Arc;

use perdure_provider::{ManualClock, Provider};
use perdure_provider_contract::Fixture;
use perdure_provider_memory::{MemoryProvider, MemoryStore};

struct InMemory(Arc<MemoryProvider>);

impl Fixture for InMemory {
    async fn open(clock: Arc<ManualClock>) -> Self {
        Self(MemoryStore::new(clock).connect())
    }

    fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.0) as Arc<dyn Provider>
    }

    async fn second(&self) -> Option<Arc<dyn Provider>> {
        Some(self.0.store().connect())
    }
}

perdure_provider_contract::suite!(InMemory);
