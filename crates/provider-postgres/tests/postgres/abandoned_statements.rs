//! Statements that the server carries out after their caller has given them up: one that waited for a lock when its
//! connection was cut or its time was over, and one that a proxy delivers late. A call that has failed must not take
//! effect then, and a call that was acknowledged must have taken effect once.

use std::time::Duration;

use perdure_engine::MessageSeq;
use perdure_provider::{CommitOutcome, Outcome, Provider, ProviderError, ProviderErrorKind, Write};
use tokio::time::timeout;

use crate::common::lossy_proxy::{COMMITTED, Cut, Store, message, turns};
use crate::common::other_program;

/// The lock of an index build on a table, and that of a migration.
const LOCKS: [&str; 2] = ["SHARE", "ACCESS EXCLUSIVE"];

/// A table that another program has locked.
struct Locked<'s> {
    store: &'s Store,
    holder: tokio_postgres::Client,
    table: String,
}

impl<'s> Locked<'s> {
    async fn table(store: &'s Store, mode: &str) -> Self {
        let table = format!("\"{}\".instances", store.schema.0);
        let holder = other_program().await;
        let lock = format!("BEGIN; LOCK TABLE {table} IN {mode} MODE");
        holder.batch_execute(&lock).await.expect("it is locked");
        Self { store, holder, table }
    }

    /// Returns the number of backends that wait for a lock.
    async fn waiting(&self) -> i64 {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position('{}' IN query) > 0",
            self.store.schema.0
        );
        self.store.count(&waiting).await
    }

    async fn until_waiting(&self, count: i64) {
        let wait = async { while self.waiting().await != count {} };
        if timeout(Duration::from_secs(30), wait).await.is_err() {
            // The drop of the schema waits behind that.
            self.holder.batch_execute("ROLLBACK").await.expect("it is released");
            panic!("{count} never wait for a lock");
        }
    }

    /// Releases the table. Returns when all statements that waited for it have been carried out: locks are given in the
    /// order in which they were asked for.
    async fn release(self) {
        let last = other_program().await;
        let lock = format!("BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE; COMMIT", self.table);
        // A statement that waits before it may end by itself meanwhile.
        let queued = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
        AND query LIKE 'BEGIN; LOCK TABLE {schema}.%'";
        let last = tokio::spawn(async move { last.batch_execute(&lock).await });
        while self.store.count(queued).await == 0 {}
        self.holder.batch_execute("COMMIT").await.expect("it is released");
        last.await.expect("it runs").expect("it is locked");
    }
}

/// Asserts that nothing of the batch is in the store, and nothing will be.
fn assert_not_committed(answer: &Result<Vec<Outcome>, ProviderError>) {
    let failed = answer.as_ref().expect_err("it is not written");
    assert!(failed.retryable(), "{failed}");
    assert_eq!(failed.outcome, CommitOutcome::NotCommitted, "{failed}");
}

impl Store {
    async fn messages(&self) -> i64 {
        self.count("SELECT count(*) FROM {schema}.messages").await
    }

    async fn instances(&self) -> i64 {
        self.count("SELECT count(*) FROM {schema}.instances").await
    }
}

/// Opens a store with prepared statements. The first statement of each kind on a connection prepares it, so that only
/// the statement itself waits later.
async fn prepared() -> Store {
    prepare(Store::open().await).await
}

async fn prepare(store: Store) -> Store {
    store.started("a").await;
    store.batch(vec![message("a")]).await.expect("it is written");
    store
}

#[tokio::test]
async fn a_statement_that_waited_for_a_lock_when_its_connection_was_cut_never_comes_to_pass() {
    for mode in LOCKS {
        for what in ["message", "start"] {
            let store = prepared().await;
            let write = || match what {
                "message" => message("a"),
                _ => store.start("b"),
            };
            let locked = Locked::table(&store, mode).await;
            let cut = async {
                locked.until_waiting(1).await;
                store.proxy.break_all();
            };
            let (lost, ()) = tokio::join!(store.batch(vec![write()]), cut);
            assert_not_committed(&lost);
            locked.release().await;
            assert_eq!((store.messages().await, store.instances().await), (1, 1), "{what}");
            // The repeated write is written once.
            store.batch(vec![write()]).await.expect("it is written");
            assert_eq!(store.messages().await + store.instances().await, 3, "{what}");
            store.provider.close().await;
        }
    }
}

