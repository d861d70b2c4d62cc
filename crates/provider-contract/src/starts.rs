//! Starts of instances.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{
    Epoch, InstanceKey, NewInstance, OnConflict, Outcome, ProviderErrorKind, Status, TurnCommit, WorkerId,
};

use crate::store::{Handle, START_MS, Store, custom_status, end, instance, release, scheduled, start, suspend, turn};

impl Handle<'_> {
    /// Starts an instance together with a first turn of one event, which its worker has run.
    pub(crate) async fn start_with_turn(&self, id: &str, turn: TurnCommit, on_conflict: OnConflict) {
        let new = NewInstance {
            claim: Some(turn.worker.clone()),
            first_turn: Some(Box::new(TurnCommit {
                key: InstanceKey(0),
                epoch: Epoch(0),
                events: vec![scheduled(2)],
                ..turn
            })),
            on_conflict,
            ..instance(id)
        };
        let outcome = self.write(start(new)).await;
        assert!(matches!(outcome, Outcome::Started { turn: Some(_), .. }), "{outcome:?}");
    }
}

/// An unclaimed instance is due now, for any worker, and fresh.
pub async fn a_started_instance_is_pending_and_due(store: &Store) {
    let store = store.first();
    let outcome = store.write(start(instance("a"))).await;
    let Outcome::Started { key, claimed: None, .. } = outcome else {
        panic!("started and unclaimed, not {outcome:?}")
    };
    let status = store.status("a").await;
    assert_eq!(
        (status.key, status.status, status.execution),
        (key, Status::Pending, ExecutionId::FIRST)
    );
    assert_eq!(store.history(key).await, [instance("a").first_event]);

    let worker = store.worker("w").await;
    let acquired = store.acquire_one(&worker).await;
    assert_eq!((acquired.key, acquired.id.as_str()), (key, "a"));
    assert_eq!(
        (acquired.epoch, acquired.next_event_id, acquired.fresh),
        (Epoch(1), EventId(2), true)
    );
    assert_eq!(
        store.status("a").await.status,
        Status::Pending,
        "no turn was committed yet"
    );
}

/// A claim is an acquisition (P3), and no other worker gets the instance (P4).
pub async fn a_claimed_start_belongs_to_its_worker(store: &Store) {
    let store = store.first();
    let (owner, other) = (store.worker("owner").await, store.worker("other").await);
    let outcome = store
        .write(start(NewInstance {
            claim: Some(owner.clone()),
            ..instance("a")
        }))
        .await;
    let Outcome::Started {
        key,
        claimed: Some(epoch),
        ..
    } = outcome
    else {
        panic!("started and claimed, not {outcome:?}")
    };
    store.assert_nothing_due(&other).await;
    assert_eq!(store.provider.release_worker(&owner).await, Ok(1));
    let taken = store.acquire_one(&other).await;
    assert_eq!(taken.key, key);
    assert!(taken.epoch > epoch, "{:?} follows {epoch:?}", taken.epoch);
    assert!(taken.fresh);
}

/// No other worker would ever take the instance over from a worker that does not exist.
pub async fn a_claim_of_an_unregistered_worker_leaves_the_instance_due(store: &Store) {
    let store = store.first();
    let gone = store.worker("gone").await;
    store
        .provider
        .release_worker(&gone)
        .await
        .expect("the worker is removed");
    let outcome = store
        .write(start(NewInstance {
            claim: Some(gone),
            ..instance("a")
        }))
        .await;
    assert!(
        matches!(outcome, Outcome::Started { claimed: None, .. }),
        "started and unclaimed, not {outcome:?}"
    );
    let worker = store.worker("w").await;
    assert_eq!(store.acquire_one(&worker).await.id, "a");
}

