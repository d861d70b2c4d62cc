//! A turn from its job to the effects that it starts.

use perdure_engine::{Awaited, EventKind, Mailbox};
use perdure_provider::Status;

use crate::support::{Call, Fixture, Op};
use perdure_runtime::{RuntimeError, RuntimeOptions};

#[tokio::test(start_paused = true)]
async fn a_step_is_one_commit_and_nothing_leaves_before_it() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.memory.hold(Call::Commit);
    let started = f.ask_start("i", "main");
    f.settle().await;
    assert!(started.take().is_none(), "the start is not durable");
    assert_eq!(f.attempts.len(), 0, "the turn is not durable (1)");
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(started.take(), Some(Ok(())));
    assert_eq!(f.attempts, ["a"]);
    f.complete("a").await;
    f.complete("b").await;
    let row = f.memory.get("i");
    assert_eq!((row.status, row.turns, row.owner), (Status::Completed, 3, None));
    assert_eq!(
        f.memory.batches(),
        [1, 1, 1],
        "the first turn is written with the start"
    );
    let kinds: Vec<EventKind> = row.history.iter().map(|e| e.kind).collect();
    assert_eq!(
        kinds,
        [
            EventKind::ExecutionStarted,
            EventKind::ActivityScheduled,
            EventKind::ActivityCompleted,
            EventKind::ActivityScheduled,
            EventKind::ActivityCompleted,
            EventKind::ExecutionCompleted,
        ]
    );
    assert_eq!((f.metrics().turns, f.metrics().ended), (3, 1));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_comes_while_a_turn_commits_is_the_next_turn() {
    let mut f = Fixture::started(
        RuntimeOptions::default(),
        &[Op::Spawn("a"), Op::Activity("b"), Op::Activity("c")],
    )
    .await;
    f.start("i").await;
    f.memory.hold(Call::Commit);
    f.complete("b").await;
    f.complete("a").await;
    assert_eq!(f.memory.get("i").turns, 1);
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(f.memory.get("i").turns, 3);
    assert_eq!(f.attempts, ["a", "b", "c"]);
    f.complete("c").await;
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_long_ends_where_the_code_waits_next_and_another_follows() {
    let script = &[Op::Activity("a"), Op::Event("x"), Op::Event("x"), Op::Event("x")];
    let mut f = Fixture::started(RuntimeOptions::default(), script).await;
    f.start("i").await;
    for _ in 0..3 {
        f.event("i", "x").await;
    }
    let token = f.turn_after("i").await;
    let wait = |f: &Fixture| {
        let awaited = Awaited {
            mailboxes: vec![Mailbox::Event("x".into())],
            timers: Vec::new(),
        };
        f.runtime.next(token, awaited).expect("it has a turn")
    };
    assert!(wait(&f).is_some(), "what the activity returned");
    assert!(wait(&f).is_some(), "the first event");
    tokio::time::advance(RuntimeOptions::default().turn_slice).await;
    assert_eq!(wait(&f), None);
    assert!(
        !f.runtime.rest(token, None).expect("it has a turn"),
        "it is not released"
    );
    f.hang(0).await;
    assert_eq!(f.memory.get("i").turns, 2, "what it was handed is stored");
    assert_eq!(f.next_turn(), token);
    assert!(wait(&f).is_some(), "the second event");
    assert!(wait(&f).is_some(), "the third event");
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_is_due_soon_is_held() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Sleep(900)]).await;
    f.start("i").await;
    assert!(f.memory.get("i").owner.is_some());
    f.advance(899).await;
    assert_eq!(f.memory.get("i").status, Status::Running, "never early");
    f.advance(2).await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_worker_may_hold_a_long_sleep() {
    let options = RuntimeOptions {
        hold_timer: std::time::Duration::MAX,
        ..RuntimeOptions::default()
    };
    let mut f = Fixture::started(options, &[Op::Sleep(86_400_000)]).await;
    f.start("i").await;
    assert!(f.memory.get("i").owner.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_instance_with_a_long_timer_is_released_and_costs_no_memory() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Sleep(3_600_000)]).await;
    f.start("i").await;
    let row = f.memory.get("i");
    assert_eq!((row.owner, row.wake_at_ms), (None, Some(1_000_000 + 3_600_000)));
    f.assert_empty();
    f.advance(3_599_999).await;
    assert_eq!(f.memory.get("i").status, Status::Running, "never early");
    f.advance(2_000).await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Due times are compared with the store's clock. A machine that is an hour off fires timers neither early nor late,
