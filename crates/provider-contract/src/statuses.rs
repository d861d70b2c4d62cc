//! Statuses, as clients read them.

use perdure_engine::{EndEvent, Event, EventId, EventRecord};
use perdure_provider::{AfterTurn, InstanceKey, NewInstance, Status, TurnCommit, Write};

use crate::store::{START_MS, Store, instance, start, turn};

/// There is one answer for each id, in the order asked for, and `None` for an unknown id.
pub async fn come_in_the_order_of_the_ids(store: &Store) {
    let store = store.first();
    store.batch(["a", "b", "c"].map(|id| start(instance(id))).into()).await;
    let ids = ["c", "absent", "a", "c", "A", ""];
    let statuses = store
        .provider
        .statuses(ids.map(String::from).into())
        .await
        .expect("the store answers");
    let found: Vec<_> = statuses
        .into_iter()
        .map(|status| status.map(|status| status.id))
        .collect();
    assert_eq!(
        found,
        [Some("c"), None, Some("a"), Some("c"), None, None].map(|id| id.map(String::from))
    );
}

/// The answer is empty.
pub async fn of_no_ids_are_none(store: &Store) {
    assert_eq!(store.provider.statuses(Vec::new()).await, Ok(Vec::new()));
}

/// The times are those of the writes, as their callers gave them.
pub async fn show_the_times_of_an_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let times = async || {
        let status = store.status("a").await;
        (status.created_at_ms, status.updated_at_ms, status.completed_at_ms)
    };
    assert_eq!(times().await, (START_MS, START_MS, None));
    store
        .commit(TurnCommit {
            time_ms: START_MS + 7,
            ..turn(&owned, &worker)
        })
        .await;
    assert_eq!(times().await, (START_MS, START_MS + 7, None));
    store.clock.advance(9);
    store.terminate("a", None).await;
    assert_eq!(times().await, (START_MS, START_MS + 9, Some(START_MS + 9)));
}

/// The result is the payload of the last event: output, error or reason.
pub async fn show_the_result_of_each_end(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let payload = || Some("[1]".to_owned());
    let ends = [
        (
            Status::Completed,
            Event::End(EndEvent::ExecutionCompleted { output: payload() }),
            payload(),
        ),
        (
            Status::Completed,
            Event::End(EndEvent::ExecutionCompleted { output: None }),
            None,
        ),
        (
            Status::Failed,
            Event::End(EndEvent::ExecutionFailed { error: payload() }),
            payload(),
        ),
        (
            Status::Cancelled,
            Event::End(EndEvent::ExecutionCancelled { error: payload() }),
            payload(),
        ),
    ];
    for (n, (status, event, result)) in ends.into_iter().enumerate() {
        let id = n.to_string();
        store
            .start(NewInstance {
                tags: payload(),
                ..instance(&id)
            })
            .await;
        let owned = store.acquire_one(&worker).await;
        assert_eq!(store.status(&id).await.result, None, "it has not ended");
        let events = vec![EventRecord::new(EventId(2), START_MS + 1, event)];
        store
            .commit(TurnCommit {
                events,
                after: AfterTurn::End { status },
                ..turn(&owned, &worker)
            })
            .await;
        let found = store.status(&id).await;
        assert_eq!((found.status, found.result, found.tags), (status, result, payload()));
        assert_eq!(store.history(owned.key).await.len(), 2);
    }
}

/// The ids come in the order of the keys, those of ended instances too. A key that is not in use has no id.
pub async fn name_instances_by_their_keys(store: &Store) {
    let store = store.first();
    store
        .batch(["a", "b", "é/\u{1}"].map(|id| start(instance(id))).into())
        .await;
    store.terminate("b", None).await;
    let mut keys = Vec::new();
    for id in ["a", "b", "é/\u{1}"] {
        keys.push(store.status(id).await.key);
    }
    let ids = async |keys: &[InstanceKey]| store.provider.ids_of(keys.to_vec()).await.expect("the store answers");
    let asked = [keys[2], keys[0], InstanceKey(i64::MAX), keys[1], keys[2]];
    let found = [Some("é/\u{1}"), Some("a"), None, Some("b"), Some("é/\u{1}")];
    assert_eq!(ids(&asked).await, found.map(|id| id.map(String::from)));
    assert_eq!(ids(&[]).await, []);
    store.batch(vec![Write::Delete { id: "b".into() }]).await;
    assert_eq!(ids(&keys[1..2]).await, [None]);
}
