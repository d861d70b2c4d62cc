//! The contract of all providers, on a Postgres server behind a pooler that gives a connection to each transaction:
//! nothing is prepared, and no notifications are sent.

use std::sync::Arc;

use perdure_provider::{ManualClock, Provider};
use perdure_provider_contract::Fixture;

use crate::common::{Schema, connect_unlistened};

struct BehindPooler {
    first: Arc<dyn Provider>,
    clock: Arc<ManualClock>,
    /// Declared last, so that the schema is emptied after the provider.
    schema: Schema,
}

impl Fixture for BehindPooler {
    async fn open(clock: Arc<ManualClock>) -> Self {
        let schema = Schema::shared();
        Self {
            first: Arc::new(connect_unlistened(&schema, clock.clone()).await),
            clock,
            schema,
        }
    }

    fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.first)
    }

    async fn second(&self) -> Option<Arc<dyn Provider>> {
        Some(Arc::new(connect_unlistened(&self.schema, self.clock.clone()).await))
    }
}

perdure_provider_contract::suite!(BehindPooler);
