//! Instances whose code did not fit go on when other code is registered (U1, U2).

use std::time::Duration;

use perdure_provider::{ProviderErrorKind, Status, Write};
use tokio::time::Instant;

use crate::support::{Call, Fixture, Op, Script, answer};
use perdure_runtime::RuntimeOptions;
use perdure_runtime::internals::limits::RESUME_BATCH;

const RIGHT: Script = &[Op::Activity("a"), Op::Activity("b")];
const WRONG: Script = &[Op::Activity("other")];

fn options() -> RuntimeOptions {
    RuntimeOptions {
        lease: Duration::from_secs(3),
        ..RuntimeOptions::default()
    }
}

/// Returns a runtime with the wrong code, which has suspended the instance `i`.
async fn suspended() -> Fixture {
    let mut f = Fixture::started(options(), RIGHT).await;
    f.start("i").await;
    f.deploy(Some(WRONG)).await;
    assert_eq!(f.memory.get("i").status, Status::Suspended);
    f
}

/// Completes the instance, with code that fits.
async fn complete(f: &mut Fixture) {
    f.complete("a").await;
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

fn told(f: &Fixture, what: &str) -> Vec<String> {
    f.logged.iter().filter(|line| line.contains(what)).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn an_instance_continues_when_a_runtime_starts_with_other_code() {
    let mut f = suspended().await;
    f.deploy(Some(RIGHT)).await;
    assert_eq!(
        told(&f, "continue"),
        ["orchestration 'main' version '1.0.0' has new code; suspended instances that continue: 1"]
    );
    complete(&mut f).await;
}

#[tokio::test(start_paused = true)]
async fn it_stays_suspended_when_a_runtime_starts_with_the_same_code() {
    let mut f = suspended().await;
    let turns = f.turns.len();
    f.deploy(Some(WRONG)).await;
    assert_eq!((f.memory.get("i").status, f.turns.len()), (Status::Suspended, turns));
    let resumed = answer();
    f.store.resume("i".into(), resumed.reply());
    f.settle().await;
    assert_eq!(resumed.take(), Some(Ok(())));
    assert_eq!(f.turns.len(), turns + 1, "a client can have it tried");
    assert_eq!(f.memory.get("i").status, Status::Suspended);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_its_next_code_when_other_code_does_not_fit_either() {
    let mut f = suspended().await;
    let first = f.memory.get("i").mismatched_code;
    f.deploy(Some(&[Op::Sleep(1)])).await;
    let row = f.memory.get("i");
    assert_eq!(row.status, Status::Suspended);
    assert_ne!(row.mismatched_code, first);
    f.deploy(Some(RIGHT)).await;
    complete(&mut f).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_continues_when_its_orchestration_is_registered_later() {
    let mut f = suspended().await;
    f.deploy(None).await;
    assert_eq!(f.memory.get("i").status, Status::Suspended);
    f.script("main", RIGHT);
    f.settle().await;
    complete(&mut f).await;
}

/// Regression test: the names to acquire were read before the versions were announced, and what had become due for a
/// name that was registered meanwhile was forgotten.
#[tokio::test(start_paused = true)]
async fn an_orchestration_registered_while_another_one_is_announced_is_acquired() {
    let mut f = suspended().await;
    f.deploy(None).await;
    f.memory.hold(Call::AnnounceVersions);
    f.script("other", RIGHT);
    f.settle().await;
    f.script("main", RIGHT);
    f.settle().await;
    f.memory.resume(Call::AnnounceVersions);
    f.settle().await;
    complete(&mut f).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_suspended_for_another_reason_waits_for_a_client() {
    let mut f = Fixture::started(options(), RIGHT).await;
    f.start("i").await;
    f.memory
        .refuse(|write| matches!(write, Write::Turn(turn) if !turn.events.is_empty()));
    f.complete("a").await;
    let row = f.memory.get("i");
    assert_eq!((row.status, row.mismatched_code), (Status::Suspended, None));
    f.deploy(Some(&[Op::Activity("a"), Op::Activity("other")])).await;
    assert_eq!(f.memory.get("i").status, Status::Suspended);
    f.assert_empty();
}

/// With U1: an instance that another worker suspended meanwhile is not looked for.
#[tokio::test(start_paused = true)]
async fn a_worker_that_starts_over_resumes_nothing() {
    let mut f = suspended().await;
    f.memory
        .row("i", |row| row.mismatched_code = Some("of another worker".into()));
    let worker = f.runtime_worker();
    f.memory.remove_worker(&worker);
    for _ in 0..3 {
        f.advance(600).await;
    }
    assert_ne!(f.runtime_worker(), worker);
    assert_eq!(told(&f, "continue"), [] as [String; 0]);
    f.shut_down(Duration::ZERO).await;
    f.begin().await;
    assert_eq!(told(&f, "continue").len(), 1, "a start does");
}

#[tokio::test(start_paused = true)]
async fn more_instances_than_one_write_takes_continue_in_several() {
    let mut f = Fixture::started(options(), &[Op::Event("go")]).await;
    let ids: Vec<String> = (0..=RESUME_BATCH).map(|n| format!("i{n}")).collect();
    for id in &ids {
        f.ask_start(id, "main");
    }
    f.settle().await;
    f.shut_down(Duration::ZERO).await;
    for id in &ids {
        f.memory.row(id, |row| {
            row.status = Status::Suspended;
            (row.owner, row.wake_at_ms) = (None, None);
            row.mismatched_code = Some("old".into());
        });
    }
    f.begin().await;
    let counts: Vec<String> = told(&f, "continue")
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(counts, [RESUME_BATCH.to_string(), "1".into()]);
    for id in &ids {
        assert_ne!(f.memory.get(id).status, Status::Suspended, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_store_is_asked_again() {
    let mut f = suspended().await;
    f.memory.fail(Call::ResumeMismatched, ProviderErrorKind::Busy, 3);
    f.deploy(Some(RIGHT)).await;
    assert_eq!(f.memory.get("i").status, Status::Suspended);
    for _ in 0..3 {
        f.advance(100).await;
    }
    complete(&mut f).await;
}

/// A problem of one orchestration does not concern the others.
#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_told() {
    let mut f = suspended().await;
    f.memory.fail(Call::ResumeMismatched, ProviderErrorKind::Corrupt, 1);
    f.deploy(Some(RIGHT)).await;
    assert_eq!(told(&f, "wait to be resumed by a client").len(), 1);
    assert_eq!(f.memory.get("i").status, Status::Suspended);
    f.shut_down(Duration::ZERO).await;
    f.begin().await;
    complete(&mut f).await;
}

/// Regression test: the look resumed instances that other code had suspended by then, for code that was gone.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_look_and_lets_no_other_begin() {
    let mut f = Fixture::started(options(), RIGHT).await;
    f.shut_down(Duration::ZERO).await;
    f.memory.hold(Call::ResumeMismatched);
    f.begin().await;
    let before = Instant::now();
    f.runtime.begin_shutdown().expect("it is started");
    let answered = async {
        crate::support::sleep(Duration::from_secs(2)).await;
        f.memory.resume(Call::ResumeMismatched);
    };
    tokio::join!(f.runtime.finish_shutdown(Duration::from_secs(60)), answered);
    assert_eq!(before.elapsed().as_secs(), 2);
    f.assert_empty();

    // A look that the store was too busy for is not tried again.
    f.memory.fail(Call::ResumeMismatched, ProviderErrorKind::Busy, 1);
    f.begin().await;
    f.runtime.begin_shutdown().expect("it is started");
    let before = Instant::now();
    f.runtime.finish_shutdown(Duration::from_secs(60)).await;
    assert_eq!(before.elapsed().as_secs(), 0);
    f.assert_empty();
}