/// and does not acquire an instance again and again that is due for the store and not for its engine.
#[tokio::test(start_paused = true)]
async fn a_timer_goes_by_the_clock_of_the_store() {
    for off_ms in [3_600_000, -3_600_000, 137] {
        let mut f = Fixture::with_clock_off_by(off_ms, &[Op::Sleep(60_000), Op::Sleep(500)]).await;
        f.start("i").await;
        let released = f.memory.get("i");
        assert_eq!((released.owner, released.wake_at_ms), (None, Some(1_000_000 + 60_000)));
        f.advance(59_999).await;
        assert_eq!(f.memory.get("i").turns, 1, "never early, {off_ms} ms off");
        f.advance(1_001).await;
        let held = f.memory.get("i");
        assert_eq!(
            (held.status, held.turns, held.epoch),
            (Status::Running, 2, released.epoch + 1)
        );
        f.advance(600).await;
        assert_eq!(f.memory.get("i").status, Status::Completed);
    }
}

/// Regression test: the alarms of timers that were given up were kept until their time came.
#[tokio::test(start_paused = true)]
async fn the_alarm_of_a_timer_goes_with_its_instance() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Spawn("a"), Op::Sleep(3_600_000)]).await;
    for n in 0..10 {
        f.start(&format!("i{n}")).await;
    }
    assert_eq!(f.alarms(), 10);
    for n in 0..10 {
        f.terminate(&format!("i{n}")).await;
    }
    assert_eq!(f.alarms(), 0);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_call_outside_a_turn_is_refused() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    f.start("i").await;
    let token = perdure_runtime::Token(1);
    assert!(matches!(f.runtime.describe(token), Err(RuntimeError::State(_))));
    assert!(matches!(f.runtime.random(token), Err(RuntimeError::State(_))));
    f.terminate("i").await;
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_fenced_turn_is_dropped_whole_and_its_instance_forgotten() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Spawn("a"), Op::Activity("b")]).await;
    f.start("i").await;
    f.memory.row("i", |row| row.epoch.0 += 1);
    f.complete("b").await;
    let row = f.memory.get("i");
    assert_eq!((row.status, row.history.len()), (Status::Running, 3));
    assert_eq!((f.metrics().fenced, f.aborted.len()), (1, 1));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_busy_store_delays_a_turn_and_fails_nothing() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    f.start("i").await;
    f.memory
        .fail(Call::Commit, perdure_provider::ProviderErrorKind::Busy, 20);
    f.complete("a").await;
    for _ in 0..100 {
        f.advance(1_000).await;
    }
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.metrics().commit_retries, 20);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_terminated_in_the_middle_of_its_turn_stores_nothing() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.start("i").await;
    let job = f.running.remove(0);
    f.runtime.complete_activity(f.lane, job.token, None);
    let token = f.next_turn();
    let terminated = crate::support::answer();
    f.store.terminate("i".into(), None, terminated.reply());
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    f.turn(token);
    f.settle().await;
    assert_eq!(terminated.take(), Some(Ok(())));
    assert_eq!(f.memory.get("i").status, Status::Terminated);
    assert_eq!(f.attempts, ["a"]);
    f.assert_empty();
}

/// Regression test: a request for work that was answered after the instance's end brought it back. It ran on, and its
/// turn was fenced off with a warning.
#[tokio::test(start_paused = true)]
async fn an_instance_terminated_while_it_is_acquired_does_not_run() {
    // The instance is acquired, and not woken: its generator is not kept.
    let options = RuntimeOptions {
        cached_instances_max: 0,
        ..RuntimeOptions::default()
    };
    let mut f = Fixture::started(options, &[Op::Event("go"), Op::Activity("a")]).await;
    f.start("i").await;
    f.memory.hold(Call::Acquire);
    f.event("i", "go").await;
    assert!(
        f.memory.get("i").owner.is_some(),
        "it is acquired, and its worker does not know"
    );
    f.terminate("i").await;
    f.memory.resume(Call::Acquire);
    f.settle().await;
    assert_eq!((f.memory.get("i").status, f.attempts.len()), (Status::Terminated, 0));
    assert_eq!(f.logged, Vec::<String>::new());
    f.assert_empty();
}
