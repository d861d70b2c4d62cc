//! Starts that replace the instance which has their id.

use perdure_engine::{EndEvent, Event, EventId, EventRecord, MessageBody};
use perdure_provider::{
    AfterTurn, CrossInstanceEffects, CrossInstanceStart, NewInstance, OnConflict, Outcome, Status, TurnCommit, Write,
};

use crate::store::{START_MS, Store, event, instance, scheduled, start, suspend, turn};

fn anew(on_conflict: OnConflict, id: &str) -> NewInstance {
    NewInstance {
        on_conflict,
        ..instance(id)
    }
}

fn replacing(id: &str) -> Write {
    start(anew(OnConflict::TerminateAndRestart, id))
}

/// Instances that failed, were cancelled or were terminated are replaced. All others are kept.
pub async fn restart_if_failed_keeps_what_completed_or_goes_on(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let again = |id: &str| start(anew(OnConflict::RestartIfFailed, id));
    let ends = [
        (EndEvent::ExecutionCompleted { output: None }, Status::Completed),
        (EndEvent::ExecutionFailed { error: None }, Status::Failed),
        (EndEvent::ExecutionCancelled { error: None }, Status::Cancelled),
    ];
    for (how, status) in ends {
        let id = status.as_str();
        let owned = store.owned(id, &worker).await;
        store.commit(turn(&owned, &worker)).await;
        assert_eq!(store.write(again(id)).await, Outcome::Exists, "while Running");
        let end = TurnCommit {
            events: vec![EventRecord::new(owned.next_event_id, START_MS + 3, Event::End(how))],
            after: AfterTurn::End { status },
            ..turn(&owned, &worker)
        };
        store.commit(end).await;
        let outcome = store.write(again(id)).await;
        match (status, &outcome) {
            (Status::Completed, Outcome::Exists) => {}
            (Status::Failed | Status::Cancelled, Outcome::Started { terminated: None, .. }) => {
                assert_ne!(store.status(id).await.key, owned.key);
                store.acquire_one(&worker).await;
            }
            _ => panic!("after {status:?}: {outcome:?}"),
        }
    }
    store.start(instance("ended")).await;
    store.terminate("ended", None).await;
    let outcome = store.write(again("ended")).await;
    assert!(
        matches!(outcome, Outcome::Started { terminated: None, .. }),
        "{outcome:?}"
    );
}

/// The running instance ends as one that is terminated does: its owner loses it, its messages are gone, and its late
/// turn changes nothing of the new instance.
pub async fn terminate_and_restart_replaces_a_running_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let old = store.owned("a", &worker).await;
    store.commit(turn(&old, &worker)).await;
    store.deliver("a", event("go", "1")).await;
    let outcome = store.write(replacing("a")).await;
    let Outcome::Started {
        key,
        claimed: None,
        turn: None,
        terminated: Some(terminated),
    } = outcome
    else {
        panic!("it replaces the instance: {outcome:?}")
    };
    assert!(
        matches!(&*terminated, Outcome::Terminated { key, owner: Some(owner), .. }
            if *key == old.key && *owner == worker),
        "{terminated:?}"
    );
    assert_eq!(store.history(old.key).await, []);
    assert_eq!(store.messages(old.key).await, []);
    assert_eq!(store.messages(key).await, []);
    let late = TurnCommit {
        events: vec![scheduled(2)],
        ..turn(&old, &worker)
    };
    assert_eq!(store.turn(late).await, Outcome::Fenced);
    let status = store.status("a").await;
    assert_eq!((status.key, status.status), (key, Status::Pending));
    let acquired = store.acquire_one(&worker).await;
    assert_eq!((acquired.key, acquired.fresh), (key, true));
}

/// An instance that has ended, or is not there, leaves nothing to terminate. A suspended one does.
pub async fn terminate_and_restart_takes_any_state(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let outcome = store.write(replacing("a")).await;
    assert!(
        matches!(outcome, Outcome::Started { terminated: None, .. }),
        "{outcome:?}"
    );
    store.terminate("a", None).await;
    let outcome = store.write(replacing("a")).await;
    assert!(
        matches!(outcome, Outcome::Started { terminated: None, .. }),
        "{outcome:?}"
    );
    let owned = store.acquire_one(&worker).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    let outcome = store.write(replacing("a")).await;
    assert!(
        matches!(
            outcome,
            Outcome::Started {
                terminated: Some(_),
                ..
            }
        ),
        "{outcome:?}"
    );
}

