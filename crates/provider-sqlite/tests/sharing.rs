//! Sharing: transactions between callers, and a file between processes.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use perdure_engine::EventId;
use perdure_provider::{Outcome, Provider, Write};
use perdure_provider_sqlite::{SqliteProvider, SqliteStats};
use rusqlite::Connection;

use common::{Directory, commit, manual_clock, open, start, started, system_clock};

/// Creates a start with an event that may not be its first, so that its batch is refused.
fn bad_start() -> Write {
    let Write::Start(mut instance) = start("bad") else {
        unreachable!("it is a start")
    };
    instance.first_event.event_id = EventId(2);
    Write::Start(instance)
}

/// Keeps the writer in an answer until the returned sender is dropped.
fn hold_writer(store: &SqliteProvider) -> mpsc::Sender<()> {
    let (hold, held) = mpsc::channel::<()>();
    let (reached, at) = mpsc::channel();
    let done = Box::new(move |_| {
        reached.send(()).expect("the test waits");
        let _ = held.recv();
    });
    store.commit(Arc::new(Vec::new()), done);
    at.recv().expect("the writer answers");
    hold
}

#[test]
fn waiting_jobs_are_one_transaction() {
    let directory = Directory::new();
    let store = open(&directory.join("store.db"), manual_clock());
    let hold = hold_writer(&store);
    let before = store.stats();
    let answers: Vec<_> = (0..1_000)
        .map(|n| commit(&store, vec![start(&n.to_string())]))
        .collect();
    drop(hold);
    answers.iter().for_each(started);
    let SqliteStats { transactions, jobs } = store.stats();
    assert_eq!((transactions - before.transactions, jobs - before.jobs), (1, 1_000));
}

#[test]
fn a_transaction_has_a_limit() {
    let directory = Directory::new();
    let store = open(&directory.join("store.db"), manual_clock());
    let hold = hold_writer(&store);
    let before = store.stats().transactions;
    let answers: Vec<_> = (0..3_000)
        .map(|n| commit(&store, vec![start(&n.to_string())]))
        .collect();
    drop(hold);
    answers.iter().for_each(started);
    assert_eq!(store.stats().transactions - before, 3);
}

/// A job that fails costs the jobs of its transaction one more transaction each, once, and nothing else.
#[test]
fn a_failing_job_fails_no_other() {
    let directory = Directory::new();
    let store = open(&directory.join("store.db"), manual_clock());
    let hold = hold_writer(&store);
    let before = store.stats().transactions;
    let good: Vec<_> = (0..10).map(|n| commit(&store, vec![start(&n.to_string())])).collect();
    let bad = commit(&store, vec![start("with the bad one"), bad_start()]);
    let later: Vec<_> = (10..20).map(|n| commit(&store, vec![start(&n.to_string())])).collect();
    drop(hold);
    good.iter().chain(&later).for_each(started);
    bad.recv()
        .expect("a batch is answered")
        .expect_err("the batch is refused");
    assert_eq!(store.stats().transactions - before, 20);
}

/// The listeners are told only of commits of others: a busy program must not keep asking the store for news.
#[test]
fn own_commits_are_no_foreign_change() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, manual_clock());
    let foreign = Arc::new(AtomicBool::new(false));
    let spurious = Arc::new(AtomicU32::new(0));
    let (tell, told) = mpsc::channel();
    let (seen, count) = (Arc::clone(&foreign), Arc::clone(&spurious));
    store.on_foreign_change(Box::new(move |_| {
        if seen.load(Ordering::SeqCst) {
            let _ = tell.send(());
        } else {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }));
    for n in 0..300 {
        started(&commit(&store, vec![start(&n.to_string())]));
    }
    foreign.store(true, Ordering::SeqCst);
    Connection::open(&path)
        .unwrap()
        .execute_batch("UPDATE instances SET priority = 1 WHERE id = '7'")
        .unwrap();
    told.recv().expect("the change is told");
    assert_eq!(spurious.load(Ordering::SeqCst), 0);
}

/// The provider waits for the lock of another process, and the caller gets no error.
#[test]
fn a_locked_file_is_waited_for() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, manual_clock());
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM workers").unwrap();
    let answers: Vec<_> = (0..10).map(|n| commit(&store, vec![start(&n.to_string())])).collect();
    assert!(
        answers[0].try_recv().is_err(),
        "nothing is answered before it is written"
    );
    other.execute_batch("COMMIT").unwrap();
    answers.iter().for_each(started);
}

/// Two processes write as fast as they can: no call fails, and every acknowledged write is there.
#[test]
fn two_handles_write_at_once() {
    const WRITES: u32 = 300;
    let directory = Directory::new();
    let path = directory.join("store.db");
    let stores: Vec<_> = (0..2).map(|_| Arc::new(open(&path, system_clock()))).collect();
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let store = Arc::clone(&stores[n % 2]);
            thread::spawn(move || (0..WRITES).for_each(|m| started(&commit(&store, vec![start(&format!("{n}-{m}"))]))))
        })
        .collect();
    for writer in writers {
        writer.join().expect("every write is acknowledged");
    }
    drop(stores);
    let raw = Connection::open(&path).unwrap();
    let count = |sql| raw.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM instances"), 8 * WRITES);
    assert_eq!(count("SELECT count(*) FROM history"), 8 * WRITES);
    assert_eq!(
        raw.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
            .unwrap(),
        "ok"
    );
}

/// A drop finishes the work as `close` does, for a caller that has no time to wait.
#[test]
fn dropping_a_store_finishes_pending_batches() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, manual_clock());
    let answers: Vec<_> = (0..100).map(|n| commit(&store, vec![start(&n.to_string())])).collect();
    drop(store);
    answers.iter().for_each(started);
    assert!(!directory.join("store.db-wal").exists(), "no connection is left");
}

/// The writer thread cannot wait for its own end.
#[test]
fn a_store_may_be_dropped_by_an_answer() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = Arc::new(open(&path, manual_clock()));
    let hold = hold_writer(&store);
    let (dropped, end) = mpsc::channel();
    let last = Arc::clone(&store);
    let done = Box::new(move |_| {
        drop(last);
        dropped.send(()).expect("the test waits");
    });
    store.commit(Arc::new(vec![start("a")]), done);
    drop(store);
    drop(hold);
    end.recv().expect("the answer comes to its end");
    // The second store waits for the lock, if the thread has not let go of the file yet.
    let store = open(&path, manual_clock());
    assert!(matches!(commit(&store, vec![start("a")]).recv(), Ok(Ok(outcomes)) if outcomes == [Outcome::Exists]));
}
