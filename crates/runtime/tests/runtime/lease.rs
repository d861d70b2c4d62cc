//! A worker that loses its lease gives everything up and starts over as another.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use perdure_provider::{ProviderErrorKind, Status, WorkerId};

use crate::support::{Call, Fixture, Op};
use perdure_runtime::{AbortReason, RuntimeOptions};

fn options() -> RuntimeOptions {
    RuntimeOptions {
        lease: Duration::from_secs(3),
        ..RuntimeOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_for_as_long_as_the_store_answers() {
    let mut f = Fixture::started(options(), &[Op::Activity("a")]).await;
    let worker = f.runtime_worker();
    f.start("i").await;
    for _ in 0..60 {
        f.advance(500).await;
    }
    assert_eq!(f.runtime_worker(), worker);
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_was_taken_over_starts_over_and_its_instances_continue() {
    let mut f = Fixture::started(options(), &[Op::Activity("a"), Op::Activity("b")]).await;
    let worker = f.runtime_worker();
    f.start("i").await;
    f.memory.remove_worker(&worker);
    for _ in 0..3 {
        f.advance(600).await;
    }
    assert_ne!(f.runtime_worker(), worker);
    assert_eq!(f.aborted, [AbortReason::LeaseLost]);
    assert_eq!(f.attempts, ["a", "a"], "the new worker runs it again");
    f.complete("a").await;
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn when_the_store_does_not_answer_it_stops_before_the_lease_ends() {
    let mut f = Fixture::started(options(), &[Op::Activity("a")]).await;
    f.start("i").await;
    f.memory.hold(Call::Renew);
    for _ in 0..29 {
        f.advance(100).await;
    }
    assert_eq!(f.aborted.len(), 0);
    for _ in 0..2 {
        f.advance(100).await;
    }
    assert_eq!(f.aborted, [AbortReason::LeaseLost]);
    f.memory.resume(Call::Renew);
    for _ in 0..4 {
        f.advance(1_000).await;
    }
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_under_way_counts_if_it_was_in_time_and_else_not() {
    for is_in_time in [true, false] {
        let mut f = Fixture::started(options(), &[Op::Activity("a"), Op::Activity("b")]).await;
        let worker = f.runtime_worker();
        f.start("i").await;
        f.memory.hold(Call::Commit);
        f.complete("a").await;
        let answer = is_in_time.then(|| f.memory.write_held());
        f.memory.remove_worker(&worker);
        for _ in 0..3 {
            f.advance(600).await;
        }
        if let Some(answer) = answer {
            answer();
        }
        f.memory.resume(Call::Commit);
        f.settle().await;
        let again = if is_in_time { vec!["a", "b"] } else { vec!["a", "a"] };
        assert_eq!(f.attempts, again);
        if !is_in_time {
            f.complete("a").await;
        }
        f.complete("b").await;
        assert_eq!(f.memory.get("i").status, Status::Completed);
        f.assert_empty();
    }
}

/// Regression test: the first jobs of the new worker were taken for the old one's while it was not yet known as the
/// runtime's.
#[tokio::test(start_paused = true)]
async fn the_first_job_of_a_new_worker_is_its_own() {
    let mut f = Fixture::started(options(), &[Op::Activity("a")]).await;
    let worker = f.runtime_worker();
    f.memory.hold(Call::Register);
    f.memory.remove_worker(&worker);
    f.advance(1_100).await;
    let started = f.ask_start("i", "main");
    f.settle().await;
    assert!(started.take().is_some());
    f.memory.resume(Call::Register);
    f.settle().await;
    assert_eq!(f.attempts, ["a"]);
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// The clock has gone on while the process stood still, and the host is the first to go on.
#[tokio::test(start_paused = true)]
async fn a_worker_that_stood_still_beyond_its_lease_begins_nothing() {
    let mut f = Fixture::started(options(), &[Op::Activity("a")]).await;
    let worker = f.runtime_worker();
    let started = f.ask_start("i", "main");
    f.drain();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(started.take().is_some(), "the activity may begin");
    assert!(f.attempts.is_empty());
    let mut stop = std::pin::pin!(tokio::time::advance(Duration::from_secs(3)));
    let first = stop.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending(), "time has gone on, and nothing else");
    f.drain();
    assert!(f.attempts.is_empty(), "it may run elsewhere by now");
    stop.await;
    f.settle().await;
    assert_ne!(f.runtime_worker(), worker);
    for _ in 0..6 {
        f.advance(1_000).await;
    }
    assert_eq!(f.attempts, ["a"]);
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// The instance belongs to no other worker, and would belong to this worker for good.
#[tokio::test(start_paused = true)]
async fn an_instance_continues_on_a_store_that_lost_its_last_turns() {
    let mut f = Fixture::started(options(), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.start("i").await;
    f.complete("a").await;
    let events = f.memory.get("i").history.len();
    f.memory.lose_events("i", events - 2);
    f.complete("b").await;
    f.settle().await;
    f.complete("a").await;
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.attempts, ["a", "b", "a", "b"]);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_another_worker_continues_from_the_stored_state() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Activity("b")]).await;
    let worker = f.runtime_worker();
    f.start("i").await;
    f.complete("a").await;
    f.runtime.crash();
    f.settle().await;
    assert_ne!(f.runtime_worker(), worker);
    assert_eq!(f.aborted, [AbortReason::LeaseLost]);
    assert_eq!(f.attempts, ["a", "b", "b"], "what is stored is not done again");
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn the_next_due_time_covers_held_and_sleeping_instances() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Sleep(5_000), Op::Sleep(900)]).await;
    assert_eq!(f.runtime.next_due_ms(), None);
    f.start("i").await;
    assert!(f.memory.get("i").owner.is_none(), "it sleeps");
    let begin_ms = 1_000_000;
    assert_eq!(f.runtime.next_due_ms(), Some(begin_ms + 5_000));
    f.advance(5_000).await;
    assert!(f.memory.get("i").owner.is_some(), "it is held");
    assert_eq!(f.runtime.next_due_ms(), Some(begin_ms + 5_900));
    assert!(f.runtime.is_idle());
    f.advance(900).await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.runtime.next_due_ms(), None);
}

/// Returns a runtime whose registration reaches the store at once and is answered after `ms`, and the id of its first
/// worker.
async fn registered_after(ms: u64) -> (Fixture, String) {
    let mut f = Fixture::new(options());
    f.script("main", &[Op::Activity("a")]);
    f.memory.hold(Call::Register);
    let late = async {
        tokio::time::advance(Duration::from_millis(ms)).await;
        f.memory.resume(Call::Register);
    };
    let (started, ()) = tokio::join!(f.runtime.start(f.host()), late);
    let worker = started.expect("it starts");
    f.settle().await;
    (f, worker)
}

/// Regression test: the lease was counted from the answer to the registration, which may take longer than the lease
/// itself. Other workers took the worker over by the store's clock, and it began attempts all the same.
#[tokio::test(start_paused = true)]
async fn a_lease_begins_when_the_registration_is_asked_for() {
    let (mut f, _) = registered_after(500).await;
    f.memory.hold(Call::Renew);
    f.start("i").await;
    for _ in 0..24 {
        f.advance(100).await;
    }
    assert_eq!(f.aborted.len(), 0);
    for _ in 0..2 {
        f.advance(100).await;
    }
    assert_eq!(f.aborted, [AbortReason::LeaseLost]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_registration_was_answered_late_renews_at_once() {
    let (mut f, worker) = registered_after(2_500).await;
    f.start("i").await;
    for _ in 0..6 {
        f.advance(900).await;
    }
    assert_eq!(f.runtime_worker(), worker);
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_registration_was_answered_after_its_lease_starts_over() {
    let (mut f, worker) = registered_after(3_500).await;
    assert_ne!(f.runtime_worker(), worker);
    f.start("i").await;
    assert_eq!(f.attempts, ["a"]);
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: no worker found the dead one again, and none looked for the instances that it had owned.
#[tokio::test(start_paused = true)]
async fn a_takeover_whose_answer_is_lost_lets_the_instances_continue() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    f.start("i").await;
    f.memory.add_worker_for("dead", 30_000);
    f.memory.row("i", |row| {
        row.owner = Some(WorkerId("dead".into()));
        row.epoch.0 += 1;
    });
    f.advance(25_000).await;
    assert_eq!(f.aborted, [AbortReason::LeaseLost], "it is another's");
    f.memory.fail_unknown(Call::TakeOver, ProviderErrorKind::Io);
    f.advance(10_000).await;
    assert_eq!(f.memory.workers_len(), 1);
    let owner = f.memory.get("i").owner.map(|owner| owner.to_string());
    assert_eq!(owner, Some(f.runtime_worker()));
}
