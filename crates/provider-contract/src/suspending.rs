//! Instances that a client suspends, with or without an owner.

use perdure_engine::MessageBody;
use perdure_provider::{Epoch, InstanceKey, NewInstance, Outcome, StartTime, Status, TurnCommit, WorkerId};

use crate::queues::ids;
use crate::store::{
    Handle, START_MS, Store, custom_status, end, event, instance, release, scheduled, suspend, suspend_mismatched, turn,
};

/// Suspends instance `a`, and checks its state after that.
async fn held(store: Handle<'_>, key: InstanceKey, epoch: Epoch, owner: Option<WorkerId>) {
    store.clock.advance(3);
    let before = store.status("a").await;
    assert_eq!(
        store.suspend("a", "held").await,
        Outcome::Suspended { key, epoch, owner }
    );
    let status = store.status("a").await;
    assert_eq!(
        (
            status.status,
            status.result.as_deref(),
            status.updated_at_ms,
            status.completed_at_ms
        ),
        (Status::Suspended, Some("held"), store.now_ms(), None)
    );
    assert_eq!(
        (status.custom_status, status.custom_status_version),
        (before.custom_status, before.custom_status_version)
    );
    store.clock.advance(1_000_000);
    let next = store.worker("next").await;
    store.assert_nothing_due(&next).await;
}

/// An instance that never ran is as fresh after the resume as after its start.
pub async fn holds_a_pending_instance(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    held(store, key, Epoch(0), None).await;
    assert_eq!(store.resume("a").await, Outcome::Resumed);
    assert_eq!(store.status("a").await.status, Status::Pending);
    let worker = store.worker("w").await;
    assert!(store.acquire_one(&worker).await.fresh);
}

/// An instance that was suspended before its start time begins at that time, or with the resume if that is later (P25).
pub async fn keeps_the_start_time_of_an_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["early", "late", "ended"] {
        let due = StartTime::After(1_000);
        store.start(NewInstance { due, ..instance(id) }).await;
        store.suspend(id, "held").await;
    }
    store.clock.advance(400);
    assert_eq!(store.resume("early").await, Outcome::Resumed);
    // A second suspension and a message leave the start time as it is.
    store.suspend("early", "held").await;
    store.deliver("early", event("go", "1")).await;
    assert_eq!(store.resume("early").await, Outcome::Resumed);
    assert_eq!(store.status("early").await.status, Status::Pending);
    let none = store.acquire(&worker).await;
    assert_eq!((ids(&none), none.next_wake_at_ms), (vec![], Some(START_MS + 1_000)));
    let cancelled = store.send("ended", MessageBody::Cancel { reason: None }).await;
    assert!(matches!(cancelled, Outcome::Terminated { .. }), "{cancelled:?}");
    store.clock.advance(600);
    let early = store.acquire_one(&worker).await;
    assert_eq!((early.id.as_str(), early.messages.messages.len()), ("early", 1));
    store.clock.advance(1_000);
    store.assert_nothing_due(&worker).await;
    assert_eq!(store.resume("late").await, Outcome::Resumed);
    assert_eq!(store.acquire_one(&worker).await.id, "late");
}

/// Turns of the former owner come too late (P7), before and after the resume, also when that worker owns the instance
/// again (P3).
pub async fn holds_an_owned_instance_and_fences_off_its_owner(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let first = TurnCommit {
        events: vec![scheduled(2)],
        custom_status: custom_status("1"),
        ..turn(&owned, &worker)
    };
    store.commit(first).await;
    held(store, owned.key, owned.epoch, Some(worker.clone())).await;
    let late = || TurnCommit {
        next_event_id: perdure_engine::EventId(3),
        ..turn(&owned, &worker)
    };
    assert_eq!(store.turn(late()).await, Outcome::Fenced);
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
    store.worker("w").await;
    assert_eq!(store.resume("a").await, Outcome::Resumed);
    assert_eq!(store.status("a").await.status, Status::Running);
    assert_eq!(store.turn(late()).await, Outcome::Fenced);
    let again = store.acquire_one(&worker).await;
    assert!(again.epoch > owned.epoch && !again.fresh);
    assert_eq!(store.turn(late()).await, Outcome::Fenced);
    store.commit(turn(&again, &worker)).await;
}

/// The instance is not due at its time. It is due when it is resumed.
pub async fn holds_a_sleeping_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(release(&owned, &worker, Some(START_MS + 100))).await;
    held(store, owned.key, owned.epoch, None).await;
    store.resume("a").await;
    store.acquire_one(&worker).await;
}

/// Messages come with the instance when it is resumed, and do not wake it before.
pub async fn lets_messages_wait(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.deliver("a", event("go", "1")).await;
    store.suspend("a", "held").await;
    store.deliver("a", event("go", "2")).await;
    store.assert_nothing_due(&worker).await;
    assert_eq!(store.messages(owned.key).await.len(), 2);
    store.resume("a").await;
    assert_eq!(store.acquire_one(&worker).await.messages.messages.len(), 2);
}

/// The first report stays, and an instance that other code may resume still can be.
pub async fn changes_no_suspended_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["a", "mismatched"] {
        let owned = store.owned(id, &worker).await;
        let turn = if id == "a" {
            suspend(&owned, &worker, "first")
        } else {
            suspend_mismatched(&owned, &worker, "old")
        };
        store.commit(turn).await;
        let before = store.status(id).await;
        store.clock.advance(3);
        let (key, epoch, owner) = (owned.key, owned.epoch, None);
        assert_eq!(
            store.suspend(id, "second").await,
            Outcome::Suspended { key, epoch, owner }
        );
        assert_eq!(store.status(id).await, before);
    }
    assert_eq!(store.resume_mismatched("new", None, 100).await.len(), 1);
}

/// An instance that a client holds is resumed by a request, and not by other code.
pub async fn outlasts_other_code(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.suspend("a", "held").await;
    assert_eq!(store.resume_mismatched("new", None, 100).await, []);
    assert_eq!(store.status("a").await.status, Status::Suspended);
}

/// An end is final (P6).
pub async fn changes_no_ended_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.suspend("a", "held").await, Outcome::NotFound);
    let owned = store.owned("a", &worker).await;
    store.commit(end(&owned, &worker, Some("1".into()))).await;
    let before = store.status("a").await;
    let status = Status::Completed;
    assert_eq!(store.suspend("a", "held").await, Outcome::Ended { status });
    assert_eq!(store.status("a").await, before);
}

/// The termination takes effect at once, and the report is gone.
pub async fn leaves_it_to_be_terminated(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.suspend("a", "held").await;
    store.terminate("a", Some("2".into())).await;
    let status = store.status("a").await;
    assert_eq!(
        (status.status, status.result.as_deref()),
        (Status::Terminated, Some("2"))
    );
}
