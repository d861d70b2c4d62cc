//! The contract of all providers, on a store in memory.

use std::sync::Arc;

use perdure_provider::{ManualClock, Provider};
use perdure_provider_contract::Fixture;
use perdure_provider_sqlite::{SqliteOptions, SqliteProvider};

struct InMemory(Arc<dyn Provider>);

impl Fixture for InMemory {
    async fn open(clock: Arc<ManualClock>) -> Self {
        let options = SqliteOptions {
            clock,
            ..SqliteOptions::default()
        };
        Self(Arc::new(
            SqliteProvider::in_memory(options).expect("a store in memory opens"),
        ))
    }

    fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.0)
    }

    async fn second(&self) -> Option<Arc<dyn Provider>> {
        None
    }
}

perdure_provider_contract::suite!(InMemory);
