//! Rows that another program or a disk changed.

mod common;

use perdure_engine::{EventId, ExecutionId, MessageSeq};
use perdure_provider::{
    Acquire, Acquired, AcquiredInstance, InboxPosition, Load, NewWorker, Newest, PageLimit, Provider,
    ProviderErrorKind as Kind, WorkerId,
};
use perdure_provider_sqlite::SqliteProvider;
use rusqlite::Connection;

use common::{Directory, commit, manual_clock, open, start, started};

const TEN: PageLimit = PageLimit::rows(10);

async fn acquire(store: &SqliteProvider) -> Acquired {
    let worker = WorkerId("w".into());
    let new = NewWorker {
        id: worker.clone(),
        name: "w".into(),
        host: "h".into(),
        pid: 1,
        process_start: "1".into(),
        lease_ms: 1_000,
        description: None,
        newest: Newest::default(),
    };
    store.register_worker(new).await.expect("the worker is registered");
    let registered = vec![("flow".into(), "1".into())];
    store
        .acquire(Acquire {
            worker,
            registered,
            limit: TEN,
            history_page: TEN,
            left_ms: 0,
            looked: false,
        })
        .await
        .expect("the store answers")
}

/// The error tells each reader of the instance why, and the work on other instances goes on.
#[tokio::test]
async fn an_instance_with_an_unreadable_row_is_told_of_alone() {
    for (damage, says) in [
        ("UPDATE history SET kind = 'Nonsense'", "event 1 "),
        ("UPDATE history SET payload = CAST(x'22FF22' AS TEXT)", "event 1 "),
        ("UPDATE history SET event_id = 2", "event 1 "),
        ("DELETE FROM history", "some of them are missing"),
        (
            "INSERT INTO messages (instance_key, kind, time) VALUES (1, 'Nonsense', 0)",
            "message 1",
        ),
        (
            "INSERT INTO messages (instance_key, kind, name, payload, time)
             VALUES (1, 'Event', 'go', CAST(x'FF' AS TEXT), 0)",
            "message 1",
        ),
        (
            "INSERT INTO heartbeats VALUES (1, 1, 2, CAST(x'FF' AS TEXT), 1)",
            "damaged",
        ),
        (
            "INSERT INTO messages (instance_key, kind, time) VALUES (1, 'Queue', 0)",
            "message 1",
        ),
    ] {
        let directory = Directory::new();
        let path = directory.join("store.db");
        let store = open(&path, manual_clock());
        started(&commit(&store, vec![start("bad")]));
        Connection::open(&path).unwrap().execute_batch(damage).unwrap();
        started(&commit(&store, vec![start("good")]));
        let acquired = acquire(&store).await;
        let load = Load {
            instances: acquired.instances.iter().map(AcquiredInstance::to_load).collect(),
            history_page: TEN,
            message_page: TEN,
        };
        let loaded = store.load(load).await.unwrap();
        let [bad, good] = &loaded[..] else {
            panic!("{damage}: {loaded:?}")
        };
        assert!(good.is_ok(), "{damage}: {good:?}");
        let Err(error) = bad else {
            panic!("{damage} is not found")
        };
        assert_eq!(error.kind, Kind::Corrupt);
        assert!(
            error.message.contains(says),
            "{damage}: '{error}' does not say '{says}'"
        );
        assert!(
            !error.message.contains("Nonsense"),
            "no text of a row is shown: {error}"
        );
        store.close().await;
    }
}

#[tokio::test]
async fn a_message_that_is_unreadable_in_the_inbox_hides_no_other() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, manual_clock());
    for id in ["bad", "good"] {
        started(&commit(&store, vec![start(id)]));
    }
    let owned = acquire(&store).await.instances;
    let insert =
        "INSERT INTO messages (instance_key, kind, name, time) VALUES (1, 'Nonsense', 'go', 0), (2, 'Event', 'go', 0)";
    Connection::open(&path).unwrap().execute_batch(insert).unwrap();
    let inbox = store
        .read_inbox(&WorkerId("w".into()), &InboxPosition::default(), TEN)
        .await
        .unwrap();
    let found: Vec<_> = inbox
        .messages
        .into_iter()
        .map(|(key, message)| (key, message.map(|message| message.seq)))
        .collect();
    assert_eq!(
        found,
        [(owned[0].key, Err(MessageSeq(1))), (owned[1].key, Ok(MessageSeq(2)))]
    );
    let error = store.read_messages(owned[0].key, None, TEN).await.unwrap_err();
    assert_eq!(error.kind, Kind::Corrupt);
    assert!(error.message.contains("message 1"), "{error}");
    store.close().await;
}

#[tokio::test]
async fn an_unreadable_event_is_named() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, manual_clock());
    started(&commit(&store, vec![start("a")]));
    let key = acquire(&store).await.instances[0].key;
    Connection::open(&path)
        .unwrap()
        .execute_batch("UPDATE history SET kind = 'Nonsense'")
        .unwrap();
    let error = store
        .read_history(key, ExecutionId::FIRST, EventId::FIRST, TEN)
        .await
        .unwrap_err();
    assert_eq!(error.kind, Kind::Corrupt);
    for says in ["event 1", path.to_str().unwrap()] {
        assert!(error.message.contains(says), "{error}");
    }
    store.close().await;
}

/// Pages that are destroyed while the store is open are reported when they are read, as damage and not as a defect.
#[tokio::test]
async fn a_page_that_is_destroyed_later_is_told() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, manual_clock());
    started(&commit(&store, vec![start("a")]));
    store.close().await;
    let store = open(&path, manual_clock());
    let length = std::fs::metadata(&path).unwrap().len() as usize;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4_096..].fill(0xA5);
    // The file is overwritten in place, because the open connections keep it.
    use std::io::{Seek, Write};
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.rewind().unwrap();
    file.write_all(&bytes[..length]).unwrap();
    let error = store.statuses(vec!["a".into()]).await.unwrap_err();
    assert_eq!(error.kind, Kind::Corrupt, "{error}");
    store.close().await;
}
