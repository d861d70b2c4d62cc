//! Attempts of activities: slots, retries, giving up, and that none starts twice.

use perdure_provider::Status;

use crate::testing::{Call, Fixture, Op};
use crate::{AbortReason, RuntimeOptions};

fn slots(activity_concurrency: usize) -> RuntimeOptions {
    RuntimeOptions {
        activity_concurrency,
        ..RuntimeOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_run_than_there_are_slots() {
    let script = &[Op::Spawn("a"), Op::Spawn("b"), Op::Activity("c")];
    let mut f = Fixture::started(slots(2), script).await;
    f.start("i").await;
    assert_eq!(f.attempts, ["a", "b"]);
    assert_eq!((f.metrics().running_activities, f.metrics().open_activities), (2, 3));
    f.complete("b").await;
    assert_eq!(f.attempts, ["a", "b", "c"]);
    f.complete("a").await;
    f.complete("c").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_its_time_without_a_slot() {
    let mut f = Fixture::started(slots(1), &[Op::Retried("a")]).await;
    f.start("i").await;
    f.fail("a", 500).await;
    assert_eq!((f.metrics().running_activities, f.metrics().open_activities), (0, 1));
    f.advance(499).await;
    assert_eq!(f.attempts.len(), 1);
    f.advance(2).await;
    assert_eq!(f.attempts.len(), 2);
    assert_eq!(f.running[0].attempt, 2);
    f.complete("a").await;
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn giving_one_up_aborts_it_and_frees_its_slot() {
    let script = &[Op::Spawn("a"), Op::Event("go"), Op::Cancel, Op::Activity("b")];
    let mut f = Fixture::started(slots(1), script).await;
    f.start("i").await;
    f.event("i", "go").await;
    assert_eq!(f.aborted, [AbortReason::Cancelled]);
    assert_eq!(f.attempts, ["a", "b"], "the slot is free");
    f.terminate("i").await;
    assert_eq!(f.aborted.len(), 2);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_a_slot_is_given_up_without_a_trace() {
    let mut f = Fixture::started(slots(1), &[Op::Activity("a")]).await;
    f.start("holds").await;
    for n in 0..500 {
        let id = format!("i{n}");
        f.start(&id).await;
        f.terminate(&id).await;
    }
    assert_eq!(f.attempts, ["a"]);
    assert_eq!(f.metrics().open_activities, 1);
    f.complete("a").await;
    f.assert_empty();
}

/// The engine that was set aside comes back from history, where an activity is open that still runs here; the commit of its
/// first turn was under way when the activity ended, and it was started again.
#[tokio::test(start_paused = true)]
async fn an_activity_that_ends_while_its_reloaded_instance_commits_is_not_started_again() {
    let mut f = Fixture::started(
        RuntimeOptions {
            cached_instances_max: 0,
            ..RuntimeOptions::default()
        },
        &[Op::Spawn("a"), Op::Event("go"), Op::Event("more")],
    )
    .await;
    f.start("i").await;
    assert_eq!((f.attempts.len(), f.generators()), (1, 0), "set aside");
    f.memory.hold(Call::Commit);
    // A client's message is a commit, too.
    let sent = f.ask_event("i", "go");
    let answer = f.memory.write_held();
    answer();
    f.settle().await;
    assert!(sent.take().is_some());
    f.complete("a").await;
    f.memory.let_go(Call::Commit);
    f.settle().await;
    assert_eq!(f.attempts, ["a"]);
    f.event("i", "more").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// The answer to a turn's commit came after the instance had been terminated: its activity was started and never aborted.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_terminated_while_its_turn_commits_starts_nothing() {
    let mut f = Fixture::with_commits(RuntimeOptions::default(), 2);
    f.script("main", &[Op::Activity("a")]);
    f.begin().await;
    f.memory.hold(Call::Commit);
    let started = f.ask_start("i", "main");
    f.settle().await;
    // Its start and first turn are written, and answered after the termination is.
    let answer = f.memory.write_held();
    f.memory.let_go(Call::Commit);
    f.terminate("i").await;
    answer();
    f.settle().await;
    assert_eq!(started.take(), Some(Ok(())));
    assert_eq!(f.attempts.len(), 0);
    f.assert_empty();
}

/// The same for a later turn.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_terminated_while_a_later_turn_commits_starts_nothing() {
    let mut f = Fixture::with_commits(RuntimeOptions::default(), 2);
    f.script("main", &[Op::Activity("a"), Op::Activity("b")]);
    f.begin().await;
    f.start("i").await;
    f.memory.hold(Call::Commit);
    f.complete("a").await;
    let answer = f.memory.write_held();
    f.memory.let_go(Call::Commit);
    f.terminate("i").await;
    answer();
    f.settle().await;
    assert_eq!(f.attempts, ["a"]);
    f.assert_empty();
}