/// The server's limits would leave the statement there for longer than this test waits.
#[tokio::test]
async fn a_statement_that_was_given_up_is_cancelled_when_it_is_known_not_to_commit() {
    let store = prepare(Store::open_patient().await).await;
    for write in [message("a"), store.start("b")] {
        let locked = Locked::table(&store, "ACCESS EXCLUSIVE").await;
        let cut = async {
            locked.until_waiting(1).await;
            store.proxy.break_all();
        };
        let (lost, ()) = tokio::join!(store.batch(vec![write]), cut);
        assert_not_committed(&lost);
        locked.until_waiting(0).await;
        locked.release().await;
    }
    store.provider.close().await;
}

/// Only the client ends the statement: its own time is over before that of the server.
#[tokio::test]
async fn a_statement_whose_client_waits_no_longer_is_cancelled() {
    let store = prepare(Store::open_patient().await).await;
    let locked = Locked::table(&store, "SHARE").await;
    assert_not_committed(&store.batch(vec![message("a")]).await);
    locked.until_waiting(0).await;
    locked.release().await;
    assert_eq!(store.messages().await, 1);
    store.provider.close().await;
}

async fn lose_by_time(store: Store, write: Write) {
    let locked = Locked::table(&store, "SHARE").await;
    let lost = store.batch(vec![write]).await;
    locked.release().await;
    assert_not_committed(&lost);
    assert_eq!((store.messages().await, store.instances().await), (1, 1));
    store.provider.close().await;
}

#[tokio::test]
async fn a_message_whose_time_was_over_never_comes_to_pass() {
    lose_by_time(prepared().await, message("a")).await;
}

#[tokio::test]
async fn a_start_whose_time_was_over_never_comes_to_pass() {
    let store = prepared().await;
    let start = store.start("b");
    lose_by_time(store, start).await;
}

#[tokio::test]
async fn a_statement_that_is_delivered_late_never_comes_to_pass() {
    let store = prepared().await;
    assert_not_committed(&store.cut(Cut::Late, vec![message("a")]).await);
    store.proxy.deliver().await;
    assert_eq!(store.messages().await, 1);
    // The connection was made anew, and this start prepares the statement.
    store.started("b").await;
    assert_not_committed(&store.cut(Cut::Late, vec![store.start("c")]).await);
    store.proxy.deliver().await;
    assert_eq!(store.instances().await, 2);
    store.provider.close().await;
}

/// A turn has no mark. It is written again, and its fence keeps the late one from being written, too.
#[tokio::test]
async fn a_turn_that_is_delivered_late_is_written_once() {
    let store = Store::open().await;
    let key = store.started("a").await;
    assert_eq!(store.batch(turns([store.turn(key, 2)])).await, Ok(vec![COMMITTED]));
    let again = store.cut(Cut::Late, turns([store.turn(key, 3)])).await;
    assert_eq!(again, Ok(vec![COMMITTED]));
    store.proxy.deliver().await;
    assert_eq!(store.events().await, 3);
    assert_eq!(store.batch(turns([store.turn(key, 4)])).await, Ok(vec![COMMITTED]));
    store.provider.close().await;
}

/// The transaction is open, and its `COMMIT` is on the proxy. That decides, and the outcome is waited for.
#[tokio::test]
async fn a_commit_that_is_delivered_late_decides() {
    let store = prepared().await;
    let two = || vec![message("a"), message("a")];
    let waits =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}.marks%'";
    for is_delivered in [true, false] {
        let before = store.messages().await;
        let decide = async {
            while store.count(waits).await == 0 {}
            if is_delivered {
                store.proxy.deliver().await;
            } else {
                store.proxy.lose();
            }
        };
        let (answer, ()) = tokio::join!(store.cut(Cut::LateCommit, two()), decide);
        if is_delivered {
            assert!(answer.is_ok(), "{answer:?}");
            assert_eq!(store.messages().await, before + 2);
        } else {
            assert_not_committed(&answer);
            assert_eq!(store.messages().await, before);
        }
    }
    store.provider.close().await;
}

