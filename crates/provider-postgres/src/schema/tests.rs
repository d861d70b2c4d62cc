//! A store of the version before is migrated to the next one, which some release may add, while workers go on.

use std::time::Duration;

use super::names::quoted;
use super::*;

/// A migration with a column and two indexes.
const NEXT: &str = "ALTER TABLE {schema}.workers ADD COLUMN region text;
CREATE INDEX IF NOT EXISTS instances_next_a ON {schema}.instances (status, created_at);
CREATE INDEX IF NOT EXISTS instances_next_b ON {schema}.instances (parent_id) WHERE parent_id IS NOT NULL;
";

fn migrations() -> Vec<&'static str> {
    [MIGRATIONS, &[NEXT]].concat()
}

async fn client() -> Client {
    let url = std::env::var("PERDURE_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/postgres".to_owned());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .expect("the server answers");
    tokio::spawn(connection);
    client
}

/// A store of the version before, with an instance. Its schema is dropped with [`Older::end`].
struct Older {
    schema: String,
    client: Client,
}

impl Older {
    async fn new() -> Self {
        let client = client().await;
        let schema = quoted(&format!("perdure test {}", uuid::Uuid::new_v4().simple()));
        migrate(&client, &schema, true).await.expect("the older store is made");
        let older = Self { schema, client };
        older.run(&older.client, &instance("before")).await;
        older
    }

    /// Runs SQL whose tables are named without the schema.
    async fn run(&self, client: &Client, sql: &str) {
        let set = format!("SET search_path = {}; {sql}", self.schema);
        client.batch_execute(&set).await.expect("it is done");
    }

    async fn count(&self, client: &Client, sql: &str) -> i64 {
        client.query_one(sql, &[]).await.expect("it is answered").get(0)
    }

    async fn valid_indexes(&self) -> i64 {
        self.count(&self.client, VALID).await
    }

    async fn migrate(&self, keeps_session: bool) {
        let migrated = migrate_with(&client().await, &self.schema, keeps_session, &migrations()).await;
        migrated.expect("the store is migrated");
    }

    async fn end(self) {
        self.run(&self.client, &format!("DROP SCHEMA {} CASCADE", self.schema))
            .await;
    }
}

fn instance(id: &str) -> String {
    format!(
        "INSERT INTO instances (id, name, version, execution, status, epoch, next_event_id, turns, priority, created_at,
         updated_at)
         VALUES ('{id}', 'flow', '1', 1, 'Running', 1, 2, 1, 0, 0, 0)"
    )
}

const VALID: &str = "SELECT count(*) FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
  WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND x.indisvalid
    AND c.relname IN ('instances_next_a', 'instances_next_b')";

/// The build of an index waits for a transaction that has written. Others write meanwhile. Behind a plain
/// `CREATE INDEX` they waited.
#[tokio::test(flavor = "multi_thread")]
async fn workers_of_the_older_version_write_while_an_index_is_built() {
    let older = Older::new().await;
    let (long, worker) = (client().await, client().await);
    older.run(&worker, "SET lock_timeout = '5s'").await;
    older.run(&long, &format!("BEGIN; {}", instance("long"))).await;
    let migrating = tokio::spawn({
        let schema = older.schema.clone();
        async move { migrate_with(&client().await, &schema, true, &migrations()).await }
    });
    let builds = "SELECT count(*) FROM pg_locks l WHERE l.relation = 'instances'::regclass AND l.mode LIKE 'Share%'
    AND l.mode <> 'ShareLock'
      AND l.pid <> pg_backend_pid() OR l.relation = 'instances'::regclass AND l.mode = 'ShareLock'";
    while older.count(&worker, builds).await == 0 {
        assert!(
            !migrating.is_finished(),
            "it waits for the transaction that has written"
        );
        tokio::task::yield_now().await;
    }
    for number in 0..20 {
        older.run(&worker, &instance(&format!("meanwhile {number}"))).await;
    }
    assert!(!migrating.is_finished(), "the index is still being built");
    older.run(&long, "COMMIT").await;
    let migrated = tokio::time::timeout(Duration::from_secs(60), migrating)
        .await
        .expect("it ends");
    migrated.unwrap().expect("the store is migrated");
    assert_eq!(older.valid_indexes().await, 2);
    assert_eq!(
        stored_version(&worker, &older.schema).await.unwrap(),
        newest(MIGRATIONS) + 1
    );
    assert_eq!(older.count(&worker, "SELECT count(*) FROM instances").await, 22);
    // The release before does not know the new version.
    let refused = version(&worker, &older.schema).await.expect_err("it is newer");
    assert!(refused.to_string().contains("newer Perdure"), "{refused}");
    older.end().await;
}

/// Makes the index that a broken build leaves behind.
const BROKEN: &str = "CREATE INDEX instances_next_a ON instances (status, created_at);
  UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'instances_next_a'::regclass";

/// Behind a pooler, the transaction of a migration builds the indexes itself.
#[tokio::test]
async fn an_invalid_index_is_built_again_with_a_session_and_without_one() {
    for keeps_session in [true, false] {
        let older = Older::new().await;
        older.run(&older.client, BROKEN).await;
        assert_eq!(older.valid_indexes().await, 0);
        older.migrate(keeps_session).await;
        assert_eq!(older.valid_indexes().await, 2);
        older.end().await;
    }
}

/// One process builds, and the others find it done.
#[tokio::test(flavor = "multi_thread")]
async fn six_at_once_migrate_once() {
    let older = Older::new().await;
    let mut migrating = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let schema = older.schema.clone();
        migrating.spawn(async move { migrate_with(&client().await, &schema, true, &migrations()).await });
    }
    for migrated in migrating.join_all().await {
        migrated.expect("each of them finds the newest version");
    }
    assert_eq!(older.valid_indexes().await, 2);
    older.end().await;
}

#[tokio::test]
async fn a_store_that_is_not_to_be_migrated_is_refused() {
    let older = Older::new().await;
    check_newest(&older.client, &older.schema)
        .await
        .expect("it is the newest");
    let next = newest(MIGRATIONS) + 1;
    let refused = not_migrated(next - 1, next);
    assert!(refused.to_string().contains(&format!("version {next}")), "{refused}");
    older.end().await;
}
