//! Terminations: they take effect at once, in any state of the instance and with any owner.

use perdure_engine::{EventId, EventRecord, Payload, TerminationEvent};
use perdure_provider::{InstanceKey, Outcome, Status, TurnCommit, WorkerId};

use crate::store::{Handle, START_MS, Store, end, event, instance, release, scheduled, suspend, turn};

/// Terminates instance `a`, which has `events` events, and checks all that remains of it.
async fn terminated(store: Handle<'_>, key: InstanceKey, events: u64, owner: Option<WorkerId>) {
    store.clock.advance(3);
    let reason: Payload = Some("\"enough\"".into());
    assert_eq!(
        store.terminate("a", reason.clone()).await,
        Outcome::Terminated {
            key,
            owner,
            receivers: Vec::new(),
            stopped: Vec::new()
        }
    );
    let status = store.status("a").await;
    assert_eq!(
        (status.status, status.result.clone()),
        (Status::Terminated, reason.clone())
    );
    assert_eq!(
        (status.completed_at_ms, status.updated_at_ms),
        (Some(store.now_ms()), store.now_ms())
    );
    let history = store.history(key).await;
    assert_eq!(history.len() as u64, events + 1);
    let last = EventRecord::new(
        EventId(events + 1),
        store.now_ms(),
        TerminationEvent::ExecutionTerminated { reason },
    );
    assert_eq!(history.last(), Some(&last));

    store.clock.advance(1_000_000);
    let next = store.worker("next").await;
    store.assert_nothing_due(&next).await;
    assert_eq!(
        store.terminate("a", None).await,
        Outcome::Ended {
            status: Status::Terminated
        }
    );
    assert_eq!(store.status("a").await, status);
}

/// The instance never ran.
pub async fn ends_a_pending_instance(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    terminated(store, key, 1, None).await;
}

/// The outcome names the owner, and its later turns are fenced off (P7).
pub async fn ends_an_owned_instance_and_fences_off_its_owner(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store
        .commit(TurnCommit {
            events: vec![scheduled(2)],
            ..turn(&owned, &worker)
        })
        .await;
    terminated(store, owned.key, 2, Some(worker.clone())).await;
    for next_event_id in [EventId(3), EventId(4)] {
        let late = TurnCommit {
            next_event_id,
            ..turn(&owned, &worker)
        };
        assert_eq!(store.turn(late).await, Outcome::Fenced);
    }
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
}

/// A termination does not wake the instance.
pub async fn ends_a_sleeping_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(release(&owned, &worker, Some(START_MS + 100))).await;
    terminated(store, owned.key, 1, None).await;
}

/// No report remains.
pub async fn ends_a_suspended_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    terminated(store, owned.key, 1, None).await;
}

/// Messages of an instance are dropped in the commit that ends it (P6).
pub async fn drops_the_messages(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let other = store.owned("b", &worker).await;
    store.deliver("a", event("go", "1")).await;
    store.deliver("b", event("go", "2")).await;
    store.terminate("a", None).await;
    assert_eq!(store.messages(owned.key).await, []);
    assert_eq!(store.messages(other.key).await.len(), 1);
}

/// An end is final (P6).
pub async fn changes_no_ended_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(end(&owned, &worker, Some("1".into()))).await;
    let before = store.status("a").await;
    assert_eq!(
        store.terminate("a", Some("2".into())).await,
        Outcome::Ended {
            status: Status::Completed
        }
    );
    assert_eq!(store.status("a").await, before);
    assert_eq!(store.history(owned.key).await.len(), 2);
}

/// A termination of an unknown id creates no instance.
pub async fn of_an_unknown_id_is_not_found(store: &Store) {
    let store = store.first();
    assert_eq!(store.terminate("a", None).await, Outcome::NotFound);
    assert_eq!(store.find("a").await, None);
}
