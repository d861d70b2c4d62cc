//! Turns and their writes (P8).

use perdure_engine::{EndEvent, EventId, EventRecord, ExecutionId};
use perdure_provider::{AfterTurn, Outcome, PageLimit, ProviderErrorKind, Status, StatusChange, TurnCommit, Write};

use crate::store::{
    Handle, START_MS, Store, completed, custom_status, end, event, idle_turn, instance, scheduled, start, suspend, turn,
};

/// Events go to the end of the history, and the next turn follows them.
pub async fn append_events_and_move_the_instance_on(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    let one = TurnCommit {
        events: vec![scheduled(2), scheduled(3)],
        time_ms: START_MS + 5,
        ..turn(&owned, &worker)
    };
    assert_eq!(store.commit(one).await, None);
    owned.next_event_id = EventId(4);
    store
        .commit(TurnCommit {
            events: vec![scheduled(4)],
            time_ms: START_MS + 6,
            ..turn(&owned, &worker)
        })
        .await;

    let history = store.history(owned.key).await;
    assert_eq!(
        history,
        [instance("a").first_event, scheduled(2), scheduled(3), scheduled(4)]
    );
    let status = store.status("a").await;
    assert_eq!((status.status, status.updated_at_ms), (Status::Running, START_MS + 6));
}

/// An orchestration that begins with a wait schedules nothing, and yet its first turn is over.
pub async fn without_events_are_turns(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    assert!(owned.fresh);
    store.commit(turn(&owned, &worker)).await;
    assert_eq!(store.status("a").await.status, Status::Running);
    store
        .provider
        .release_worker(&worker)
        .await
        .expect("the worker is removed");
    let next = store.worker("next").await;
    let taken = store.acquire_one(&next).await;
    assert!(!taken.fresh);
    assert_eq!(taken.next_event_id, EventId(2));
}

/// A batch is written in its order.
pub async fn of_one_instance_may_follow_each_other_in_a_batch(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let one = TurnCommit {
        events: vec![scheduled(2)],
        custom_status: custom_status("1"),
        ..turn(&owned, &worker)
    };
    let two = TurnCommit {
        next_event_id: EventId(3),
        events: vec![scheduled(3)],
        ..one.clone()
    };
    let outcomes = store
        .batch(vec![Write::Turn(Box::new(one)), Write::Turn(Box::new(two))])
        .await;
    let committed = Outcome::Committed {
        status: None,
        wake_at_ms: None,
        others: None,
    };
    assert_eq!(outcomes, [committed.clone(), committed]);
    assert_eq!(store.status("a").await.custom_status_version, 2);
    assert_eq!(store.history(owned.key).await.len(), 3);
}

/// The version rises by one for each stored change, also for a reset.
pub async fn count_the_changes_of_the_custom_status(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let with = |change| TurnCommit {
        custom_status: change,
        ..turn(&owned, &worker)
    };
    let version = async || store.status("a").await.custom_status_version;
    for (change, expected) in [
        (None, 0),
        (custom_status("\"one\""), 1),
        (None, 1),
        (custom_status("\"two\""), 2),
    ] {
        store.commit(with(change)).await;
        assert_eq!(version().await, expected);
    }
    let status = store.status("a").await;
    assert_eq!(
        (status.custom_status.as_deref(), status.custom_status_version),
        (Some("\"two\""), 2)
    );
    store.commit(with(Some(StatusChange { value: None }))).await;
    let status = store.status("a").await;
    assert_eq!((status.custom_status, status.custom_status_version), (None, 3));

    // The version belongs to the instance, not to its owner.
    store
        .provider
        .release_worker(&worker)
        .await
        .expect("the worker is removed");
    let next = store.worker("next").await;
    let taken = store.acquire_one(&next).await;
    store.commit(turn(&taken, &next)).await;
    store.commit(end(&taken, &next, None)).await;
    assert_eq!(version().await, 3);
}

/// The outcome of a turn that asks for the status has it as a client would read it after the turn. Other turns are told
/// none.
pub async fn tell_the_status_that_they_were_asked_for(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let asking = |turn: TurnCommit| TurnCommit {
        tell_status: true,
        ..turn
    };
    let told = async |turn: TurnCommit| match store.turn(turn).await {
        Outcome::Committed { status, .. } => status.map(|status| *status),
        other => panic!("the turn is committed, not {other:?}"),
    };
    let progress = TurnCommit {
        custom_status: custom_status("\"half\""),
        ..turn(&owned, &worker)
    };
    assert_eq!(told(asking(progress)).await, Some(store.status("a").await));
    assert_eq!(told(turn(&owned, &worker)).await, None);
    let ended = told(asking(end(&owned, &worker, Some("42".into())))).await;
    assert_eq!(ended, Some(store.status("a").await));
    assert_eq!(ended.and_then(|status| status.result).as_deref(), Some("42"));
}

/// Nothing changes an ended instance any more (P6), and its messages go with the commit that ended it.
pub async fn that_end_an_instance_end_it_for_good(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.start(instance("a")).await;
    store.deliver("a", event("never read", "1")).await;
    let owned = store.acquire_one(&worker).await;
    store.deliver("a", event("never seen", "2")).await;
    let last = TurnCommit {
        time_ms: START_MS + 9,
        ..end(&owned, &worker, Some("42".into()))
    };
    assert_eq!(store.commit(last).await, None);
    assert_eq!(store.messages(owned.key).await, []);
    let ended = store.status("a").await;
    assert_eq!((ended.status, ended.result.as_deref()), (Status::Completed, Some("42")));
    assert_eq!(ended.completed_at_ms, Some(START_MS + 9));

    let after = TurnCommit {
        next_event_id: EventId(3),
        events: vec![scheduled(3)],
        ..turn(&owned, &worker)
    };
    assert_eq!(store.turn(after).await, Outcome::Fenced);
    assert_eq!(
        store.send("a", event("go", "3")).await,
        Outcome::Ended {
            status: Status::Completed
        }
    );
    assert_eq!(
        store.terminate("a", None).await,
        Outcome::Ended {
            status: Status::Completed
        }
    );
    assert_eq!(
        store.resume("a").await,
        Outcome::NotSuspended {
            status: Status::Completed
        }
    );
    store
        .provider
        .release_worker(&worker)
        .await
        .expect("the worker is removed");
    store.clock.advance(1_000_000);
    let next = store.worker("next").await;
    store.assert_nothing_due(&next).await;
    assert_eq!(store.status("a").await, ended);
    assert_eq!(store.history(owned.key).await.len(), 2);
}

