//! The end of a handle: all that was handed over has ended by then, and other processes were told what they have to
//! know.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use perdure_provider::{Change, Provider, Write};
use perdure_provider_contract::{instance, new_worker};
use perdure_provider_postgres::PostgresProvider;
use tokio::sync::mpsc::unbounded_channel;

use crate::common::{Schema, commit, options, other_program, url};

async fn store(schema: &Schema) -> PostgresProvider {
    PostgresProvider::connect(&url(), options(schema))
        .await
        .expect("it opens")
}

async fn start(store: &PostgresProvider, id: &str) {
    let writes = vec![Write::Start(Box::new(instance(id)))];
    commit(store, writes).await.expect("it is started");
}

/// A client that drops the schema after closing meets no statement of the store on the server. Such a statement might
/// wait for the drop, and the drop for the statement.
#[tokio::test(flavor = "multi_thread")]
async fn closing_waits_for_abandoned_statements() {
    let schema = Schema::new();
    let store = store(&schema).await;
    let (holder, looker) = (other_program().await, other_program().await);
    let lock = format!("BEGIN; LOCK TABLE \"{}\".instances IN ACCESS EXCLUSIVE MODE", schema.0);
    holder.batch_execute(&lock).await.expect("it is locked");
    let waits = format!(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '\"{}\".instances'::regclass",
        schema.0
    );
    let waiting = async || -> i64 { looker.query_one(&waits, &[]).await.expect("it is asked").get(0) };
    {
        let mut read = store.stats();
        while waiting().await == 0 {
            tokio::select! {
                biased;
                _ = &mut read => panic!("the table is locked"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let mut closing = pin!(store.close());
    for _ in 0..20 {
        tokio::select! {
            biased;
            () = &mut closing => panic!("the read has not ended"),
            n = waiting() => assert_eq!(n, 1),
        }
    }
    holder.batch_execute("COMMIT").await.expect("it is free");
    closing.await;
    assert_eq!(waiting().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_sent_before_the_end_of_a_close() {
    let schema = Schema::new();
    let (leaving, staying) = (store(&schema).await, store(&schema).await);
    // A look once a second finds that anything may have changed. A notification tells what has changed.
    let (tell, mut told) = unbounded_channel();
    staying.on_foreign_change(Box::new(move |change| {
        let _ = tell.send(change.clone());
    }));
    let started = Change {
        work: true,
        ..Change::default()
    };
    let released = Change {
        work: true,
        tasks: true,
        ..Change::default()
    };
    let worker = new_worker("w");
    leaving.register_worker(worker.clone()).await.expect("it is registered");
    for n in 0.. {
        start(&leaving, &format!("a{n}")).await;
        // Until it listens, it hears no notifications of others.
        if told.recv().await.expect("it lives") == started {
            break;
        }
    }
    // A change right after that is not sent at once.
    leaving.release_worker(&worker.id).await.expect("it is released");
    leaving.close().await;
    drop(leaving);
    while told.recv().await.expect("it lives") != released {}
    staying.close().await;
}

#[tokio::test]
async fn an_answer_is_announced() {
    let schema = Schema::new();
    let store = store(&schema).await;
    let announced = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&announced);
    store.on_answer_coming(Box::new(move || {
        count.fetch_add(1, Ordering::AcqRel);
    }));
    // A single answer may be there before anything waits for it.
    for n in 0.. {
        let before = announced.load(Ordering::Acquire);
        start(&store, &format!("a{n}")).await;
        if announced.load(Ordering::Acquire) > before {
            break;
        }
    }
    store.close().await;
}
