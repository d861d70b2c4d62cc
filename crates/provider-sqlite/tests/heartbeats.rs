//! The row of a heartbeat never outlives its instance.

mod common;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{
    Epoch, Heartbeat, InstanceKey, NewInstance, NewWorker, Newest, Outcome, Provider, Reporter, Terminate, WorkerId,
    Write,
};
use rusqlite::Connection;

use common::{Directory, commit, manual_clock, open, start, started};

#[tokio::test]
async fn a_termination_leaves_none() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, manual_clock());
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
    for id in ["a", "b"] {
        let Write::Start(new) = start(id) else {
            unreachable!("a start is one")
        };
        let claimed = NewInstance {
            claim: Some(worker.clone()),
            ..*new
        };
        started(&commit(&store, vec![Write::Start(Box::new(claimed))]));
    }
    let heartbeat = |key| {
        Write::Heartbeat(Box::new(Heartbeat {
            key: InstanceKey(key),
            worker: worker.clone(),
            by: Reporter::Owner(Epoch(1)),
            execution: ExecutionId::FIRST,
            scheduled: EventId(2),
            details: Some("1".into()),
            time_ms: 1,
        }))
    };
    let termination = Write::Terminate(Terminate {
        id: "a".into(),
        reason: None,
        time_ms: 0,
    });
    let outcomes = commit(&store, vec![heartbeat(1), heartbeat(2), termination, heartbeat(1)]);
    let outcomes = outcomes.recv().expect("it is answered").expect("it is written");
    assert!(matches!(
        outcomes[..],
        [
            Outcome::Noted,
            Outcome::Noted,
            Outcome::Terminated { .. },
            Outcome::Fenced
        ]
    ));
    let left =
        Connection::open(&path)
            .unwrap()
            .query_row("SELECT group_concat(instance_key) FROM heartbeats", [], |row| {
                row.get::<_, String>(0)
            });
    assert_eq!(left, Ok("2".into()), "the other's is still there");
}
