//! Attempts that have waited to begin for too long.

use std::time::Duration;

use perdure_provider::{Queues, Status};

use crate::support::{Fixture, Op, Script};
use perdure_runtime::RuntimeOptions;

/// Returns an owner of instances, and a worker that serves queue `gpu`.
async fn two(script: Script) -> (Fixture, Fixture) {
    let owner = Fixture::started(RuntimeOptions::default(), script).await;
    let mut helper = owner.beside(RuntimeOptions {
        queues: Queues::Named(vec!["gpu".to_owned()]),
        ..RuntimeOptions::default()
    });
    helper.runtime.register_activity("render".into());
    helper.begin().await;
    (owner, helper)
}

async fn settle(one: &mut Fixture, two: &mut Fixture) {
    for _ in 0..4 {
        one.settle().await;
        two.settle().await;
    }
}

/// A worker that serves neither the queue nor the activity ends the wait, in time, and the attempt ends once.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_no_worker_takes_is_late_in_time() {
    let script = &[Op::StartedWithin("gpu", "render", 5_000), Op::Activity("after")];
    let mut owner = Fixture::started(RuntimeOptions::default(), script).await;
    owner.start("i").await;
    assert_eq!(owner.memory.get("i").owner, None, "it is not in memory");
    owner.advance(4_999).await;
    assert!(owner.attempts.is_empty());
    owner.advance(1).await;
    assert_eq!(owner.attempts, ["render"]);
    assert_eq!(owner.running[0].schedule_to_start_timeout_ms, Some(5_000));
    owner.complete("render").await;
    assert_eq!(owner.attempts, ["render", "after"]);
    owner.complete("after").await;
    assert_eq!(owner.memory.get("i").status, Status::Completed);
    owner.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_late_while_no_worker_runs() {
    let script = &[Op::StartedWithin("gpu", "render", 5_000)];
    let mut owner = Fixture::started(RuntimeOptions::default(), script).await;
    owner.start("i").await;
    owner.shut_down(Duration::ZERO).await;
    owner.advance(7_000).await;
    owner.begin().await;
    assert_eq!(owner.running[0].schedule_to_start_timeout_ms, Some(5_000));
    owner.complete("render").await;
    assert_eq!(owner.memory.get("i").status, Status::Completed);
    owner.assert_empty();
}

/// An attempt that a worker has may run for longer, and its next one has the time anew.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_begins_in_time_is_not_late() {
    let (mut owner, mut helper) = two(&[Op::StartedWithin("gpu", "render", 5_000)]).await;
    owner.start("i").await;
    settle(&mut owner, &mut helper).await;
    helper.advance(60_000).await;
    settle(&mut owner, &mut helper).await;
    assert_eq!((owner.attempts.len(), helper.running.len()), (0, 1));
    assert_eq!(helper.running[0].schedule_to_start_timeout_ms, None);
    helper.fail("render", 10_000).await;
    settle(&mut owner, &mut helper).await;
    helper.shut_down(Duration::ZERO).await;
    owner.advance(14_999).await;
    assert!(owner.attempts.is_empty(), "the delay does not count");
    owner.advance(1_001).await;
    assert_eq!(owner.running[0].schedule_to_start_timeout_ms, Some(5_000));
    assert_eq!(owner.running[0].attempt, 2);
}

/// A worker without a free place ends it, too, within a second.
#[tokio::test(start_paused = true)]
async fn an_attempt_is_late_while_all_workers_are_full() {
    let script = &[Op::Spawn("long"), Op::StartedWithin("gpu", "render", 5_000)];
    let options = RuntimeOptions {
        activity_concurrency: 1,
        ..RuntimeOptions::default()
    };
    let mut owner = Fixture::started(options, script).await;
    owner.start("i").await;
    for _ in 0..6 {
        owner.advance(1_000).await;
    }
    assert_eq!(owner.attempts, ["long", "render"]);
    owner.complete("render").await;
    assert_eq!(owner.memory.get("i").status, Status::Completed);
    owner.assert_empty();
}

/// A wait in the default queue is one for a free place.
#[tokio::test(start_paused = true)]
async fn an_attempt_of_the_default_queue_is_late_while_its_worker_is_full() {
    let script = &[Op::Spawn("long"), Op::StartedWithin("default", "a", 5_000)];
    let options = RuntimeOptions {
        activity_concurrency: 1,
        ..RuntimeOptions::default()
    };
    let mut owner = Fixture::started(options, script).await;
    owner.runtime.register_activity("a".into());
    owner.start("i").await;
    owner.advance(4_999).await;
    assert_eq!(owner.attempts, ["long"]);
    owner.advance(1).await;
    assert_eq!(owner.attempts, ["long", "a"]);
    assert_eq!(owner.running[1].schedule_to_start_timeout_ms, Some(5_000));
    owner.complete("a").await;
    owner.assert_empty();
}
