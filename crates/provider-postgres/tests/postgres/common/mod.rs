//! Stores for the tests of this crate. Each has a schema of its own on one server.

pub(crate) mod lossy_proxy;

use std::sync::Arc;

use perdure_provider::Clock;
use perdure_provider_postgres::{Pooler, PostgresOptions, PostgresProvider};

/// URL of the server: `PERDURE_TEST_POSTGRES_URL`, or one on this machine.
pub(crate) fn url() -> String {
    std::env::var("PERDURE_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/postgres".to_owned())
}

/// URL of a pooler in front of that server, `PERDURE_TEST_POOLER_URL` (`scripts/with-pooler.mjs`). Without one, the URL
/// of the server itself.
fn pooled_url() -> String {
    std::env::var("PERDURE_TEST_POOLER_URL").unwrap_or_else(|_| url())
}

/// A schema that is dropped with this value.
pub(crate) struct Schema(pub(crate) String);

impl Schema {
    pub(crate) fn new() -> Self {
        Self(format!("perdure test {}", uuid::Uuid::new_v4().simple()))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let drop_it = format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.0);
        // A test may end on a runtime that cannot wait.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&url(), tokio_postgres::NoTls)
                    .await
                    .expect("the server answers");
                let connection = tokio::spawn(connection);
                client.batch_execute(&drop_it).await.expect("the schema goes");
                drop(client);
                let _ = connection.await;
            });
        });
        let _ = dropped.join();
    }
}

pub(crate) fn options(schema: &Schema) -> PostgresOptions {
    PostgresOptions {
        schema: schema.0.clone(),
        ..PostgresOptions::default()
    }
}

/// Opens a store as behind a pooler in transaction mode that keeps no track of prepared statements.
pub(crate) async fn connect_unlistened(schema: &Schema, clock: Arc<dyn Clock>) -> PostgresProvider {
    let options = PostgresOptions {
        clock: Some(clock),
        notify: Some(false),
        pooler: Some(Pooler::Transaction),
        prepare: Some(false),
        ..options(schema)
    };
    PostgresProvider::connect(&pooled_url(), options)
        .await
        .expect("the store opens")
}

/// Opens a connection of another program.
pub(crate) async fn other_program() -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&url(), tokio_postgres::NoTls)
        .await
        .expect("the server answers");
    tokio::spawn(connection);
    client
}

pub(crate) async fn connect(schema: &Schema, clock: Arc<dyn Clock>) -> PostgresProvider {
    let options = PostgresOptions {
        clock: Some(clock),
        ..options(schema)
    };
    PostgresProvider::connect(&url(), options)
        .await
        .expect("the store opens")
}