/// While the outcome cannot be found out, the caller gets no answer. When it never can be, the answer is that it is
/// unknown.
#[tokio::test]
async fn an_outcome_that_cannot_be_found_is_reported_as_unknown() {
    let store = prepared().await;
    let marks = format!("LOCK TABLE \"{}\".marks IN ACCESS EXCLUSIVE MODE", store.schema.0);
    let holder = other_program().await;
    holder
        .batch_execute(&format!("BEGIN; {marks}"))
        .await
        .expect("it is locked");
    let write = store.cut(Cut::After, vec![message("a")]);
    let close = async {
        let waits =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}.marks%'";
        while store.count(waits).await == 0 {}
        store.proxy.break_all();
        store.provider.close().await;
    };
    let (answer, ()) = tokio::join!(write, close);
    let failed = answer.expect_err("it is not known");
    assert_eq!(failed.outcome, CommitOutcome::Unknown, "{failed}");
    holder.batch_execute("COMMIT").await.expect("it is released");
}

/// Each of a hundred writes that was acknowledged is there once, and each that failed is not there, also after all late
/// ones have come.
#[tokio::test]
async fn a_hundred_writes_lost_at_different_moments_are_there_once_or_not_at_all() {
    let store = prepared().await;
    let (mut messages, mut instances) = (1, 1);
    for round in 0_u32..100 {
        // A fixed sequence that does not repeat after a few rounds.
        let chance = round.wrapping_mul(2_654_435_761) >> 24;
        let cut = [Cut::Before, Cut::After, Cut::Late][chance as usize % 3];
        let is_message = chance & 8 == 0;
        // This prepares the statement, so that the cut loses the statement itself.
        let (first, write) = if is_message {
            messages += 1;
            (message("a"), message("a"))
        } else {
            (store.start("a"), store.start(&format!("instance {round}")))
        };
        store.batch(vec![first]).await.expect("it is answered");
        match store.cut(cut, vec![write]).await {
            Ok(_) if is_message => messages += 1,
            Ok(_) => instances += 1,
            failed => assert_not_committed(&failed),
        }
        if chance & 16 == 0 {
            store.proxy.deliver().await;
            assert_eq!(
                (store.messages().await, store.instances().await),
                (messages, instances),
                "round {round}"
            );
        }
    }
    store.proxy.deliver().await;
    assert_eq!((store.messages().await, store.instances().await), (messages, instances));
    // The numbers of messages have no gap that a late message could fill.
    let last = "SELECT message_seq FROM {schema}.instances WHERE id = 'a'";
    assert_eq!(store.count(last).await, messages);
    let next = store.batch(vec![message("a")]).await.expect("it is written");
    let seq = MessageSeq(messages.cast_unsigned() + 1);
    assert!(
        matches!(next[..], [Outcome::Delivered { seq: at, .. }] if at == seq),
        "{next:?}"
    );
    store.provider.close().await;
}

/// The server ends the statement before its client gives up. So the statement is known to have had no effect, and
/// backends do not pile up.
#[tokio::test]
async fn a_statement_that_waits_for_a_lock_is_ended_by_the_server() {
    let store = Store::open().await;
    store.started("a").await;
    let locked = Locked::table(&store, "ACCESS EXCLUSIVE").await;
    let failed = store.batch(vec![message("a")]).await;
    let error = failed.expect_err("the table is locked");
    assert!(error.message.contains("lock timeout"), "{error}");
    assert_eq!(
        (error.kind, error.outcome),
        (ProviderErrorKind::Busy, CommitOutcome::NotCommitted)
    );
    assert_eq!(locked.waiting().await, 0);
    locked.release().await;
    assert_eq!(store.count("SELECT count(*) FROM {schema}.messages").await, 0);
    store.provider.close().await;
}