/// A second start of an id changes nothing, before and after the end, even if it asks for something else.
pub async fn an_id_in_use_is_kept(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let key = store.start(instance("a")).await;
    let again = NewInstance {
        name: "other".into(),
        claim: Some(worker.clone()),
        priority: 7,
        ..instance("a")
    };
    let before = store.status("a").await;
    assert_eq!(store.write(start(again.clone())).await, Outcome::Exists);
    assert_eq!(store.status("a").await, before);

    let owned = store.acquire_one(&worker).await;
    store.commit(end(&owned, &worker, None)).await;
    assert_eq!(store.write(start(again)).await, Outcome::Exists);
    assert_eq!(store.history(key).await.len(), 2);
}

/// The second start of the batch finds the id in use.
pub async fn an_id_twice_in_a_batch_is_started_once(store: &Store) {
    let store = store.first();
    let outcomes = store
        .batch(vec![start(instance("a")), start(instance("a")), start(instance("b"))])
        .await;
    assert!(
        matches!(
            outcomes[..],
            [Outcome::Started { .. }, Outcome::Exists, Outcome::Started { .. }]
        ),
        "the second exists: {outcomes:?}"
    );
}

/// An id has one instance, however many callers start it at once and through any number of handles.
pub async fn eight_starts_at_once_make_one_instance(store: &Store) {
    assert_eq!(store.starts_of_eight(|| start(instance("a"))).await, 1);
}

/// The new instance has nothing of the old one: key, history, messages, status.
pub async fn restart_replaces_an_ended_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let again = NewInstance {
        on_conflict: OnConflict::RestartIfTerminal,
        ..instance("a")
    };
    let old = store.owned("a", &worker).await;
    let ended = perdure_provider::TurnCommit {
        custom_status: crate::store::custom_status("1"),
        ..end(&old, &worker, None)
    };
    store.commit(ended).await;

    let key = store.start(again).await;
    assert_ne!(key, old.key, "a key is never used again");
    assert_eq!(store.history(old.key).await, []);
    assert_eq!(store.history(key).await.len(), 1);
    let status = store.status("a").await;
    assert_eq!(
        (status.key, status.status, status.completed_at_ms),
        (key, Status::Pending, None)
    );
    assert_eq!(
        (status.custom_status, status.custom_status_version, status.result),
        (None, 0, None)
    );
    assert!(store.acquire_one(&worker).await.fresh);
}

/// `Pending`, `Running` and `Suspended` are no ends.
pub async fn restart_keeps_an_instance_that_has_not_ended(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let again = || {
        start(NewInstance {
            on_conflict: OnConflict::RestartIfTerminal,
            ..instance("a")
        })
    };
    let owned = store.owned("a", &worker).await;
    assert_eq!(store.write(again()).await, Outcome::Exists, "while Pending");
    store.commit(turn(&owned, &worker)).await;
    assert_eq!(store.write(again()).await, Outcome::Exists, "while Running");
    store.commit(suspend(&owned, &worker, "why")).await;
    assert_eq!(store.write(again()).await, Outcome::Exists, "while Suspended");
    assert_eq!(store.status("a").await.key, owned.key);
}

/// A turn of the old instance does not reach the new one, although the id is the same.
pub async fn restart_fences_off_the_former_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let old = store.owned("a", &worker).await;
    store.terminate("a", None).await;
    let again = NewInstance {
        on_conflict: OnConflict::RestartIfTerminal,
        claim: Some(worker.clone()),
        ..instance("a")
    };
    let key = store.start(again).await;
    let mut late = turn(&old, &worker);
    late.events = vec![scheduled(2)];
    assert_eq!(store.turn(late).await, Outcome::Fenced);
    assert_eq!(store.history(key).await.len(), 1);
}

/// Returns a start that a worker claims, with the first turn that it ran.
pub(crate) fn with_turn(id: &str, worker: &WorkerId, first_turn: TurnCommit) -> NewInstance {
    NewInstance {
        claim: Some(worker.clone()),
        first_turn: Some(Box::new(TurnCommit {
            key: InstanceKey(0),
            epoch: Epoch(0),
            ..first_turn
        })),
        ..instance(id)
    }
}

