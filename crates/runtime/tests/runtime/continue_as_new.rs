//! Executions that end where the next one of their instance begins.

use std::time::Duration;

use perdure_engine::{EventId, ExecutionId, MessageBody};
use perdure_provider::Status;

use crate::support::{Call, Fixture, Op, answer};
use perdure_runtime::{Awaiting, RuntimeOptions};

#[tokio::test(start_paused = true)]
async fn the_next_execution_begins_here_in_the_same_epoch() {
    let mut f = Fixture::started(
        RuntimeOptions::default(),
        &[Op::Spawn("left"), Op::Activity("a"), Op::ContinueTo(3, None)],
    )
    .await;
    f.start("i").await;
    let ended = f.wait("i", Awaiting::End);
    for execution in 1..=3 {
        assert_eq!(f.memory.get("i").execution, ExecutionId(execution));
        f.complete("a").await;
    }
    assert_eq!(f.attempts, ["left", "a", "left", "a", "left", "a"]);
    assert_eq!(f.aborted.len(), 3, "what an execution leaves open is given up");
    let row = f.memory.get("i");
    assert_eq!((row.status, row.epoch, row.former.len()), (Status::Completed, 1, 2));
    let status = ended.take().expect("it was answered").expect("it ended");
    assert_eq!((status.status, status.execution), (Status::Completed, ExecutionId(3)));
    assert_eq!(f.metrics().ended, 1);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_first_turn_that_continues_is_written_with_its_start() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::ContinueTo(3, None), Op::Activity("a")]).await;
    f.start("i").await;
    assert_eq!(f.memory.batches(), [1, 1, 1], "one commit for each execution");
    assert_eq!(f.memory.get("i").execution, ExecutionId(3));
    f.complete("a").await;
    f.assert_empty();
}

/// Some messages go to the former execution, some come while no execution is there.
#[tokio::test(start_paused = true)]
async fn messages_that_were_not_read_are_the_next_executions() {
    let mut f = Fixture::started(
        RuntimeOptions::default(),
        &[
            Op::Activity("a"),
            Op::ContinueTo(2, None),
            Op::Event("go"),
            Op::Event("go"),
        ],
    )
    .await;
    f.start("i").await;
    f.event("i", "go").await;
    f.memory.hold(Call::Commit);
    f.complete("a").await;
    let late = f.ask_event("i", "go");
    f.settle().await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(late.take(), Some(Ok(())));
    f.complete("a").await;
    let row = f.memory.get("i");
    assert_eq!((row.status, row.execution), (Status::Completed, ExecutionId(2)));
    f.assert_empty();
}

/// Regression test: a page of the inbox, read before the turn that consumed a message of it, came to the next
/// execution, which took the message for a new one. Consuming it once more suspended the instance.
#[tokio::test(start_paused = true)]
async fn a_message_that_was_consumed_before_does_not_come_again() {
    let mut f = Fixture::started(
        RuntimeOptions::default(),
        &[Op::Spawn("a"), Op::Event("go"), Op::ContinueTo(2, None)],
    )
    .await;
    f.start("i").await;
    f.event("i", "go").await;
    assert_eq!(f.memory.get("i").execution, ExecutionId(2));
    f.event_comes_late(1, "go").await;
    assert_eq!(
        f.memory.get("i").status,
        Status::Running,
        "it waits for an event of its own"
    );
    f.event("i", "go").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_registered_is_left_to_another_worker() {
    let mut f = Fixture::started(
        RuntimeOptions::default(),
        &[Op::ContinueTo(2, Some("2.0.0")), Op::Activity("a")],
    )
    .await;
    f.start("i").await;
    let row = f.memory.get("i");
    assert_eq!((row.version.as_str(), row.owner), ("2.0.0", None));
    f.assert_empty();
    f.runtime
        .register("main".into(), "2.0.0".into(), "code".into())
        .expect("it is not registered yet");
    f.settle().await;
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// An instance that always continues must not keep a shutdown from its end.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_shuts_down_takes_no_next_execution() {
    let mut f = Fixture::started(
        RuntimeOptions::default(),
        &[Op::Activity("a"), Op::ContinueTo(u64::MAX, None)],
    )
    .await;
    f.start("i").await;
    f.runtime.begin_shutdown().expect("it is started");
    f.complete("a").await;
    let row = f.memory.get("i");
    assert_eq!(
        (row.execution, row.owner, row.status),
        (ExecutionId(2), None, Status::Running)
    );
    f.runtime.finish_shutdown(Duration::from_secs(1)).await;
    f.drain();
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_replay_takes_the_events_of_its_execution() {
    let options = RuntimeOptions {
        cached_instances_max: 0,
        ..RuntimeOptions::default()
    };
    let mut f = Fixture::started(
        options,
        &[Op::Activity("a"), Op::Activity("b"), Op::ContinueTo(2, None)],
    )
    .await;
    f.start("i").await;
    for name in ["a", "b", "a"] {
        f.complete(name).await;
    }
    assert_eq!(f.memory.get("i").next_event_id, EventId(5));
    f.complete("b").await;
    assert_eq!(f.attempts, ["a", "b", "a", "b"]);
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn it_can_be_terminated_in_its_next_execution() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::ContinueTo(2, None), Op::Activity("a")]).await;
    f.start("i").await;
    f.terminate("i").await;
    assert_eq!(f.memory.get("i").status, Status::Terminated);
    assert_eq!(f.aborted.len(), 1);
    f.assert_empty();
}

/// Regression test: an instance whose executions follow each other without a wait never heard of the request, because
/// each of them read it anew.
#[tokio::test(start_paused = true)]
async fn a_request_to_cancel_reaches_executions_that_never_wait() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::ContinueTo(u64::MAX, None)]).await;
    f.memory.hold(Call::Commit);
    let started = f.ask_start("i", "main");
    f.settle().await;
    let cancelled = answer();
    // The next execution is written here, and the first one is over by then.
    f.memory.write_held()();
    f.settle().await;
    assert!(started.take().expect("it was answered").is_ok());
    f.store.send(
        "i".into(),
        MessageBody::Cancel { reason: None },
        None,
        cancelled.reply(),
    );
    let ended = f.wait("i", Awaiting::End);
    f.memory.resume(Call::Commit);
    f.settle().await;
    let row = f.memory.get("i");
    assert_eq!(row.status, Status::Cancelled);
    assert_eq!(f.memory.waiting("i"), 0);
    assert!(ended.take().is_some());
    f.assert_empty();
}
