//! Stores of an older version are migrated to the newest while workers of that version go on.

mod common;

use std::time::Duration;

use perdure_provider_postgres::{Pooler, PostgresOptions, PostgresProvider};

use common::{Schema, options, other_program, url};

const OLDER: [&str; 4] = [
    include_str!("../src/migrations/0001_first.sql"),
    include_str!("../src/migrations/0002_task_order.sql"),
    include_str!("../src/migrations/0003_revocations.sql"),
    include_str!("../src/migrations/0004_about.sql"),
];

/// Makes a store of version 4, with an instance.
async fn older(schema: &Schema) -> tokio_postgres::Client {
    let client = other_program().await;
    let quoted = format!("\"{}\"", schema.0);
    let steps = OLDER
        .join("\n")
        .replace("{keys}", &format!("'{quoted}.instances_keys'"));
    let made = format!(
        "CREATE SCHEMA {quoted}; SET search_path = {quoted};
         CREATE TABLE schema_version (version integer NOT NULL); INSERT INTO schema_version VALUES (4); {}; {}",
        steps.replace("{schema}", &quoted),
        instance("before")
    );
    client.batch_execute(&made).await.expect("the older store is made");
    client
}

fn instance(id: &str) -> String {
    format!(
        "INSERT INTO instances (id, name, version, execution, status, epoch, next_event_id, turns, priority, created_at, updated_at)
         VALUES ('{id}', 'flow', '1', 1, 'Running', 1, 2, 1, 0, 0, 0)"
    )
}

async fn count(client: &tokio_postgres::Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("it is answered").get(0)
}

const VALID: &str = "SELECT count(*) FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
  WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND x.indisvalid
    AND c.relname IN ('instances_troubled', 'instances_children')";

/// The build of an index waits for a transaction that has written. Others write meanwhile. Behind a plain
/// `CREATE INDEX` they waited.
#[tokio::test(flavor = "multi_thread")]
async fn workers_of_the_older_version_write_while_an_index_is_built() {
    let schema = Schema::new();
    let long = older(&schema).await;
    let worker = other_program().await;
    let set = format!("SET search_path = \"{}\"; SET lock_timeout = '5s'", schema.0);
    worker.batch_execute(&set).await.unwrap();
    long.batch_execute(&format!("BEGIN; {}", instance("long")))
        .await
        .unwrap();
    let connecting = tokio::spawn({
        let options = options(&schema);
        async move { PostgresProvider::connect(&url(), options).await }
    });
    let builds = "SELECT count(*) FROM pg_locks l WHERE l.relation = 'instances'::regclass AND l.mode LIKE 'Share%' AND l.mode <> 'ShareLock'
      AND l.pid <> pg_backend_pid() OR l.relation = 'instances'::regclass AND l.mode = 'ShareLock'";
    while count(&worker, builds).await == 0 {
        assert!(
            !connecting.is_finished(),
            "it waits for the transaction that has written"
        );
        tokio::task::yield_now().await;
    }
    for number in 0..20 {
        let written = worker.batch_execute(&instance(&format!("meanwhile {number}"))).await;
        written.expect("a worker writes while the index is built");
    }
    assert!(!connecting.is_finished(), "the index is still being built");
    long.batch_execute("COMMIT").await.unwrap();
    let store = tokio::time::timeout(Duration::from_secs(60), connecting)
        .await
        .expect("it ends");
    let store = store.unwrap().expect("the store is migrated");
    assert_eq!(count(&worker, VALID).await, 2);
    assert_eq!(count(&worker, "SELECT version::bigint FROM schema_version").await, 6);
    assert_eq!(count(&worker, "SELECT count(*) FROM instances").await, 22);
    perdure_provider::Provider::close(&store).await;
}

/// Makes the index that a broken build leaves behind.
const BROKEN: &str = "CREATE INDEX instances_troubled ON instances (status, created_at, key)
    WHERE status IN ('Suspended', 'Failed', 'Cancelled', 'Terminated');
  UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'instances_troubled'::regclass";

#[tokio::test]
async fn an_invalid_index_is_built_again() {
    let schema = Schema::new();
    let other = older(&schema).await;
    other.batch_execute(BROKEN).await.unwrap();
    assert_eq!(count(&other, VALID).await, 0);
    let store = PostgresProvider::connect(&url(), options(&schema))
        .await
        .expect("the store is migrated");
    assert_eq!(count(&other, VALID).await, 2);
    perdure_provider::Provider::close(&store).await;
}

/// Behind a pooler, the transaction of a migration builds the indexes itself.
#[tokio::test]
async fn an_invalid_index_is_built_again_without_a_session() {
    let schema = Schema::new();
    let other = older(&schema).await;
    other.batch_execute(BROKEN).await.unwrap();
    let pooled = PostgresOptions {
        pooler: Some(Pooler::Transaction),
        ..options(&schema)
    };
    let store = PostgresProvider::connect(&url(), pooled)
        .await
        .expect("the store is migrated");
    assert_eq!(count(&other, VALID).await, 2);
    perdure_provider::Provider::close(&store).await;
}

/// One process builds, and the others find it done.
#[tokio::test(flavor = "multi_thread")]
async fn six_at_once_migrate_once() {
    let schema = Schema::new();
    let other = older(&schema).await;
    let mut connecting = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let options = options(&schema);
        connecting.spawn(async move { PostgresProvider::connect(&url(), options).await });
    }
    for store in connecting.join_all().await {
        perdure_provider::Provider::close(&store.expect("each of them connects")).await;
    }
    assert_eq!(count(&other, VALID).await, 2);
}
