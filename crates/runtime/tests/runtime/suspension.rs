//! Suspended instances: nothing of their turn is stored, they wait for a person to look, and they go on when resumed.

use perdure_provider::{ProviderErrorKind, Status, Write};

use crate::support::{Call, Fixture, Op, answer};
use perdure_runtime::{Awaiting, RuntimeOptions};

/// Keeps no generators, so that changed code shows at the next turn.
fn replaying() -> RuntimeOptions {
    RuntimeOptions {
        cached_instances_max: 0,
        ..RuntimeOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn code_that_does_not_fit_stores_nothing_and_the_old_code_continues() {
    let mut f = Fixture::started(replaying(), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.start("i").await;
    f.script("main", &[Op::Activity("other"), Op::Activity("b")]);
    f.complete("a").await;
    let row = f.memory.get("i");
    assert_eq!((row.status, row.owner, row.history.len()), (Status::Suspended, None, 2));
    assert!(row.report.expect("it says why").contains("NONDETERMINISM"));
    f.assert_empty();

    f.script("main", &[Op::Activity("a"), Op::Activity("b")]);
    let resumed = answer();
    f.store.resume("i".into(), resumed.reply());
    f.settle().await;
    assert_eq!(resumed.take(), Some(Ok(())));
    f.complete("a").await;
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_the_store_refuses_suspends_its_instance_alone() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Event("go")]).await;
    f.start("bad").await;
    f.start("good").await;
    let bad_key = 1;
    f.memory
        .refuse(move |write| matches!(write, Write::Turn(turn) if turn.key.0 == bad_key && !turn.events.is_empty()));
    f.complete("a").await;
    f.complete("a").await;
    assert_eq!(f.memory.get("bad").status, Status::Suspended);
    assert_eq!(f.memory.get("good").status, Status::Running);
    f.event("good", "go").await;
    assert_eq!(f.memory.get("good").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_history_that_cannot_be_read_at_all_suspends_its_instance() {
    let mut f = Fixture::started(replaying(), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.start("i").await;
    f.memory.fail(Call::Load, ProviderErrorKind::Corrupt, 1);
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Suspended);
    let ended = f.wait("i", Awaiting::End);
    f.terminate("i").await;
    assert!(ended.take().expect("it is told").is_ok());
    f.assert_empty();
}
