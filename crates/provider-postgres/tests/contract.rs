//! The contract of all providers, on a Postgres server.

mod common;

use std::sync::Arc;

use perdure_provider::{ManualClock, Provider};
use perdure_provider_contract::Fixture;

use common::{Schema, connect};

struct OnServer {
    first: Arc<dyn Provider>,
    clock: Arc<ManualClock>,
    /// Last: it goes when the provider is closed.
    schema: Schema,
}

impl Fixture for OnServer {
    async fn open(clock: Arc<ManualClock>) -> Self {
        let schema = Schema::new();
        Self {
            first: Arc::new(connect(&schema, clock.clone()).await),
            clock,
            schema,
        }
    }

    fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.first)
    }

    async fn second(&self) -> Option<Arc<dyn Provider>> {
        Some(Arc::new(connect(&self.schema, self.clock.clone()).await))
    }
}

perdure_provider_contract::suite!(OnServer);
