//! Starts that are written with their first turn.

use std::time::Duration;

use perdure_provider::{ProviderErrorKind, Status, Write};
use tokio::time::Instant;

use crate::support::{Call, Fixture, Op};
use perdure_runtime::{RuntimeError, RuntimeOptions};

#[tokio::test(start_paused = true)]
async fn a_refused_start_takes_its_first_turn_with_it() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Trace("began"), Op::Activity("a")]).await;
    f.start("i").await;
    f.complete("a").await;
    assert_eq!(f.logged, ["began"]);
    let again = f.ask_start("i", "main");
    f.settle().await;
    assert!(matches!(again.take(), Some(Err(RuntimeError::InstanceExists { .. }))));
    assert_eq!(f.turns.len(), 3, "it was run");
    assert_eq!((f.attempts.len(), f.logged.len()), (1, 1), "and nothing of it left");
    assert_eq!(f.memory.get("i").turns, 2);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_start_that_the_session_does_not_come_to_is_left_to_others() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    // The start waits in the lane, which is not drained.
    let started = f.ask_start("i", "main");
    f.runtime.begin_shutdown().expect("it is started");
    f.runtime.finish_shutdown(Duration::from_secs(1)).await;
    f.settle().await;
    assert_eq!(started.take(), Some(Ok(())));
    let row = f.memory.get("i");
    assert_eq!((row.status, row.turns, row.owner), (Status::Pending, 0, None));
    assert_eq!(f.turns.len(), 0);
    f.assert_empty();
    f.begin().await;
    assert_eq!(f.attempts, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_starts_that_are_being_written() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    f.memory.hold(Call::Commit);
    let started = f.ask_start("i", "main");
    f.settle().await;
    f.runtime.begin_shutdown().expect("it is started");
    let before = Instant::now();
    let soon = async {
        crate::support::sleep(Duration::from_secs(1)).await;
        f.memory.resume(Call::Commit);
    };
    tokio::join!(f.runtime.finish_shutdown(Duration::from_secs(60)), soon);
    assert_eq!(before.elapsed().as_secs(), 1);
    f.drain();
    assert_eq!(started.take(), Some(Ok(())));
    assert_eq!(f.memory.get("i").turns, 1);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_start_that_cannot_be_written_is_an_error_of_its_caller() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    f.memory.fail(Call::Commit, ProviderErrorKind::Corrupt, 1);
    let started = f.ask_start("i", "main");
    f.settle().await;
    assert!(matches!(started.take(), Some(Err(RuntimeError::Provider(_)))));
    assert_eq!(f.attempts.len(), 0);
    f.assert_empty();
    // The instance was not there, so it can be started.
    f.start("i").await;
    assert_eq!(f.attempts, ["a"]);
}

/// Regression test: a message that was read before the start was answered was lost.
#[tokio::test(start_paused = true)]
async fn a_message_that_comes_before_the_answer_to_the_start_is_delivered() {
    let mut f = Fixture::with_commits(RuntimeOptions::default(), 2);
    f.script("main", &[Op::Spawn("a"), Op::Event("go")]);
    f.begin().await;
    f.memory.hold(Call::Commit);
    let started = f.ask_start("i", "main");
    f.settle().await;
    let answer = f.memory.write_held();
    f.memory.resume(Call::Commit);
    f.event("i", "go").await;
    assert!(started.take().is_none());
    answer();
    f.settle().await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: the instance that had been released took the place of the acquired one in the table. The worker did
/// not know of the acquired one any more, which ran on all the same while the comparison with the store gave it to
/// other workers.
#[tokio::test(start_paused = true)]
async fn a_start_whose_answer_comes_after_the_instance_was_acquired_again_does_not_take_its_place() {
    let mut f = Fixture::with_commits(RuntimeOptions::default(), 2);
    f.script(
        "main",
        &[Op::Trace("began"), Op::Event("go"), Op::Activity("a"), Op::Event("on")],
    );
    f.begin().await;
    f.memory.hold(Call::Commit);
    let started = f.ask_start("i", "main");
    f.settle().await;
    let answer = f.memory.write_held();
    f.memory.resume(Call::Commit);
    f.event("i", "go").await;
    assert_eq!((f.attempts.len(), started.take()), (1, None));
    answer();
    f.settle().await;
    assert_eq!(started.take(), Some(Ok(())));
    assert_eq!(f.logged, ["began"]);
    assert!(f.session().expect("it is started").owns("i"));
    f.complete("a").await;
    f.event("i", "on").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// The instance is there, held until a person looks at it; the start is no failure.
#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_run_is_suspended_after_its_start() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    let started = f.ask_start("i", "main");
    let token = f.next_turn();
    f.runtime
        .suspend(token, "no such function", None)
        .expect("it has a turn");
    f.settle().await;
    assert_eq!(started.take(), Some(Ok(())));
    let row = f.memory.get("i");
    assert_eq!((row.status, row.turns), (Status::Suspended, 0));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_wait_is_one_commit() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[]).await;
    f.start("i").await;
    assert_eq!(f.memory.batches(), [1]);
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.memory.refuse(|write| matches!(write, Write::Turn(_)));
    f.start("j").await;
    f.assert_empty();
}

/// A refused start would have been reported, too.
#[tokio::test(start_paused = true)]
async fn the_host_is_told_of_an_end_once_it_is_durable() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[]).await;
    f.start("unheard").await;
    f.runtime.report_ends(true);
    f.memory.hold(Call::Commit);
    let _started = f.ask_start("i", "main");
    f.settle().await;
    assert_eq!(f.ended, []);
    f.memory.resume(Call::Commit);
    f.settle().await;
    let _refused = f.ask_start("i", "main");
    f.settle().await;
    assert_eq!(f.ended, [("i".to_owned(), Status::Completed)]);
}