/// The start and its first turn are written together. If the id is in use, neither is.
pub async fn a_start_brings_its_first_turn_along(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let model = store.owned("model", &worker).await;
    let first = TurnCommit {
        events: vec![scheduled(2), scheduled(3)],
        custom_status: custom_status("1"),
        ..turn(&model, &worker)
    };
    let outcome = store.write(start(with_turn("a", &worker, first.clone()))).await;
    let Outcome::Started {
        key,
        claimed: Some(epoch),
        turn: Some(committed),
        ..
    } = outcome
    else {
        panic!("started with its turn, not {outcome:?}")
    };
    assert!(matches!(*committed, Outcome::Committed { .. }));
    let status = store.status("a").await;
    assert_eq!((status.status, status.custom_status_version), (Status::Running, 1));
    assert_eq!(store.history(key).await.len(), 3);
    let next = TurnCommit {
        key,
        epoch,
        next_event_id: EventId(4),
        events: vec![scheduled(4)],
        ..turn(&model, &worker)
    };
    store.commit(next).await;

    assert_eq!(
        store.write(start(with_turn("a", &worker, first))).await,
        Outcome::Exists
    );
    assert_eq!(store.history(key).await.len(), 4);
}

/// The instance is in the state that the turn leaves behind.
pub async fn a_first_turn_may_end_its_instance_or_let_it_sleep(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let model = store.owned("model", &worker).await;
    let ended = end(&model, &worker, Some("42".into()));
    store.start(with_turn("ended", &worker, ended)).await;
    assert_eq!(store.status("ended").await.result.as_deref(), Some("42"));
    let asleep = release(&model, &worker, Some(START_MS));
    store.start(with_turn("asleep", &worker, asleep)).await;
    let woken = store.acquire_one(&worker).await;
    assert_eq!(
        (woken.id.as_str(), woken.epoch, woken.fresh),
        ("asleep", Epoch(2), false)
    );
}

/// The start is written all the same.
pub async fn a_first_turn_of_an_unregistered_worker_is_dropped(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let model = store.owned("model", &worker).await;
    let first = TurnCommit {
        events: vec![scheduled(2), scheduled(3)],
        custom_status: custom_status("1"),
        ..turn(&model, &worker)
    };
    let removed = store.provider.release_worker(&worker).await;
    removed.expect("the worker is removed");
    let unclaimed = store.write(start(with_turn("b", &worker, first))).await;
    assert!(matches!(
        unclaimed,
        Outcome::Started {
            claimed: None,
            turn: None,
            ..
        }
    ));
    assert_eq!(store.status("b").await.status, Status::Pending);
}

/// A first turn begins with event 2 (P8).
pub async fn a_first_turn_that_does_not_fit_its_start_is_refused(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let model = store.owned("model", &worker).await;
    let late = TurnCommit {
        next_event_id: EventId(3),
        events: vec![scheduled(3)],
        ..turn(&model, &worker)
    };
    let new = NewInstance {
        claim: Some(worker),
        first_turn: Some(Box::new(late)),
        ..instance("a")
    };
    let refused = store.try_batch(vec![start(new)]).await;
    assert_eq!(refused.expect_err("it is refused").kind, ProviderErrorKind::Internal);
    assert_eq!(store.find("a").await, None);
}

/// A history begins with `ExecutionStarted` as event 1 (P8).
pub async fn a_start_without_its_first_event_is_refused(store: &Store) {
    let store = store.first();
    for first_event in [
        scheduled(1),
        perdure_engine::EventRecord {
            event_id: EventId(2),
            ..instance("a").first_event
        },
    ] {
        let refused = store
            .try_batch(vec![start(NewInstance {
                first_event,
                ..instance("a")
            })])
            .await;
        assert_eq!(refused.expect_err("it is refused").kind, ProviderErrorKind::Internal);
        assert_eq!(store.find("a").await, None);
    }
}
