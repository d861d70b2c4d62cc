//! The contract of all providers, on a Postgres server.

use std::sync::Arc;

use perdure_provider::{ManualClock, Provider};
use perdure_provider_contract::{Damage, Fixture, finds_each_damage};

use crate::common::{Schema, connect, other_program};

struct OnServer {
    first: Arc<dyn Provider>,
    clock: Arc<ManualClock>,
    /// Declared last, so that the schema is emptied after the provider.
    schema: Schema,
}

impl Fixture for OnServer {
    async fn open(clock: Arc<ManualClock>) -> Self {
        let schema = Schema::shared();
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

impl Damage for OnServer {
    async fn damage(&self, sql: &str) {
        let other = other_program().await;
        let path = format!("SET search_path = \"{}\"; {sql}", self.schema.0);
        other.batch_execute(&path).await.expect("the rows are changed");
    }
}

#[tokio::test]
async fn a_check_finds_each_damage() {
    finds_each_damage::<OnServer>().await;
}

perdure_provider_contract::suite!(OnServer);
