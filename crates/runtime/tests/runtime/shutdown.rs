//! Shutdown: work that runs is finished, the rest is handed over, and the shutdown ends in time.

use std::time::Duration;

use perdure_provider::Status;
use tokio::time::Instant;

use crate::support::{Call, Fixture, Op};
use perdure_runtime::{AbortReason, RuntimeOptions};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn an_idle_runtime_is_down_at_once_and_leaves_no_worker() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Event("go")]).await;
    f.start("i").await;
    let before = Instant::now();
    f.shut_down(LONG).await;
    assert!(before.elapsed() < Duration::from_millis(1));
    assert_eq!(f.memory.workers_len(), 0);
    f.assert_empty();
    assert!(f.runtime.begin_shutdown().is_err());
}

#[tokio::test(start_paused = true)]
async fn running_activities_finish_and_no_other_begins() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.start("i").await;
    f.runtime.begin_shutdown().expect("it is started");
    let before = Instant::now();
    let late = f.ask_start("late", "main");
    f.complete("a").await;
    assert!(late.take().is_some());
    f.runtime.finish_shutdown(LONG).await;
    f.drain();
    assert!(before.elapsed() < Duration::from_millis(1));
    assert_eq!(f.attempts, ["a"]);
    let row = f.memory.get("i");
    assert_eq!(
        (row.owner, row.turns),
        (None, 2),
        "its result is stored, the rest is handed over"
    );
    assert!(row.wake_at_ms.is_some() && f.memory.get("late").wake_at_ms.is_some());
    f.assert_empty();

    f.begin().await;
    assert_eq!(f.attempts.len(), 3);
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_does_not_end_in_time_is_aborted_and_handed_over() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    f.start("i").await;
    let before = Instant::now();
    f.shut_down(Duration::from_secs(5)).await;
    assert!(before.elapsed() < Duration::from_millis(5_100));
    assert_eq!(f.aborted, [AbortReason::Shutdown]);
    assert_eq!(f.memory.get("i").owner, None);
    f.assert_empty();
}

/// Regression test: the shutdown waited for ever for the answer to its last request.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_does_not_hold_a_shutdown_up() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    f.start("i").await;
    f.memory.hold(Call::Release);
    f.shut_down(Duration::from_secs(5)).await;
    f.assert_empty();
}

/// Regression test: the ended session refused the turn's code, and the instance was suspended for that.
#[tokio::test(start_paused = true)]
async fn a_turn_in_progress_when_the_session_ends_is_no_fault_of_the_instance() {
    for gives_up in [false, true] {
        let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Activity("b")]).await;
        f.start("i").await;
        let job = f.running.remove(0);
        f.runtime.complete_activity(f.lane, job.token, None);
        let token = f.next_turn();
        f.memory.hold(Call::Release);
        f.runtime.begin_shutdown().expect("it is started");
        f.runtime.finish_shutdown(Duration::from_secs(1)).await;
        if gives_up {
            f.runtime.suspend(token, "somewhere", None).expect("it has a turn");
        } else {
            f.turn(token);
        }
        f.memory.resume(Call::Release);
        f.settle().await;
        let row = f.memory.get("i");
        assert_eq!((row.status, row.turns), (Status::Running, 1));
        f.drain();
        f.assert_empty();
    }
}

/// Regression test: the task of an earlier start, which waited to begin a worker again, took the later start for its
/// own.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_started_again_has_one_worker() {
    let lease = Duration::from_secs(3);
    let options = RuntimeOptions {
        lease,
        ..RuntimeOptions::default()
    };
    let mut f = Fixture::started(options, &[]).await;
    let worker = f.runtime_worker();
    f.memory.remove_worker(&worker);
    f.memory
        .fail(Call::Register, perdure_provider::ProviderErrorKind::Io, 8);
    for _ in 0..3 {
        f.advance(1_000).await;
    }
    f.shut_down(LONG).await;
    while f.runtime.start(f.host()).await.is_err() {}
    for _ in 0..10 {
        f.advance(1_000).await;
    }
    assert_eq!(f.memory.workers_len(), 1);
    f.shut_down(LONG).await;
    assert_eq!(f.memory.workers_len(), 0);
}

/// Regression test: the worker that was being registered when the shutdown came was left behind.
#[tokio::test(start_paused = true)]
async fn a_shutdown_while_a_new_worker_is_registered_leaves_none() {
    let options = RuntimeOptions {
        lease: Duration::from_secs(3),
        ..RuntimeOptions::default()
    };
    let mut f = Fixture::started(options, &[]).await;
    let worker = f.runtime_worker();
    f.memory.hold(Call::Register);
    f.memory.remove_worker(&worker);
    f.advance(1_100).await;
    f.shut_down(LONG).await;
    f.memory.resume(Call::Register);
    f.settle().await;
    assert_eq!(f.memory.workers_len(), 0);
}

/// Regression test: the instances of the first runtime waited until something else told the other one to look.
#[tokio::test(start_paused = true)]
async fn another_runtime_on_the_same_store_continues_at_once() {
    let mut first = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    let mut second = first.beside(RuntimeOptions::default());
    second.script("main", &[Op::Activity("a")]);
    second.begin().await;
    first.start("i").await;
    assert_eq!((first.attempts.len(), second.attempts.len()), (1, 0));
    first.shut_down(Duration::ZERO).await;
    second.settle().await;
    assert_eq!(second.attempts, ["a"]);
    second.complete("a").await;
    assert_eq!(second.memory.get("i").status, Status::Completed);
}
