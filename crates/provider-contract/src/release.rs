//! Instances that sleep in the store.

use perdure_engine::MessageSeq;
use perdure_provider::{Epoch, Outcome, ReleaseInstance, Status, TurnCommit, WorkerId, Write};

use crate::store::{START_MS, Store, event, instance, release, turn};

/// The instance has no owner and stays `Running` until it is due.
pub async fn sleeps_until_its_time(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let due = Some(START_MS + 50);
    assert_eq!(store.commit(release(&owned, &worker, due)).await, due);
    assert_eq!(store.status("a").await.status, Status::Running);
    store.assert_nothing_due(&worker).await;
    store.clock.advance(50);
    let woken = store.acquire_one(&worker).await;
    assert!(!woken.fresh);
    assert!(woken.epoch > owned.epoch);
}

/// Only a message wakes such an instance.
pub async fn sleeps_for_ever_without_a_time(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    assert_eq!(store.commit(release(&owned, &worker, None)).await, None);
    store.clock.advance(i64::from(i32::MAX));
    let acquired = store.acquire(&worker).await;
    assert!(acquired.instances.is_empty());
    assert_eq!(acquired.next_wake_at_ms, None);
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
}

/// The message came between the worker's last look and the commit, so nothing else would ever tell of it.
pub async fn a_message_that_was_not_seen_makes_it_due_at_once(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for (id, wake_at_ms) in [("for ever", None), ("timed", Some(START_MS + 1_000_000))] {
        store.start(instance(id)).await;
        let known = store.deliver(id, event("known", "1")).await;
        let owned = store.acquire_one(&worker).await;
        let late = store.deliver(id, event("late", "2")).await;
        let asleep = TurnCommit {
            consumed: vec![known],
            ..release(&owned, &worker, wake_at_ms)
        };
        assert_eq!(asleep.seen, known);
        assert_eq!(store.commit(asleep).await, Some(store.now_ms()));
        let woken = store.acquire_one(&worker).await;
        assert_eq!(
            (
                woken.id.as_str(),
                woken.messages.messages.len(),
                woken.messages.messages[0].seq
            ),
            (id, 1, late)
        );
    }
}

/// The worker knew of the message and its code does not wait for it, so it is left for a later turn.
pub async fn a_message_that_was_seen_does_not(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.start(instance("a")).await;
    let known = store.deliver("a", event("known", "1")).await;
    let owned = store.acquire_one(&worker).await;
    let consumed = store.deliver("a", event("consumed", "2")).await;
    // A message for another instance is no reason either.
    store.start(instance("b")).await;
    store.acquire_one(&worker).await;
    store.deliver("b", event("go", "3")).await;
    let asleep = TurnCommit {
        consumed: vec![consumed],
        seen: consumed,
        ..release(&owned, &worker, None)
    };
    assert_eq!(store.commit(asleep).await, None);
    store.assert_nothing_due(&worker).await;
    assert_eq!(store.messages(owned.key).await[0].seq, known);
}

/// An instance that is overdue keeps its place.
pub async fn a_message_that_was_not_seen_does_not_delay_an_earlier_time(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.deliver("a", event("late", "1")).await;
    store.clock.advance(10);
    let asleep = release(&owned, &worker, Some(START_MS + 3));
    assert_eq!(asleep.seen, MessageSeq(0));
    assert_eq!(store.commit(asleep).await, Some(START_MS + 3));
}

/// Turns of the former owner come too late, even if the same worker has acquired the instance again (P7).
pub async fn fences_off_the_former_owner(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(release(&owned, &worker, Some(0))).await;
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    let again = store.acquire_one(&worker).await;
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    store.commit(turn(&again, &worker)).await;
}

/// A worker that holds nothing of an instance any more releases it, and another worker acquires it. A worker that
/// does not own the instance cannot release it.
pub async fn releases_only_its_own_instance(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let owned = store.owned("a", &worker).await;
    let release = |worker: &WorkerId, epoch| {
        Write::ReleaseInstance(ReleaseInstance {
            key: owned.key,
            worker: worker.clone(),
            epoch,
        })
    };
    assert_eq!(store.write(release(&other, owned.epoch)).await, Outcome::Fenced);
    assert_eq!(
        store.write(release(&worker, Epoch(owned.epoch.0 + 1))).await,
        Outcome::Fenced
    );
    store.assert_nothing_due(&other).await;
    assert_eq!(store.write(release(&worker, owned.epoch)).await, Outcome::Noted);
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    let taken = store.acquire_one(&other).await;
    assert!(taken.epoch > owned.epoch);
    assert_eq!(store.write(release(&worker, owned.epoch)).await, Outcome::Fenced);
    store.commit(turn(&taken, &other)).await;
}
