//! Histories of several pages: when they are read.

use std::sync::LazyLock;
use std::time::Duration;

use perdure_provider::{ProviderErrorKind, Status};

use crate::RuntimeOptions;
use crate::options::HISTORY_PAGE;
use crate::testing::{Call, Fixture, Op};

/// Two pages and one event.
const STEPS: usize = HISTORY_PAGE;

static LONG: LazyLock<Vec<Op>> = LazyLock::new(|| {
    let mut script = vec![Op::Activity("a"); STEPS];
    script.push(Op::Event("go"));
    script
});

/// A worker that comes after the one that has done all the steps of an instance. It has acquired that, for the event that it waits for, and
/// its thread has not looked yet.
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
    // The first came with the instance.
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
    f.memory.let_go(Call::History);
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
    f.memory.let_go(Call::History);
    f.settle().await;
    assert_eq!(f.memory.history_reads(), 1);
    f.assert_empty();
}