/// The children of the replaced instance are cancelled, and its parent is told.
pub async fn terminate_and_restart_tells_parent_and_children(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.owned("parent", &worker).await;
    let child_of = |by: &str, id: &str| {
        let instance = NewInstance {
            parent_id: Some(by.into()),
            ..instance(id)
        };
        doing(CrossInstanceStart {
            accepts_other: false,
            scheduled: EventId(2),
            is_child: true,
            instance,
        })
    };
    let with = |owned: &perdure_provider::AcquiredInstance, effects| TurnCommit {
        events: vec![scheduled(2)],
        cross_instance: Some(Box::new(effects)),
        ..turn(owned, &worker)
    };
    store.did(with(&parent, child_of("parent", "a"))).await;
    let middle = store.acquire_one(&worker).await;
    store.did(with(&middle, child_of("a", "child"))).await;
    let child = store.acquire_one(&worker).await;

    let outcome = store.write(replacing("a")).await;
    let Some(Outcome::Terminated { receivers, .. }) = outcome.terminated() else {
        panic!("it replaces the instance: {outcome:?}")
    };
    assert_eq!(receivers[..], [Some(worker.clone())]);
    assert_eq!(store.bodies(child.key).await, [MessageBody::Cancel { reason: None }]);
    assert_eq!(store.bodies(parent.key).await.len(), 1);
}

/// Each of eight starters replaces the instance of the one before. Each gets an instance, and the last one stays.
pub async fn eight_replacing_starts_at_once_leave_one_instance(store: &Store) {
    let mut keys = Vec::new();
    let mut replaced = Vec::new();
    for outcome in store.eight_at_once(|| replacing("a")).await {
        let Outcome::Started { key, .. } = outcome else {
            panic!("started, not {outcome:?}")
        };
        keys.push(key);
        if let Some(Outcome::Terminated { key, .. }) = outcome.terminated() {
            replaced.push(*key);
        }
    }
    replaced.push(store.first().status("a").await.key);
    keys.sort_unstable();
    replaced.sort_unstable();
    assert_eq!(replaced, keys, "each instance but the last was replaced");
}

/// One of eight starters that begin anew only after an end begins anew.
pub async fn eight_restarts_at_once_make_one_instance(store: &Store) {
    let first = store.first();
    for on_conflict in [OnConflict::RestartIfTerminal, OnConflict::RestartIfFailed] {
        let id = format!("{on_conflict:?}");
        first.start(instance(&id)).await;
        first.terminate(&id, None).await;
        let started = store.starts_of_eight(|| start(anew(on_conflict, &id))).await;
        assert_eq!(started, 1, "{on_conflict:?}");
    }
}

/// A turn may replace another instance, and never its own.
pub async fn a_turn_replaces_others_and_not_itself(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let other = store.owned("other", &worker).await;
    let itself = store.owned("itself", &worker).await;
    let starts = ["other", "itself"].map(|id| CrossInstanceStart {
        accepts_other: false,
        scheduled: EventId(2),
        is_child: false,
        instance: anew(OnConflict::TerminateAndRestart, id),
    });
    let commit = TurnCommit {
        events: vec![scheduled(2)],
        cross_instance: Some(Box::new(CrossInstanceEffects {
            starts: starts.into(),
            ..CrossInstanceEffects::default()
        })),
        ..turn(&itself, &worker)
    };
    let did = store.did(commit).await;
    assert!(
        matches!(
            did.started[..],
            [
                Outcome::Started {
                    terminated: Some(_),
                    ..
                },
                Outcome::Exists
            ]
        ),
        "{did:?}"
    );
    assert!(did.refused);
    assert_ne!(store.status("other").await.key, other.key);
    assert_eq!(store.status("itself").await.key, itself.key);
}

/// The later start of a turn replaces the instance of the earlier one.
pub async fn a_turn_replaces_what_it_has_started_itself(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("parent", &worker).await;
    let starts = [OnConflict::Keep, OnConflict::TerminateAndRestart].map(|on_conflict| CrossInstanceStart {
        accepts_other: false,
        scheduled: EventId(2),
        is_child: false,
        instance: anew(on_conflict, "twice"),
    });
    let commit = TurnCommit {
        events: vec![scheduled(2)],
        cross_instance: Some(Box::new(CrossInstanceEffects {
            starts: starts.into(),
            ..CrossInstanceEffects::default()
        })),
        ..turn(&owned, &worker)
    };
    let did = store.did(commit).await;
    let [
        Outcome::Started { key: first, .. },
        second @ Outcome::Started { key, .. },
    ] = &did.started[..]
    else {
        panic!("both are started: {did:?}")
    };
    assert!(
        matches!(second.terminated(), Some(Outcome::Terminated { key, .. }) if key == first),
        "{did:?}"
    );
    assert_eq!(store.status("twice").await.key, *key);
}

fn doing(start: CrossInstanceStart) -> CrossInstanceEffects {
    CrossInstanceEffects {
        starts: vec![start],
        ..CrossInstanceEffects::default()
    }
}
