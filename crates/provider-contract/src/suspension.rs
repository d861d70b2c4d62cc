//! Instances that are held until they are resumed.

use perdure_engine::EventId;
use perdure_provider::{Outcome, Status, TurnCommit};

use crate::store::{Store, custom_status, instance, scheduled, suspend, turn};

/// Nobody owns it, nobody acquires it, and its report is its result.
pub async fn holds_the_instance_with_its_report(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    assert_eq!(store.commit(suspend(&owned, &worker, "two\nlines")).await, None);
    let status = store.status("a").await;
    assert_eq!(
        (status.status, status.result.as_deref()),
        (Status::Suspended, Some("two\nlines"))
    );
    assert_eq!(status.completed_at_ms, None);
    store.clock.advance(1_000_000);
    store.assert_nothing_due(&worker).await;
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
    assert_eq!(
        store.history(owned.key).await.len(),
        1,
        "nothing of the turn was stored"
    );
}

/// Without the report, for whoever acquires it.
pub async fn ends_with_resume_and_is_due_at_once(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store
        .commit(TurnCommit {
            events: vec![scheduled(2)],
            ..turn(&owned, &worker)
        })
        .await;
    let held = TurnCommit {
        next_event_id: EventId(3),
        ..suspend(&owned, &worker, "why")
    };
    store.commit(held).await;
    store.clock.advance(5);
    assert_eq!(store.resume("a").await, Outcome::Resumed);
    let status = store.status("a").await;
    assert_eq!(
        (status.status, status.result, status.updated_at_ms),
        (Status::Running, None, store.now_ms())
    );
    let taken = store.acquire_one(&worker).await;
    assert_eq!(
        (taken.fresh, taken.next_event_id, taken.history.len()),
        (false, EventId(3), 2)
    );
    assert!(taken.epoch > owned.epoch);
}

/// Its first turn never came about: its code did not load, say.
pub async fn keeps_an_instance_fresh(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    store.resume("a").await;
    assert_eq!(store.status("a").await.status, Status::Pending);
    assert!(store.acquire_one(&worker).await.fresh);
}

/// One that had a turn has had it.
pub async fn is_no_first_turn_for_an_instance_that_had_one(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store
        .commit(TurnCommit {
            custom_status: custom_status("1"),
            ..turn(&owned, &worker)
        })
        .await;
    store.commit(suspend(&owned, &worker, "why")).await;
    assert_eq!(store.status("a").await.custom_status.as_deref(), Some("1"));
    store.resume("a").await;
    assert_eq!(store.status("a").await.status, Status::Running);
    assert!(!store.acquire_one(&worker).await.fresh);
}

/// What its worker still sends comes too late, before and after the resume.
pub async fn fences_off_the_former_owner(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    store.resume("a").await;
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    store.acquire_one(&worker).await;
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
}

/// It says what the instance is instead.
pub async fn resume_changes_nothing_else(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.resume("a").await, Outcome::NotFound);
    store.start(instance("a")).await;
    let not = |status| Outcome::NotSuspended { status };
    assert_eq!(store.resume("a").await, not(Status::Pending));
    let owned = store.acquire_one(&worker).await;
    store.commit(turn(&owned, &worker)).await;
    let before = store.status("a").await;
    assert_eq!(store.resume("a").await, not(Status::Running));
    assert_eq!(store.status("a").await, before);
    store.commit(turn(&owned, &worker)).await;
    store.terminate("a", None).await;
    assert_eq!(store.resume("a").await, not(Status::Terminated));
}
