//! Every column of every table, with a value that another program or a disk may have put there. The value is read, or
//! reported as damage, and affects no other instance.

mod common;

use std::path::Path;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{
    Acquire, AcquiredInstance, Filter, InboxPosition, InstanceKey, ListRequest, Load, OverdueRequest, PageLimit,
    Provider, ProviderError, ProviderErrorKind as Kind, Queues, SessionLimits, TaskRequest, WorkerId,
};
use perdure_provider_contract::new_worker;
use perdure_provider_sqlite::SqliteProvider;
use rusqlite::Connection;

use common::{Directory, commit, manual_clock, open, start, started};

const TEN: PageLimit = PageLimit::rows(10);

/// Rows of each table, besides those that a start makes.
const ROWS: &str = r#"
    UPDATE instances SET tags = '{"team":"a"}', parent_id = 'p', parent_key = 7, parent_execution = 1, parent_event = 2,
    custom_status = '1'
        WHERE key = 1;
    INSERT INTO messages (instance_key, kind, name, payload, time, execution, ref_id) VALUES
        (1, 'Event', 'go', '1', 0, NULL, NULL), (1, 'Refused', 'instanceExists', NULL, 0, 1, 2);
    INSERT INTO heartbeats VALUES (1, 1, 2, '5', 1);
    INSERT INTO tasks VALUES (1, 1, 2, 1, 'slow', 'act', 0, 0, 9000, 5, 7000, NULL, NULL, '', NULL);
    INSERT INTO tasks VALUES (1, 1, 3, 1, 'slow', 'act', 0, 0, 9000, NULL, NULL, NULL, 's', '?', NULL);
    INSERT INTO tasks VALUES (1, 1, 4, 1, 'slow', 'act', 0, 0, 9000, NULL, NULL, NULL, 't', 'other', NULL);
    INSERT INTO sessions VALUES ('slow', 't', 'other', 1000, 0);
    INSERT INTO activities VALUES ('act');
    INSERT INTO history VALUES (1, 1, 2, 5, 'ActivityScheduled', NULL, 'act', '1', '{"queue":"slow"}');
    INSERT INTO workers VALUES ('other', 'n', 'h', 5, '1', 900, '{}', '{}');
    UPDATE instances SET next_event_id = 3, unread = 2 WHERE key = 1;
"#;

/// Values of any type for a column. Values that the table itself refuses are left out.
const VALUES: &[&str] = &[
    "NULL",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "'Nonsense'",
    "CAST(x'22FF22' AS TEXT)",
];

fn columns(store: &Connection) -> Vec<(String, String)> {
    let mut statement = store
        .prepare(
            "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%'",
        )
        .expect("it is a statement");
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let found = found.expect("it is answered").collect::<Result<_, _>>();
    found.expect("they are texts")
}

#[track_caller]
fn readable<T>(what: &str, result: Result<T, ProviderError>) {
    if let Err(error) = result {
        assert_eq!(error.kind, Kind::Corrupt, "{what}: {error}");
        assert!(
            !error.message.contains("Nonsense"),
            "no text of a row is shown: {error}"
        );
    }
}

/// Reads everything that a worker and a client read.
async fn read_all(store: &SqliteProvider, what: &str) {
    let (worker, key) = (WorkerId("w".into()), InstanceKey(1));
    readable(what, store.statuses(vec!["a".into()]).await);
    let filter = Filter {
        tags: [("team".to_owned(), "a".to_owned())].into(),
        ..Filter::default()
    };
    for filter in [Filter::default(), filter] {
        let request = ListRequest {
            filter,
            after: None,
            limit: 10,
            walk_max: 10,
        };
        readable(what, store.list(request).await);
    }
    readable(what, Provider::stats(store).await);
    readable(
        what,
        store.read_history(key, ExecutionId::FIRST, EventId::FIRST, TEN).await,
    );
    readable(what, store.read_messages(key, None, TEN).await);
    readable(what, store.workers().await);
    readable(what, store.overdue(OverdueRequest::default()).await);
    readable(what, store.inspect().await);
    readable(what, store.register_worker(new_worker("w")).await);
    readable(what, store.take_over_expired_workers("{}").await);
    let tasks = TaskRequest {
        worker: worker.clone(),
        queues: Queues::Named(vec!["slow".into()]),
        names: vec!["act".into()],
        limit: TEN,
        sessions: SessionLimits {
            max: 10,
            idle_ms: 1_000,
        },
    };
    readable(what, store.acquire_tasks(tasks).await);
    readable(what, store.tasks_of(&worker).await);
    let work = Acquire {
        worker: worker.clone(),
        registered: vec![("flow".into(), "1".into())],
        limit: TEN,
        history_page: TEN,
        left_ms: 0,
        looked: false,
    };
    let acquired = store.acquire(work).await;
    let acquired = acquired.unwrap_or_else(|error| panic!("{what} keeps others from being acquired: {error}"));
    assert!(
        acquired.instances.iter().any(|instance| instance.id == "good"),
        "{what}"
    );
    let load = Load {
        instances: acquired.instances.iter().map(AcquiredInstance::to_load).collect(),
        history_page: TEN,
        message_page: TEN,
    };
    let loaded = store.load(load).await;
    let loaded = loaded.unwrap_or_else(|error| panic!("{what} keeps others from being read: {error}"));
    for (instance, loaded) in acquired.instances.iter().zip(loaded) {
        assert!(instance.id != "good" || loaded.is_ok(), "{what}: {loaded:?}");
        readable(what, loaded);
    }
    readable(what, store.read_inbox(&worker, &InboxPosition::default(), TEN).await);
    readable(what, store.release_worker(&worker).await);
}

/// Damages a copy of the store. Returns false if its tables do not accept the damage.
fn damage(template: &Path, copy: &Path, sql: &str) -> bool {
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", copy.display()));
    }
    std::fs::copy(template, copy).expect("it is copied");
    Connection::open(copy).expect("it opens").execute_batch(sql).is_ok()
}

#[tokio::test]
async fn is_read_or_told() {
    let directory = Directory::new();
    let (template, copy) = (directory.join("template.db"), directory.join("copy.db"));
    let store = open(&template, manual_clock());
    for id in ["a", "good"] {
        started(&commit(&store, vec![start(id)]));
    }
    store.close().await;
    let other = Connection::open(&template).unwrap();
    other.execute_batch(ROWS).unwrap();
    let columns = columns(&other);
    // All data is then in the file, and none in files beside it.
    other.close().unwrap();
    let mut damaged = 0;
    // An instance with another key is another instance, which no read asks for.
    let is_read = |(table, column): &&(String, String)| table != "schema_version" && column != "key";
    for (table, column) in columns.iter().filter(is_read) {
        for value in VALUES {
            let of_one = match &**table {
                "instances" => "WHERE key = 1",
                "history" => "WHERE instance_key = 1",
                _ => "",
            };
            let sql = format!("PRAGMA synchronous = OFF; UPDATE {table} SET {column} = {value} {of_one}");
            if !damage(&template, &copy, &sql) {
                continue;
            }
            damaged += 1;
            let store = open(&copy, manual_clock());
            read_all(&store, &sql).await;
            store.close().await;
        }
    }
    assert!(damaged > 200, "only {damaged} were let in");
}
