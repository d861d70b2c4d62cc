//! Histories of several pages: the times at which they are read.

use std::sync::LazyLock;
use std::time::Duration;

use perdure_engine::{Mailbox, MessageBody};
use perdure_provider::{InstanceKey, ProviderErrorKind, Status};

use crate::support::{Call, Fixture, Op, answer};
use perdure_runtime::RuntimeOptions;
use perdure_runtime::internals::limits::{HISTORY_PAGE, LOAD_BYTES_MAX, NO_MEMORY_PATIENCE, TOGETHER_PATIENCE};

/// Two pages and one event.
const STEPS: usize = HISTORY_PAGE.rows;

static LONG: LazyLock<Vec<Op>> = LazyLock::new(|| {
    let mut script = vec![Op::Activity("a"); STEPS];
    script.push(Op::Event("go"));
    script
});

/// Returns a worker that comes after the one that has done all the steps of an instance. It has acquired the instance
/// because the awaited event came, and its thread has not looked yet.
async fn replaying(prepare: impl FnOnce(&Fixture)) -> Fixture {
    let mut before = Fixture::started(RuntimeOptions::default(), &LONG).await;
    before.start("i").await;
    for _ in 0..STEPS {
        before.complete("a").await;
    }
    before.shut_down(Duration::ZERO).await;
    let mut after = before.beside(RuntimeOptions::default());
    after.script("main", &LONG);
    after.begin().await;
    prepare(&after);
    let told = after.ask_event("i", "go");
    after.hang(0).await;
    assert_eq!(told.take(), Some(Ok(())));
    assert_eq!(after.runtime.map_sizes().instances, 1, "it is acquired");
    assert!(after.turns.is_empty());
    after
}

#[tokio::test(start_paused = true)]
async fn the_next_page_is_read_while_the_one_before_is_replayed() {
    let mut f = replaying(|_| {}).await;
    // The first page came with the instance.
    assert_eq!(f.memory.history_reads(), 1);
    f.settle().await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.memory.history_reads(), 2, "each page once");
    assert!(f.attempts.is_empty());
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_page_that_comes_late_is_waited_for() {
    let mut f = replaying(|f| f.memory.hold(Call::History)).await;
    f.settle().await;
    assert_eq!((f.turns.len(), f.memory.history_reads()), (1, 1));
    f.memory.resume(Call::History);
    f.settle().await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.memory.history_reads(), 2);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_page_that_cannot_be_read_suspends_its_instance_when_the_replay_comes_to_it() {
    let mut f = replaying(|f| f.memory.fail(Call::History, ProviderErrorKind::Corrupt, 1)).await;
    assert_eq!(f.memory.get("i").status, Status::Running);
    f.settle().await;
    assert_eq!(f.memory.get("i").status, Status::Suspended);
    assert_eq!(f.turns.len(), 1, "the first page was replayed");
}

#[tokio::test(start_paused = true)]
async fn the_page_of_an_instance_that_is_gone_is_not_waited_for() {
    let mut f = replaying(|f| f.memory.hold(Call::History)).await;
    f.terminate("i").await;
    f.assert_empty();
    f.memory.resume(Call::History);
    f.settle().await;
    assert_eq!(f.memory.history_reads(), 1);
    f.assert_empty();
}

/// Each instance has read a message of 4 MiB and waits for another one.
#[tokio::test(start_paused = true)]
async fn many_large_histories_are_read_as_they_are_replayed() {
    const COUNT: usize = 24;
    const SIZE: usize = 4 * 1024 * 1024;
    let script = &[Op::Event("large"), Op::Activity("a")];
    let mut before = Fixture::started(RuntimeOptions::default(), script).await;
    let ids: Vec<String> = (0..COUNT).map(|n| n.to_string()).collect();
    for id in &ids {
        before.start(id).await;
        let body = MessageBody::Mail {
            mailbox: Mailbox::Event("large".into()),
            payload: Some("x".repeat(SIZE)),
        };
        before.store.send(id.clone(), body, None, answer().reply());
        before.settle().await;
    }
    assert_eq!(before.attempts.len(), COUNT);
    before.shut_down(Duration::ZERO).await;
    let mut after = before.beside(RuntimeOptions::default());
    after.script("main", script);
    after.begin().await;
    after.settle().await;
    assert_eq!(after.attempts.len(), COUNT, "all are here");
    let most = after.memory.loaded_bytes_max();
    assert!(
        most >= LOAD_BYTES_MAX / 2,
        "several are read together, not {most} bytes"
    );
    assert!(most < LOAD_BYTES_MAX + 2 * SIZE, "{most} bytes were read together");
    for _ in &ids {
        after.complete("a").await;
    }
    for id in &ids {
        assert_eq!(after.memory.get(id).status, Status::Completed);
    }
    after.assert_empty();
}

/// Returns a runtime with three instances that wait for an event which has come. The second one cannot be loaded; those
/// beside it have gone on.
async fn beside_one_that_fails_to_load(kind: ProviderErrorKind) -> Fixture {
    let script = &[Op::Event("go")];
    let mut before = Fixture::started(RuntimeOptions::default(), script).await;
    for id in ["a", "bad", "b"] {
        before.start(id).await;
    }
    before.shut_down(Duration::ZERO).await;
    let mut after = before.beside(RuntimeOptions::default());
    after.script("main", script);
    after.memory.fail_load_of(InstanceKey(2), kind);
    let told = ["a", "bad", "b"].map(|id| after.ask_event(id, "go"));
    after.settle().await;
    assert!(told.iter().all(|told| told.take() == Some(Ok(()))));
    after.begin().await;
    after.settle().await;
    after
}

async fn pass(f: &mut Fixture, time: Duration) {
    // Each pause between two tries ends with a step.
    for _ in 0..time.as_millis() / 250 {
        f.advance(500).await;
    }
}

/// Regression test: the instance was read again and again, and those that were acquired with it waited for it.
#[tokio::test(start_paused = true)]
async fn an_instance_too_large_for_memory_is_suspended_and_the_others_continue() {
    let mut f = beside_one_that_fails_to_load(ProviderErrorKind::NoMemory).await;
    for id in ["a", "b"] {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    assert_eq!(f.memory.get("bad").status, Status::Running);
    pass(&mut f, NO_MEMORY_PATIENCE).await;
    assert_eq!(f.memory.get("bad").status, Status::Suspended);
    f.assert_empty();
}

/// A server that meets a defect of its own at one instance does not name that instance. Regression test: it was read on
/// and on with the others.
#[tokio::test(start_paused = true)]
async fn an_instance_at_which_the_store_fails_is_read_alone_and_the_others_continue() {
    let mut f = beside_one_that_fails_to_load(ProviderErrorKind::Unavailable).await;
    assert_eq!(f.memory.get("a").status, Status::Running, "perhaps it is the store");
    pass(&mut f, TOGETHER_PATIENCE).await;
    for id in ["a", "b"] {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    assert_eq!(f.memory.get("bad").status, Status::Running, "no verdict on it");
    assert!(f.logged.iter().any(|line| line.contains("could not be read together")));
}
