//! Waits for the end or the custom status of an instance.

use perdure_provider::{ProviderErrorKind, Status};

use crate::support::{Call, Fixture, Op};
use perdure_runtime::internals::waits;
use perdure_runtime::{Awaiting, RuntimeError, RuntimeOptions};

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_instance_and_with_its_custom_status() {
    let script = &[Op::Event("go"), Op::Status("half"), Op::Event("go")];
    let mut f = Fixture::started(RuntimeOptions::default(), script).await;
    f.start("i").await;
    let end = f.wait("i", Awaiting::End);
    let status = f.wait("i", Awaiting::StatusAfter(0));
    f.settle().await;
    assert!(end.take().is_none() && status.take().is_none());
    f.event("i", "go").await;
    let half = status.take().expect("it changed").expect("it is there");
    assert_eq!((half.status, half.custom_status_version), (Status::Running, 1));
    assert!(end.take().is_none());
    f.event("i", "go").await;
    assert_eq!(
        end.take().expect("it ended").expect("it is there").status,
        Status::Completed
    );
    f.assert_empty();
}

/// A start and its result are then two commits, and no read.
#[tokio::test(start_paused = true)]
async fn the_commit_that_brings_the_change_tells_it_without_a_read() {
    let script = &[Op::Event("go"), Op::Status("half"), Op::Event("go")];
    let mut f = Fixture::started(RuntimeOptions::default(), script).await;
    f.start("i").await;
    let status = f.wait("i", Awaiting::StatusAfter(0));
    f.settle().await;
    f.memory.hold(Call::Statuses);
    let end = f.wait("i", Awaiting::End);
    f.event("i", "go").await;
    assert!(status.take().is_some());
    f.event("i", "go").await;
    let end = end.take().map(|answer| answer.map(|status| status.status));
    // The instance slept on its event, so a first look was due; that look has not come back.
    assert_eq!(end, Some(Ok(Status::Completed)));
    f.memory.resume(Call::Statuses);
    f.settle().await;
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_earlier_end_and_a_missing_instance_are_reported_at_once() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[]).await;
    f.start("i").await;
    let (ended, absent) = (f.wait("i", Awaiting::End), f.wait("nobody", Awaiting::End));
    f.settle().await;
    assert!(ended.take().expect("it is told").is_ok());
    assert!(matches!(
        absent.take(),
        Some(Err(RuntimeError::InstanceNotFound { .. }))
    ));
    f.assert_empty();
}

/// Regression test: a wait for an instance that had just been started was answered with "there is none" when a read for
/// another wait for the same id was under way that had begun before the start.
#[tokio::test(start_paused = true)]
async fn a_read_that_began_before_a_wait_says_nothing_about_it() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Event("go")]).await;
    f.memory.hold(Call::Statuses);
    let early = f.wait("i", Awaiting::End);
    f.settle().await;
    f.start("i").await;
    let late = f.wait("i", Awaiting::End);
    f.settle().await;
    f.memory.resume(Call::Statuses);
    f.settle().await;
    assert!(matches!(early.take(), Some(Err(RuntimeError::InstanceNotFound { .. }))));
    assert!(late.take().is_none(), "it runs");
    f.event("i", "go").await;
    assert!(late.take().expect("it ended").is_ok());
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_wait_is_never_told() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Event("go")]).await;
    f.start("i").await;
    let wait = f.wait("i", Awaiting::End);
    f.settle().await;
    f.store.abandon((0, 1));
    f.event("i", "go").await;
    assert!(wait.take().is_none());
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_busy_store_is_asked_again() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[]).await;
    f.start("i").await;
    f.memory.fail(Call::Statuses, ProviderErrorKind::Busy, 2);
    let wait = f.wait("i", Awaiting::End);
    for _ in 0..5 {
        f.advance(50).await;
    }
    assert!(wait.take().expect("it is told").is_ok());
}

/// Regression test: all waits of the process ended with the error of one status.
#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_read_ends_its_own_waits_alone() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Event("go")]).await;
    f.start("i").await;
    let (bad, good) = (f.wait("damaged", Awaiting::End), f.wait("i", Awaiting::End));
    f.settle().await;
    assert!(matches!(bad.take(), Some(Err(RuntimeError::Provider(_)))));
    assert!(good.take().is_none());
    f.event("i", "go").await;
    assert!(good.take().expect("it ended").is_ok());
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn all_are_told_when_the_store_is_closed() {
    let mut f = Fixture::new(RuntimeOptions::default());
    f.memory.hold(Call::Statuses);
    let wait = f.wait("i", Awaiting::End);
    f.settle().await;
    let closed = crate::support::answer();
    f.store.close(closed.reply());
    let late = f.wait("i", Awaiting::End);
    f.memory.resume(Call::Statuses);
    f.settle().await;
    assert_eq!(closed.take(), Some(Ok(())));
    assert!(wait.take().is_some());
    assert!(matches!(late.take(), Some(Err(e)) if e.code() == "RUNTIME_STATE"));
    assert_eq!(waits(&f.store), 0);
}
