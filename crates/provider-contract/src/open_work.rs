//! The open work of an instance: what a turn says about it, heartbeats and offered attempts.

use perdure_engine::EventId;
use perdure_provider::{
    AcquiredInstance, CrossInstanceEffects, Heartbeat, LastHeartbeat, OnConflict, OpenTask, OpenWork, Outcome,
    Reporter, TaskOffer, TaskRequest, TurnCommit, WorkerId, Write,
};
use perdure_provider::{PageLimit, Queues, Status};

use crate::continue_as_new::continued;
use crate::store::{Handle, SESSIONS, START_MS, Store, end, release, scheduled, suspend, turn};

/// A text as the runtime may store it, with characters that a store may handle in its own way.
const TEXT: &str = "{\"open\":[2],\"count\":1,\"fibers\":\"a\0\u{1F600}'\"}";

fn waiting(commit: TurnCommit) -> TurnCommit {
    TurnCommit {
        open_work: Some(TEXT.into()),
        ..commit
    }
}

impl Handle<'_> {
    async fn open_work(&self, id: &str) -> OpenWork {
        let work = self.provider.open_work(id.into()).await.expect("the store answers");
        work.expect("the instance is there")
    }

    /// Creates an instance whose first turn leaves the text, with its next event id.
    async fn waiting(&self, id: &str, worker: &WorkerId) -> AcquiredInstance {
        let owned = self.owned(id, worker).await;
        self.commit(TurnCommit {
            events: vec![scheduled(2)],
            ..waiting(turn(&owned, worker))
        })
        .await;
        AcquiredInstance {
            next_event_id: EventId(3),
            ..owned
        }
    }

    async fn text(&self, id: &str) -> Option<String> {
        self.open_work(id).await.open_work
    }
}

/// Each turn replaces the text of the one before it, together with the rest of the turn.
pub async fn is_that_of_the_last_turn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.provider.open_work("a".into()).await, Ok(None));
    let mut owned = store.owned("a", &worker).await;
    let fresh = store.open_work("a").await;
    assert_eq!((fresh.open_work, fresh.owner.as_ref()), (None, Some(&worker)));
    let first = TurnCommit {
        events: vec![scheduled(2)],
        ..waiting(turn(&owned, &worker))
    };
    store.commit(first.clone()).await;
    let work = store.open_work("a").await;
    assert_eq!(work.open_work.as_deref(), Some(TEXT));
    assert_eq!(
        (work.status.id.as_str(), work.status.status, work.unread),
        ("a", Status::Running, 0)
    );
    let late = TurnCommit {
        open_work: None,
        ..first
    };
    assert_eq!(store.turn(late).await, Outcome::Fenced);
    assert_eq!(store.text("a").await.as_deref(), Some(TEXT));

    owned.next_event_id = EventId(3);
    let nothing = TurnCommit {
        events: vec![scheduled(3)],
        ..turn(&owned, &worker)
    };
    store.commit(nothing).await;
    assert_eq!(store.text("a").await, None);

    owned.next_event_id = EventId(4);
    store.commit(waiting(release(&owned, &worker, None))).await;
    let asleep = store.open_work("a").await;
    assert_eq!((asleep.open_work.as_deref(), asleep.owner), (Some(TEXT), None));
}

/// A suspension by a client or by the worker keeps the text.
pub async fn outlives_a_suspension(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for (id, by_client) in [("a", true), ("b", false)] {
        let owned = store.waiting(id, &worker).await;
        if by_client {
            store.suspend(id, "held").await;
        } else {
            store.commit(suspend(&owned, &worker, "it does not fit")).await;
        }
        let work = store.open_work(id).await;
        assert_eq!(work.status.status, Status::Suspended);
        assert_eq!(work.open_work.as_deref(), Some(TEXT));
    }
}

/// An instance that has ended waits for nothing, and neither does an execution that begins.
pub async fn goes_with_the_end(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["ends", "ends alone", "continues", "is terminated"] {
        let owned = store.waiting(id, &worker).await;
        match id {
            "ends" => {
                let asks = TurnCommit {
                    tell_status: true,
                    ..end(&owned, &worker, None)
                };
                store.commit(asks).await;
            }
            "ends alone" => drop(store.commit(end(&owned, &worker, None)).await),
            "continues" => drop(store.commit(continued(&owned, &worker, None, true)).await),
            _ => drop(store.terminate(id, None).await),
        }
        assert_eq!(store.text(id).await, None, "{id}");
    }
}

/// The text of the first turn is written with the start.
pub async fn comes_with_a_start_and_its_first_turn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let model = store.owned("model", &worker).await;
    for (id, consumes) in [("a", false), ("b", true)] {
        let first_turn = TurnCommit {
            tell_status: consumes,
            ..waiting(turn(&model, &worker))
        };
        store.start_with_turn(id, first_turn, OnConflict::Keep).await;
        assert_eq!(store.text(id).await.as_deref(), Some(TEXT), "{id}");
    }
}

/// The latest heartbeats come with their times, and offered attempts with the worker that runs them.
pub async fn has_heartbeats_and_offered_attempts(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.owned("a", &worker).await;
    let offer = |id, name: &str| TaskOffer {
        scheduled: EventId(id),
        attempt: 2,
        queue: "gpu".into(),
        key: None,
        name: name.into(),
        session: None,
        priority: 0,
        due_at_ms: 0,
        deadline_ms: None,
        start_within_ms: None,
    };
    store
        .commit(TurnCommit {
            events: vec![scheduled(2), scheduled(3), scheduled(4)],
            cross_instance: Some(Box::new(CrossInstanceEffects {
                offers: vec![offer(3, "step"), offer(4, "unknown")],
                ..CrossInstanceEffects::default()
            })),
            ..waiting(turn(&owned, &worker))
        })
        .await;
    let beat = Heartbeat {
        key: owned.key,
        worker: worker.clone(),
        by: Reporter::Owner(owned.epoch),
        execution: owned.execution,
        scheduled: EventId(2),
        details: Some("\"half\"".into()),
        time_ms: START_MS + 7,
    };
    assert_eq!(store.write(Write::Heartbeat(Box::new(beat))).await, Outcome::Noted);
    let request = TaskRequest {
        worker: helper.clone(),
        queues: Queues::Named(vec!["gpu".into()]),
        names: vec!["step".into()],
        limit: PageLimit::rows(10),
        sessions: SESSIONS,
    };
    let taken = store.provider.acquire_tasks(request).await.expect("the store answers");
    assert_eq!(taken.tasks.len(), 1);

    let work = store.open_work("a").await;
    let last = LastHeartbeat {
        scheduled: EventId(2),
        details: Some("\"half\"".into()),
        time_ms: START_MS + 7,
    };
    assert_eq!(work.heartbeats, [last]);
    let task = |id, worker| OpenTask {
        scheduled: EventId(id),
        attempt: 2,
        queue: "gpu".into(),
        session: None,
        worker,
        queued: None,
    };
    assert_eq!(work.tasks, [task(3, Some(helper)), task(4, None)]);
    assert_eq!(work.owner, Some(worker));
}
