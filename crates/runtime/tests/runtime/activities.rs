//! Attempts of activities: slots, retries, cancellation, and that none starts twice.

use std::time::Duration;

use perdure_provider::Status;

use crate::support::{Call, Fixture, Op};
use perdure_runtime::internals::work_for_years;
use perdure_runtime::{AbortReason, RuntimeOptions};

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

/// Regression test: tokens had 32 bits. The token after the last one was that of an attempt which ran since the first
/// day. The new attempt took its place, and the instance of the old one waited for ever.
#[tokio::test(start_paused = true)]
async fn tokens_are_not_used_again_however_many_there_were() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Spawn("a"), Op::Activity("b")]).await;
    f.start("since-the-first-day").await;
    work_for_years(&f.runtime);
    f.start("i").await;
    f.start("j").await;
    assert_eq!(f.metrics().open_activities, 6);
    for name in ["a", "b", "a", "b", "a", "b"] {
        f.complete(name).await;
    }
    for id in ["since-the-first-day", "i", "j"] {
        assert_eq!(f.memory.get(id).status, Status::Completed, "{id}");
    }
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

/// Others may have begun the first attempt of an activity that was in the history when its instance was loaded.
#[tokio::test(start_paused = true)]
async fn only_an_attempt_that_the_last_turn_scheduled_is_untried() {
    let script = &[Op::Activity("a"), Op::Retried("b")];
    let mut before = Fixture::started(RuntimeOptions::default(), script).await;
    before.start("i").await;
    assert!(before.running[0].is_untried);
    before.shut_down(Duration::ZERO).await;
    let mut f = before.beside(RuntimeOptions::default());
    f.script("main", script);
    f.begin().await;
    f.settle().await;
    assert_eq!(
        (f.running[0].attempt, f.running[0].is_untried),
        (1, false),
        "it was loaded"
    );
    f.complete("a").await;
    assert!(f.running[0].is_untried);
    f.fail("b", 1).await;
    f.advance(2).await;
    assert_eq!((f.running[0].attempt, f.running[0].is_untried), (2, false));
    f.complete("b").await;
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

/// Regression test: the turn that gave an activity up left only a message to wait for, so it released the instance and
/// kept its generator. The activity was never told to stop, and an activity that waits for that kept its slot for ever.
#[tokio::test(start_paused = true)]
async fn giving_one_up_aborts_it_also_when_only_a_message_is_waited_for_then() {
    let script = &[Op::Spawn("a"), Op::Event("go"), Op::Cancel, Op::Event("more")];
    let mut f = Fixture::started(slots(1), script).await;
    f.start("i").await;
    f.event("i", "go").await;
    assert_eq!(
        (f.memory.get("i").owner, f.generators()),
        (None, 1),
        "released, and kept"
    );
    assert_eq!(f.aborted, [AbortReason::Cancelled]);
    assert_eq!(f.metrics().open_activities, 0);
    f.event("i", "more").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
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

/// Regression test: an engine that was evicted comes back from a history in which an activity is open that still runs
/// here. The commit of the engine's first turn was under way when the activity ended, and the activity was started
/// again.
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
    assert_eq!((f.attempts.len(), f.generators()), (1, 0), "evicted");
    f.memory.hold(Call::Commit);
    // A client's message is a commit, too.
    let sent = f.ask_event("i", "go");
    let answer = f.memory.write_held();
    answer();
    f.settle().await;
    assert!(sent.take().is_some());
    f.complete("a").await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(f.attempts, ["a"]);
    f.event("i", "more").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: the answer to a turn's commit came after the instance had been terminated. Its activity was started
/// and never aborted.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_terminated_while_its_turn_commits_starts_nothing() {
    let mut f = Fixture::with_commits(RuntimeOptions::default(), 2);
    f.script("main", &[Op::Activity("a")]);
    f.begin().await;
    f.memory.hold(Call::Commit);
    let started = f.ask_start("i", "main");
    f.settle().await;
    // The start and the first turn are written. Their answer comes after that to the termination.
    let answer = f.memory.write_held();
    f.memory.resume(Call::Commit);
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
    f.memory.resume(Call::Commit);
    f.terminate("i").await;
    answer();
    f.settle().await;
    assert_eq!(f.attempts, ["a"]);
    f.assert_empty();
}

/// Each attempt is given the rest of the total timeout; the waits between attempts count.
#[tokio::test(start_paused = true)]
async fn each_attempt_gets_the_rest_of_the_total_timeout() {
    let mut f = Fixture::started(slots(1), &[Op::Within("a", 5_000)]).await;
    f.start("i").await;
    assert_eq!(f.running[0].total_timeout, Some((5_000, 5_000)));
    f.advance(1_000).await;
    f.fail("a", 500).await;
    f.advance(500).await;
    assert_eq!(f.running[0].total_timeout, Some((5_000, 3_500)));
    f.fail("a", 3_500).await;
    assert_eq!(f.attempts.len(), 2, "the next would begin too late");
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_total_timeout_is_over_while_all_slots_are_taken() {
    let script = &[Op::Spawn("long"), Op::Within("a", 5_000)];
    let mut f = Fixture::started(slots(1), script).await;
    f.start("i").await;
    f.advance(4_999).await;
    assert_eq!(f.attempts, ["long"]);
    f.advance(1).await;
    assert_eq!(f.attempts, ["long", "a"]);
    assert_eq!(
        f.running[1].total_timeout,
        Some((5_000, 0)),
        "all that is left is to say so"
    );
    f.fail("a", 0).await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// The clock does not begin anew with another worker.
#[tokio::test(start_paused = true)]
async fn a_total_timeout_counts_while_no_worker_runs_the_activity() {
    let mut f = Fixture::started(slots(1), &[Op::Within("a", 5_000)]).await;
    f.start("i").await;
    f.shut_down(std::time::Duration::ZERO).await;
    f.advance(7_000).await;
    f.begin().await;
    assert_eq!(f.running[0].total_timeout, Some((5_000, -2_000)));
    f.fail("a", 0).await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: the alarm of a retry was kept until its time, however far off, after its activity had been given
/// up.
#[tokio::test(start_paused = true)]
async fn the_alarm_of_a_retry_goes_with_its_activity() {
    let mut f = Fixture::started(slots(1), &[Op::Retried("a")]).await;
    f.start("i").await;
    f.fail("a", 3_600_000).await;
    assert_eq!(f.alarms(), 1);
    f.terminate("i").await;
    f.assert_empty();
}
