//! Stores for the tests of this crate. Each has a schema of its own on one server.

pub(crate) mod lossy_proxy;

use std::sync::{Arc, Mutex};

use perdure_provider::{Clock, Outcome, Provider, ProviderError, Write};
use perdure_provider_postgres::{Pooler, PostgresOptions, PostgresProvider};
use tokio::sync::oneshot;

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

/// Schemas of this run that are empty and that no test uses.
static EMPTY: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A schema that is dropped with this value, or emptied for the next test.
pub(crate) struct Schema(pub(crate) String, Afterwards);

enum Afterwards {
    Drop,
    Empty,
}

impl Schema {
    pub(crate) fn new() -> Self {
        Self::named(format!("perdure test {}", uuid::Uuid::new_v4().simple()))
    }

    pub(crate) fn named(name: String) -> Self {
        Self(name, Afterwards::Drop)
    }

    /// Returns a schema whose tables may be there already, and are empty then. The 90 files of a schema cost more than
    /// most tests. `scripts/with-postgres.mjs` drops the schemas of a run at its end; without it, each test has a new
    /// one.
    pub(crate) fn shared() -> Self {
        let Ok(run) = std::env::var("PERDURE_TEST_RUN") else {
            return Self::new();
        };
        let used = EMPTY.lock().expect("no test panics with it").pop();
        let name = used.unwrap_or_else(|| format!("perdure test {run} {}", uuid::Uuid::new_v4().simple()));
        Self(name, Afterwards::Empty)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let name = &self.0;
        let sql = match self.1 {
            Afterwards::Drop => format!("DROP SCHEMA IF EXISTS \"{name}\" CASCADE"),
            Afterwards::Empty => empty(name),
        };
        // A test may end on a runtime that cannot wait.
        let done = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&url(), tokio_postgres::NoTls)
                    .await
                    .expect("the server answers");
                let connection = tokio::spawn(connection);
                client.batch_execute(&sql).await.expect("the schema is cleaned up");
                drop(client);
                let _ = connection.await;
            });
        });
        if done.join().is_ok() && matches!(self.1, Afterwards::Empty) && !std::thread::panicking() {
            EMPTY.lock().expect("no test panics with it").push(self.0.clone());
        }
    }
}

/// Returns the statement that deletes all rows but those of a new store. It waits for statements that are under way.
fn empty(schema: &str) -> String {
    format!(
        "DO $$
DECLARE tables text[] := ARRAY(
  SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
  WHERE schemaname = '{schema}' AND tablename NOT IN ('identity', 'schema_version') ORDER BY tablename);
DECLARE one text;
BEGIN
  EXECUTE 'LOCK TABLE ' || array_to_string(tables, ', ') || ' IN ACCESS EXCLUSIVE MODE';
  FOREACH one IN ARRAY tables LOOP EXECUTE 'DELETE FROM ' || one; END LOOP;
END $$"
    )
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

/// Commits a batch, and waits for its answer.
pub(crate) async fn commit(store: &PostgresProvider, writes: Vec<Write>) -> Result<Vec<Outcome>, ProviderError> {
    let (answer, answered) = oneshot::channel();
    let done = Box::new(move |result| answer.send(result).expect("the caller waits"));
    store.commit(Arc::new(writes), done);
    answered.await.expect("it is answered")
}
