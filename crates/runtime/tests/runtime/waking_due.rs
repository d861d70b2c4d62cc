//! Wakes of instances that are due, and whose generators the worker has kept: their turns acquire them.

use perdure_provider::{ProviderErrorKind, Status, WorkerId, Write};

use crate::support::{Call, Fixture, Op};
use crate::waking::{TWO_EVENTS, asleep};

/// Sends an event from another process, and lets all happen that follows.
async fn event(f: &mut Fixture, event: &str) {
    f.memory.send("i", event);
    f.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_from_another_process_is_consumed_by_one_commit() {
    let mut f = asleep(TWO_EVENTS).await;
    let (before, epoch) = (f.memory.batches().len(), f.memory.get("i").epoch);
    f.memory.hold(Call::Acquire);
    for name in ["go", "on"] {
        event(&mut f, name).await;
    }
    let row = f.memory.get("i");
    assert_eq!((row.status, row.epoch), (Status::Completed, epoch + 2));
    assert_eq!(f.memory.batches()[before..], [1, 1]);
    assert_eq!((f.logged.clone(), f.memory.waiting("i")), (vec!["went".to_owned()], 0));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn so_are_several_messages_together() {
    let mut f = asleep(TWO_EVENTS).await;
    let before = f.memory.batches().len();
    f.memory.send("i", "go");
    event(&mut f, "on").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.memory.batches()[before..], [1]);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_timer_is_one_commit() {
    let mut f = asleep(&[Op::Sleep(30_000), Op::Trace("slept"), Op::Event("go")]).await;
    let (before, epoch) = (f.memory.batches().len(), f.memory.get("i").epoch);
    f.memory.hold(Call::Acquire);
    f.advance(31_000).await;
    assert_eq!(f.logged, ["slept"]);
    let row = f.memory.get("i");
    assert_eq!((row.owner, row.epoch), (None, epoch + 1));
    assert_eq!(f.memory.batches()[before..], [1]);
    event(&mut f, "go").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_goes_on_is_the_workers() {
    let mut f = asleep(&[Op::Event("go"), Op::Activity("a")]).await;
    event(&mut f, "go").await;
    assert!(f.session().expect("it is started").owns("i"));
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// The turn has not seen it, so it is fenced off, and nothing of it leaves the process.
#[tokio::test(start_paused = true)]
async fn a_message_that_comes_meanwhile_is_not_lost() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory.hold(Call::Commit);
    event(&mut f, "go").await;
    event(&mut f, "on").await;
    assert_eq!(f.logged.len(), 0);
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(
        (f.memory.get("i").status, f.logged.clone()),
        (Status::Completed, vec!["went".to_owned()])
    );
    f.assert_empty();
}

/// Nothing is to be written that would acquire it.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_awaited_leaves_the_instance_asleep() {
    let mut f = asleep(TWO_EVENTS).await;
    event(&mut f, "on").await;
    assert_eq!(
        (f.memory.waiting("i"), f.memory.get("i").owner, f.generators()),
        (1, None, 1)
    );
    event(&mut f, "go").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_the_store_refuses_is_run_again_after_an_acquisition() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory
        .refuse(|write| matches!(write, Write::Turn(turn) if turn.wakes));
    event(&mut f, "go").await;
    assert_eq!((f.logged.clone(), f.memory.waiting("i")), (vec!["went".to_owned()], 0));
    event(&mut f, "on").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_outcome_is_unknown_is_not_lost() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory.fail_unknown(Call::Commit, ProviderErrorKind::Corrupt);
    event(&mut f, "go").await;
    event(&mut f, "on").await;
    f.advance(60_000).await;
    assert_eq!(
        (f.memory.get("i").status, f.logged.clone()),
        (Status::Completed, vec!["went".to_owned()])
    );
    f.assert_empty();
}

/// No other worker is to run the same turn, and a turn that never ends must be evidence against the instance.
#[tokio::test(start_paused = true)]
async fn an_instance_whose_turn_takes_long_is_acquired_meanwhile() {
    let mut f = asleep(TWO_EVENTS).await;
    let epoch = f.memory.get("i").epoch;
    f.memory.send("i", "go");
    // The thread does not come to the turn.
    f.hang(1).await;
    let row = f.memory.get("i");
    assert_eq!(row.owner.map(|owner| owner.0.to_string()), Some(f.runtime_worker()));
    assert_eq!((row.epoch, f.memory.waiting("i"), f.logged.len()), (epoch + 1, 1, 0));
    // A message that comes now is for the owner.
    f.memory.send("i", "on");
    f.settle().await;
    assert_eq!(
        (f.memory.get("i").epoch, f.logged.clone()),
        (epoch + 1, vec!["went".to_owned()])
    );
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn code_that_does_not_fit_is_suspended_by_the_next_turn() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory.send("i", "go");
    f.hang(0).await;
    let token = f.next_turn();
    f.runtime
        .suspend(token, "no such function", None)
        .expect("it has a turn");
    f.settle().await;
    assert_eq!((f.memory.waiting("i"), f.logged.clone()), (0, vec!["went".to_owned()]));
    event(&mut f, "on").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// An instance that another worker ran last is left to that one for a while.
#[tokio::test(start_paused = true)]
async fn an_instance_is_left_to_the_worker_that_ran_it_last() {
    let mut f = asleep(TWO_EVENTS).await;
    f.memory.add_worker("elsewhere");
    f.memory
        .row("i", |row| row.released_by = Some(WorkerId("elsewhere".into())));
    event(&mut f, "go").await;
    assert_eq!((f.memory.waiting("i"), f.logged.len()), (1, 0));
    f.advance(100).await;
    assert_eq!((f.memory.waiting("i"), f.logged.len()), (0, 1));
    f.memory.remove_worker("elsewhere");
    event(&mut f, "on").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}
