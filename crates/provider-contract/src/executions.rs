//! Lists of the executions of an instance.

use perdure_engine::{EventId, EventKind, EventRecord, ExecutionId, NoteEvent};
use perdure_provider::{
    AcquiredInstance, ExecutionSummary, ExecutionsRequest, Filter, InstanceKey, PageLimit, PruneExecutions, WorkerId,
};

use crate::continue_as_new::{continued, next_of};
use crate::store::{Handle, START_MS, Store, VERSION, end, scheduled, turn};

async fn executions(store: Handle<'_>, key: InstanceKey, from: u64, limit: PageLimit) -> Vec<ExecutionSummary> {
    let from = ExecutionId(from);
    let request = ExecutionsRequest { key, from, limit };
    store.provider.executions(request).await.expect("the store answers")
}

/// Returns an instance in execution `count`, each of whose former executions was given its number as input.
async fn in_execution(store: Handle<'_>, worker: &WorkerId, count: u64) -> AcquiredInstance {
    let mut owned = store.owned("a", worker).await;
    for next in 2..=count {
        store
            .commit(continued(&owned, worker, Some(next.to_string()), true))
            .await;
        owned = next_of(&owned);
    }
    owned
}

fn numbers(page: &[ExecutionSummary]) -> Vec<u64> {
    page.iter().map(|summary| summary.execution.0).collect()
}

/// The event that tells the version of an execution that was started without one.
fn began(id: u64) -> EventRecord {
    let version = Some(VERSION.into());
    EventRecord::new(EventId(id), START_MS, NoteEvent::ExecutionBegan { version })
}

/// Each execution comes with its first and its last event, and with the one that tells its version. The last event of a
/// running one has no value.
pub async fn come_newest_first_with_their_ends(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = in_execution(store, &worker, 2).await;
    let second = perdure_provider::TurnCommit {
        events: vec![began(2), scheduled(3)],
        ..turn(&owned, &worker)
    };
    store.commit(second).await;
    let ends = |summary: &ExecutionSummary| -> Vec<(u64, EventKind, Option<String>)> {
        let of = |event: &EventRecord| (event.event_id.0, event.kind, event.payload.clone());
        summary.events.iter().map(of).collect()
    };
    let found = executions(store, owned.key, 2, PageLimit::rows(10)).await;
    assert_eq!(numbers(&found), [2, 1]);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        ends(&found[0]),
        [
            (1, EventKind::ExecutionStarted, text("2")),
            (2, EventKind::ExecutionBegan, None),
            (3, EventKind::ActivityScheduled, None)
        ]
    );
    assert_eq!(
        ends(&found[1]),
        [
            (1, EventKind::ExecutionStarted, text("{}")),
            (2, EventKind::ExecutionContinuedAsNew, text("2"))
        ]
    );
    let last = AcquiredInstance {
        next_event_id: EventId(4),
        ..owned
    };
    store.commit(end(&last, &worker, text("done"))).await;
    let found = executions(store, last.key, 2, PageLimit::rows(1)).await;
    assert_eq!(
        ends(&found[0]).pop(),
        Some((4, EventKind::ExecutionCompleted, text("done")))
    );
}

/// A page ends with the execution that fills it, by number or by bytes.
pub async fn come_in_pages(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = in_execution(store, &worker, 5).await;
    for limit in [PageLimit::rows(2), PageLimit { rows: 10, bytes: 1 }] {
        let (mut from, mut all) = (5, Vec::new());
        loop {
            let page = numbers(&executions(store, owned.key, from, limit).await);
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 2, "{page:?}");
            from = last - 1;
            all.extend(page);
        }
        assert_eq!(all, [5, 4, 3, 2, 1]);
    }
}

/// A pruned execution is gone, and the others come as before.
pub async fn that_are_pruned_are_passed_over(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = in_execution(store, &worker, 4).await;
    let request = PruneExecutions {
        filter: Filter::default(),
        keep: 2,
        from: None,
        events_max: 100,
        walk_max: 100,
    };
    store
        .provider
        .prune_executions(request)
        .await
        .expect("the store answers");
    let found = executions(store, owned.key, 4, PageLimit::rows(10)).await;
    assert_eq!(numbers(&found), [4, 3]);
    assert!(executions(store, owned.key, 2, PageLimit::rows(10)).await.is_empty());
}

/// A key without an instance has no executions.
pub async fn of_an_unknown_instance_are_none(store: &Store) {
    let found = executions(store.first(), InstanceKey(77), 1, PageLimit::rows(10)).await;
    assert!(found.is_empty());
}
