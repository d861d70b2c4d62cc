//! Details of heartbeats: they are kept for the next owner of the instance until their activity is over (P2, P6).

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{AcquiredInstance, Epoch, Heartbeat, Outcome, Reporter, TurnCommit, WorkerId, Write};

use crate::store::{Handle, START_MS, Store, end, scheduled, suspend, turn};

fn heartbeat(instance: &AcquiredInstance, worker: &WorkerId, id: u64, details: Option<&str>) -> Heartbeat {
    Heartbeat {
        key: instance.key,
        worker: worker.clone(),
        by: Reporter::Owner(instance.epoch),
        execution: instance.execution,
        scheduled: EventId(id),
        details: details.map(str::to_owned),
        time_ms: START_MS + 2,
    }
}

async fn keep(store: Handle<'_>, heartbeat: Heartbeat) -> Outcome {
    store.write(Write::Heartbeat(Box::new(heartbeat))).await
}

/// An instance whose activities 2 and 3 are open and have sent heartbeats.
async fn beating(store: Handle<'_>, worker: &WorkerId) -> AcquiredInstance {
    let mut owned = store.owned("a", worker).await;
    assert_eq!(owned.heartbeats, []);
    let two = TurnCommit {
        events: vec![scheduled(2), scheduled(3)],
        ..turn(&owned, worker)
    };
    store.commit(two).await;
    owned.next_event_id = EventId(4);
    for (id, details) in [(3, "{\"row\":30}"), (2, "\"first\""), (2, "\"a\0\u{1F600}\"")] {
        let noted = keep(store, heartbeat(&owned, worker, id, Some(details))).await;
        assert_eq!(noted, Outcome::Noted);
    }
    owned
}

/// Releases the worker and returns the heartbeats that the next owner is handed.
async fn kept(store: Handle<'_>, worker: &WorkerId) -> Vec<(u64, String)> {
    store
        .provider
        .release_worker(worker)
        .await
        .expect("the worker is removed");
    let next = store.worker("next").await;
    let taken = store.acquire_one(&next).await;
    taken.heartbeats.into_iter().map(|(id, text)| (id.0, text)).collect()
}

fn both() -> Vec<(u64, String)> {
    vec![(2, "\"a\0\u{1F600}\"".into()), (3, "{\"row\":30}".into())]
}

/// The next owner gets the latest details of each activity, in the order of the schedules.
pub async fn pass_to_the_next_owner(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    beating(store, &worker).await;
    assert_eq!(kept(store, &worker).await, both());
}

/// A worker that does not own the instance, or names another epoch or execution, changes nothing.
pub async fn of_others_are_kept_off(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = beating(store, &worker).await;
    let other = store.worker("other").await;
    for details in [None, Some("\"late\"")] {
        let mine = || heartbeat(&owned, &worker, 2, details);
        for late in [
            heartbeat(&owned, &other, 2, details),
            Heartbeat {
                by: Reporter::Owner(Epoch(owned.epoch.0 + 1)),
                ..mine()
            },
            Heartbeat {
                execution: ExecutionId(owned.execution.0 + 1),
                ..mine()
            },
        ] {
            assert_eq!(keep(store, late).await, Outcome::Fenced);
        }
    }
    assert_eq!(kept(store, &worker).await, both());
}

/// A turn names the activities that are over, and their heartbeats go with it.
pub async fn go_with_the_turn_that_names_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = beating(store, &worker).await;
    let over = TurnCommit {
        heartbeats_over: vec![EventId(2), EventId(99)],
        ..turn(&owned, &worker)
    };
    store.commit(over).await;
    assert_eq!(kept(store, &worker).await, both()[1..]);
}

/// A fenced turn removes no heartbeats.
pub async fn of_a_fenced_turn_stay(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = beating(store, &worker).await;
    let late = TurnCommit {
        next_event_id: EventId(3),
        heartbeats_over: vec![EventId(2)],
        ..turn(&owned, &worker)
    };
    assert_eq!(store.turn(late).await, Outcome::Fenced);
    assert_eq!(kept(store, &worker).await, both());
}

/// A heartbeat without details removes those that were kept. The same heartbeat may come again.
pub async fn without_details_remove_the_stored_details(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = beating(store, &worker).await;
    for _ in 0..2 {
        let none = heartbeat(&owned, &worker, 3, None);
        assert_eq!(keep(store, none).await, Outcome::Noted);
    }
    assert_eq!(kept(store, &worker).await, both()[..1]);
}

/// The activity is still open when the instance goes on.
pub async fn outlive_a_suspension(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = beating(store, &worker).await;
    store.commit(suspend(&owned, &worker, "report")).await;
    let late = heartbeat(&owned, &worker, 2, Some("\"late\""));
    assert_eq!(keep(store, late).await, Outcome::Fenced);
    assert_eq!(store.resume("a").await, Outcome::Resumed);
    assert_eq!(kept(store, &worker).await, both());
}

/// An ended instance has no owner, so nothing is kept for it.
pub async fn of_ended_instances_are_kept_off(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = beating(store, &worker).await;
    let last = TurnCommit {
        heartbeats_over: vec![EventId(2), EventId(3)],
        ..end(&owned, &worker, None)
    };
    store.commit(last).await;
    let late = heartbeat(&owned, &worker, 2, Some("\"late\""));
    assert_eq!(keep(store, late).await, Outcome::Fenced);
}
