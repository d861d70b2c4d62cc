//! Wakes: the message, the acquisition and the turn of a sleeping instance in one commit.

use std::time::Duration;

use perdure_provider::{ProviderErrorKind, Status, Write};
use perdure_runtime::{RuntimeError, RuntimeOptions};

use crate::support::{Call, Fixture, Op, Script};

pub(crate) const TWO_EVENTS: Script = &[Op::Event("go"), Op::Trace("went"), Op::Event("on")];

/// Returns a fixture with the instance `i`, which sleeps.
pub(crate) async fn asleep(script: Script) -> Fixture {
    let mut f = Fixture::started(RuntimeOptions::default(), script).await;
    f.start("i").await;
    assert_eq!(f.memory.get("i").owner, None);
    f
}

fn writes_message(write: &Write) -> bool {
    matches!(write, Write::Message(_))
}

#[tokio::test(start_paused = true)]
async fn a_wake_is_one_commit() {
    let mut f = asleep(TWO_EVENTS).await;
    let (before, epoch) = (f.memory.batches().len(), f.memory.get("i").epoch);
    f.memory.refuse(writes_message);
    for event in ["go", "on"] {
        f.event("i", event).await;
    }
    let row = f.memory.get("i");
    assert_eq!((row.status, row.epoch), (Status::Completed, epoch + 2));
    assert_eq!(f.memory.batches()[before..], [1, 1]);
    assert_eq!(f.logged, ["went"]);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_woken_instance_that_goes_on_is_the_workers() {
    let mut f = asleep(&[Op::Event("go"), Op::Activity("a")]).await;
    f.event("i", "go").await;
    assert_eq!(
        f.memory.get("i").owner.map(|owner| owner.0.to_string()),
        Some(f.runtime_worker())
    );
    assert!(f.session().expect("it is started").owns("i"));
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// The sender is told when the turn is durable, and not before.
#[tokio::test(start_paused = true)]
async fn the_sender_waits_for_the_turn() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory.hold(Call::Commit);
    let sent = f.ask_event("i", "go");
    f.settle().await;
    assert_eq!((sent.take(), f.logged.len()), (None, 0));
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!((sent.take(), f.logged.len()), (Some(Ok(())), 1));
    f.event("i", "on").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn later_messages_follow_in_order() {
    let mut f = asleep(&[Op::Event("go"), Op::Event("go"), Op::Event("go")]).await;
    let sent = [f.ask_event("i", "go"), f.ask_event("i", "go"), f.ask_event("i", "go")];
    f.settle().await;
    assert!(sent.iter().all(|sent| sent.take() == Some(Ok(()))));
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// The code does not wait for it, so a turn would not consume it.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_awaited_goes_to_the_store() {
    let mut f = asleep(TWO_EVENTS).await;
    f.event("i", "on").await;
    assert_eq!(f.memory.waiting("i"), 1);
    // The store has a message, so the next one goes there as well.
    f.event("i", "go").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_acquired_meanwhile_gets_the_message_from_the_store() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory.row("i", |row| row.epoch.0 += 1);
    f.event("i", "go").await;
    assert_eq!(f.logged, ["went"], "nothing of the refused turn left");
    f.event("i", "on").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_suspended_instance_keeps_the_message() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory.row("i", |row| row.status = Status::Suspended);
    f.event("i", "go").await;
    assert_eq!((f.memory.waiting("i"), f.logged.len()), (1, 0));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_has_ended_refuses_the_message() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory.hold(Call::Commit);
    let sent = f.ask_event("i", "go");
    f.memory.row("i", |row| row.status = Status::Terminated);
    f.settle().await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert!(matches!(sent.take(), Some(Err(RuntimeError::InstanceEnded { .. }))));
    f.assert_empty();
}

/// The generator has gone on, and nothing of that is stored: the instance comes back from its history.
#[tokio::test(start_paused = true)]
async fn a_turn_that_the_store_refuses_leaves_the_message_to_the_store() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory
        .refuse(|write| matches!(write, Write::Turn(turn) if turn.wakes));
    f.event("i", "go").await;
    assert_eq!((f.logged.clone(), f.memory.waiting("i")), (vec!["went".to_owned()], 0));
    f.event("i", "on").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn the_sender_hears_of_an_unknown_outcome() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory.fail_unknown(Call::Commit, ProviderErrorKind::Corrupt);
    let sent = f.ask_event("i", "go");
    f.settle().await;
    assert!(matches!(sent.take(), Some(Err(RuntimeError::Provider(_)))));
    assert_eq!(f.memory.waiting("i"), 0, "it is not sent twice");
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_leaves_a_wake_to_the_store() {
    let mut f = asleep(TWO_EVENTS).await;
    // The wake waits in the lane, which is not drained.
    let sent = f.ask_event("i", "go");
    f.runtime.begin_shutdown().expect("it is started");
    f.runtime.finish_shutdown(Duration::from_secs(1)).await;
    f.settle().await;
    assert_eq!((sent.take(), f.memory.waiting("i")), (Some(Ok(())), 1));
    assert_eq!(f.memory.get("i").owner, None);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn code_that_does_not_fit_is_suspended_by_the_next_turn() {
    let mut f = asleep(TWO_EVENTS).await;
    let sent = f.ask_event("i", "go");
    let token = f.next_turn();
    f.runtime
        .suspend(token, "no such function", None)
        .expect("it has a turn");
    f.settle().await;
    assert_eq!(sent.take(), Some(Ok(())));
    assert_eq!((f.memory.waiting("i"), f.logged.clone()), (0, vec!["went".to_owned()]));
    f.event("i", "on").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_termination_meanwhile_is_told_to_the_sender() {
    let mut f = asleep(TWO_EVENTS).await;
    let sent = f.ask_event("i", "go");
    f.terminate("i").await;
    f.settle().await;
    assert!(matches!(sent.take(), Some(Err(RuntimeError::InstanceEnded { .. }))));
    assert_eq!((f.memory.get("i").status, f.logged.len()), (Status::Terminated, 0));
    f.assert_empty();
}