async fn page(store: Handle<'_>, key: perdure_provider::InstanceKey, from: u64, limit: usize) -> Vec<u64> {
    let page = store
        .provider
        .read_history(key, ExecutionId::FIRST, EventId(from), PageLimit::rows(limit))
        .await
        .expect("the store answers");
    page.into_iter().map(|event| event.event_id.0).collect()
}

/// A page begins with any event, has as many events as asked for, and none past the end.
pub async fn history_is_read_in_pages(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let other = store.owned("b", &worker).await;
    store
        .commit(TurnCommit {
            events: (2..=1_000).map(scheduled).collect(),
            ..turn(&owned, &worker)
        })
        .await;
    assert_eq!(page(store, owned.key, 1, 3).await, [1, 2, 3]);
    assert_eq!(page(store, owned.key, 500, 2).await, [500, 501]);
    assert_eq!(page(store, owned.key, 999, 10).await, [999, 1_000]);
    assert_eq!(page(store, owned.key, 1_001, 10).await, [0; 0]);
    assert_eq!(
        page(store, owned.key, 1, usize::MAX).await,
        (1..=1_000).collect::<Vec<_>>()
    );
    assert_eq!(page(store, other.key, 1, 10).await, [1]);
    assert_eq!(
        page(store, perdure_provider::InstanceKey(i64::MAX), 1, 10).await,
        [0; 0]
    );
    let of_no_execution = store
        .provider
        .read_history(owned.key, ExecutionId(2), EventId::FIRST, PageLimit::rows(10))
        .await;
    assert_eq!(of_no_execution, Ok(Vec::new()));
}

async fn refused(store: Handle<'_>, turn: TurnCommit) {
    let key = turn.key;
    let refused = store.try_batch(vec![Write::Turn(Box::new(turn))]).await;
    assert_eq!(refused.expect_err("it is refused").kind, ProviderErrorKind::Internal);
    assert_eq!(store.history(key).await.len(), 1);
}

/// Ids are 1..n without gap (P8). A turn that would break that is a defect, and nothing of it is stored.
pub async fn with_a_gap_between_event_ids_are_refused(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    refused(
        store,
        TurnCommit {
            events: vec![scheduled(3)],
            ..turn(&owned, &worker)
        },
    )
    .await;
    refused(
        store,
        TurnCommit {
            events: vec![scheduled(2), scheduled(4)],
            ..turn(&owned, &worker)
        },
    )
    .await;
    refused(
        store,
        TurnCommit {
            events: vec![scheduled(2), scheduled(2)],
            ..turn(&owned, &worker)
        },
    )
    .await;
    store
        .commit(TurnCommit {
            events: vec![scheduled(2)],
            ..turn(&owned, &worker)
        })
        .await;
}

/// An execution has exactly one terminal event, which is its last and agrees with its status.
pub async fn that_end_and_do_not_say_so_are_refused(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let ends = AfterTurn::End {
        status: Status::Completed,
    };
    let with = |events, after| TurnCommit {
        events,
        after,
        ..turn(&owned, &worker)
    };
    refused(store, with(vec![], ends.clone())).await;
    refused(store, with(vec![scheduled(2)], ends.clone())).await;
    refused(store, with(vec![completed(2, None), scheduled(3)], ends.clone())).await;
    refused(store, with(vec![completed(2, None), completed(3, None)], ends.clone())).await;
    refused(store, with(vec![completed(2, None)], AfterTurn::Hold)).await;
    refused(
        store,
        with(vec![completed(2, None)], AfterTurn::Release { wake_at_ms: None }),
    )
    .await;
    let failed = EventRecord::new(EventId(2), START_MS, EndEvent::ExecutionFailed { error: None });
    refused(store, with(vec![failed], ends)).await;
    let TurnCommit { after, .. } = suspend(&owned, &worker, "why");
    refused(store, with(vec![completed(2, None)], after)).await;
}

/// The largest size of a batch is a matter of speed alone.
pub async fn of_a_thousand_instances_fit_a_batch(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let claimed = |n| perdure_provider::NewInstance {
        claim: Some(worker.clone()),
        ..instance(&format!("a{n}"))
    };
    let outcomes = store.batch((0..1_000).map(|n| start(claimed(n))).collect()).await;
    let turns = outcomes.iter().map(|outcome| match outcome {
        Outcome::Started {
            key,
            claimed: Some(epoch),
            ..
        } => Write::Turn(Box::new(TurnCommit {
            events: vec![scheduled(2), scheduled(3)],
            ..idle_turn(*key, &worker, *epoch, EventId(2))
        })),
        other => panic!("started and claimed, not {other:?}"),
    });
    let outcomes = store.batch(turns.collect()).await;
    assert_eq!(
        outcomes,
        vec![
            Outcome::Committed {
                status: None,
                wake_at_ms: None,
                others: None
            };
            1_000
        ]
    );
}
