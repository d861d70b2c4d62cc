//! Rows that another program changed: they are reported, and hold up no other instance.

use std::sync::Arc;

use perdure_provider::{
    Acquire, AcquiredInstance, Load, ManualClock, PageLimit, Provider, ProviderErrorKind as Kind, Queues,
    SessionLimits, Status, TaskRequest, WorkerId, Write,
};
use perdure_provider_contract::{instance, new_worker};
use perdure_provider_postgres::PostgresProvider;

use crate::common::{Schema, commit, connect, other_program};

const TEN: PageLimit = PageLimit::rows(10);

/// Changes of one row of the instance `bad`.
const DAMAGES: [&str; 7] = [
    "UPDATE {instances} SET epoch = -7 WHERE id = 'bad'",
    "UPDATE {instances} SET execution = -1 WHERE id = 'bad'",
    "UPDATE {instances} SET next_event_id = -9223372036854775808 WHERE id = 'bad'",
    "UPDATE {instances} SET next_event_id = 0 WHERE id = 'bad'",
    "UPDATE {instances} SET turns = -1 WHERE id = 'bad'",
    "UPDATE {history} SET ref_id = -1 WHERE instance_key = (SELECT key FROM {instances} WHERE id = 'bad')",
    "INSERT INTO {tasks} (instance_key, execution, event_id, attempt, queue, name, priority, due_at)
       SELECT key, 1, 1, -1, 'default', 'act', 0, 0 FROM {instances} WHERE id = 'bad'",
];

#[tokio::test]
async fn an_instance_with_an_impossible_row_is_told_of_alone() {
    for damage in DAMAGES {
        let schema = Schema::new();
        let store = connect(&schema, Arc::new(ManualClock::new(1_000))).await;
        for id in ["bad", "good"] {
            start(&store, id).await;
        }
        apply(damage, &schema).await;

        let worker = WorkerId("w".into());
        store.register_worker(new_worker("w")).await.expect("it is registered");
        let tasks = TaskRequest {
            worker: worker.clone(),
            queues: Queues::Named(vec!["default".into()]),
            names: vec!["act".into()],
            limit: TEN,
            sessions: SessionLimits {
                max: 10,
                idle_ms: 1_000,
            },
        };
        let tasks = store.acquire_tasks(tasks).await.expect("it is answered");
        assert_eq!(tasks.tasks, []);
        let (acquired, readable) = acquire_and_load(&store, worker, damage).await;
        if damage.contains("{tasks}") {
            assert_eq!(readable, ["bad", "good"], "{damage}");
        } else {
            assert_eq!(readable, ["good"], "{damage}");
        }
        if acquired == 1 {
            match store.statuses(vec!["bad".into()]).await {
                Ok(statuses) => assert_eq!(statuses[0].as_ref().map(|bad| bad.status), Some(Status::Suspended)),
                Err(error) => assert_eq!(error.kind, Kind::Corrupt, "{error}"),
            }
        }
        store.close().await;
    }
}

async fn start(store: &PostgresProvider, id: &str) {
    let writes = vec![Write::Start(Box::new(instance(id)))];
    commit(store, writes).await.expect("it is written");
}

async fn apply(damage: &str, schema: &Schema) {
    let mut sql = damage.to_owned();
    for table in ["instances", "history", "tasks"] {
        sql = sql.replace(&format!("{{{table}}}"), &format!("\"{}\".{table}", schema.0));
    }
    other_program().await.batch_execute(&sql).await.expect("it is let in");
}

/// Acquires the due instances. Returns their number, and the ids of those that can be loaded.
async fn acquire_and_load(store: &PostgresProvider, worker: WorkerId, damage: &str) -> (usize, Vec<String>) {
    let model = instance("good");
    let work = Acquire {
        worker,
        registered: vec![(model.name, model.version)],
        limit: TEN,
        history_page: TEN,
        left_ms: 0,
        looked: false,
    };
    let acquired = store.acquire(work).await;
    let acquired = acquired.unwrap_or_else(|error| panic!("{damage}: {error}"));
    let load = Load {
        instances: acquired.instances.iter().map(AcquiredInstance::to_load).collect(),
        history_page: TEN,
        message_page: TEN,
    };
    let loaded = store.load(load).await.expect("it is answered");
    let mut readable = Vec::new();
    for (instance, loaded) in acquired.instances.iter().zip(loaded) {
        match loaded {
            Ok(_) => readable.push(instance.id.clone()),
            Err(error) => assert_eq!(error.kind, Kind::Corrupt, "{error}"),
        }
    }
    (acquired.instances.len(), readable)
}
