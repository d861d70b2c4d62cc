//! Stores for the tests of this crate. Each has a schema of its own on one server.

pub(crate) mod lossy_proxy;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, mpsc};

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
        let is_kept = matches!(self.1, Afterwards::Empty);
        if cleaned_up(&self.0, is_kept) && is_kept && !std::thread::panicking() {
            EMPTY.lock().expect("no test panics with it").push(self.0.clone());
        }
    }
}

/// A schema to clean up, true if it is to be emptied and not dropped, and where to say if that was done.
type CleanUp = (String, bool, mpsc::SyncSender<bool>);

/// The thread that cleans up after all tests. A test may end on a runtime that cannot wait. On a new connection the
/// server would plan the statements anew, and they would take ten times as long.
static CLEANER: LazyLock<mpsc::Sender<CleanUp>> = LazyLock::new(|| {
    let (sender, receiver) = mpsc::channel::<CleanUp>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let mut cleaner = Cleaner {
            client: runtime.block_on(other_program()),
            statements: HashMap::new(),
        };
        for (schema, is_kept, done) in receiver {
            let result = runtime.block_on(async {
                if is_kept {
                    cleaner.empty(&schema).await
                } else {
                    let drop = format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE");
                    cleaner.client.batch_execute(&drop).await
                }
            });
            let _is_awaited = done.send(result.is_ok());
        }
    });
    sender
});

/// Returns true if the schema was emptied or dropped.
fn cleaned_up(schema: &str, is_kept: bool) -> bool {
    let (done, is_done) = mpsc::sync_channel(1);
    CLEANER.send((schema.to_owned(), is_kept, done)).is_ok() && is_done.recv() == Ok(true)
}

struct Cleaner {
    client: tokio_postgres::Client,
    /// For each schema that was emptied before, the statement that locks its tables, and the one that empties them.
    statements: HashMap<String, (String, tokio_postgres::Statement)>,
}

impl Cleaner {
    /// Deletes all rows but those of a new store. Waits for statements that are under way.
    async fn empty(&mut self, schema: &str) -> Result<(), tokio_postgres::Error> {
        if !self.statements.contains_key(schema) {
            let statements = self.prepare(schema).await?;
            self.statements.insert(schema.to_owned(), statements);
        }
        let (lock, delete) = &self.statements[schema];
        let transaction = self.client.transaction().await?;
        transaction.batch_execute(lock).await?;
        transaction.execute(delete, &[]).await?;
        transaction.commit().await
    }

    async fn prepare(&self, schema: &str) -> Result<(String, tokio_postgres::Statement), tokio_postgres::Error> {
        let select = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
            WHERE schemaname = $1 AND tablename NOT IN ('identity', 'schema_version') ORDER BY tablename";
        let rows = self.client.query(select, &[&schema]).await?;
        let tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let lock = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", tables.join(", "));
        let of_each = tables
            .iter()
            .enumerate()
            .map(|(n, table)| format!("d{n} AS (DELETE FROM {table})"));
        let delete = format!("WITH {} SELECT", of_each.collect::<Vec<_>>().join(", "));
        Ok((lock, self.client.prepare(&delete).await?))
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

/// Commits a batch, and waits for its answer.
pub(crate) async fn commit(store: &PostgresProvider, writes: Vec<Write>) -> Result<Vec<Outcome>, ProviderError> {
    let (answer, answered) = oneshot::channel();
    let done = Box::new(move |result| answer.send(result).expect("the caller waits"));
    store.commit(Arc::new(writes), done);
    answered.await.expect("it is answered")
}
