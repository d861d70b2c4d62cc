//! Deletion of ended instances, one or many (P13).

use perdure_engine::{EndEvent, EventId, EventRecord, ExecutionId};
use perdure_provider::{
    AfterTurn, Filter, InstanceKey, NextExecution, Outcome, PageLimit, Place, PruneExecutions, PruneRequest, Pruned,
    PrunedExecutions, Status, TurnCommit,
};

use crate::store::{Handle, START_MS, Store, end, event, instance, new_worker, suspend, turn};

impl Handle<'_> {
    async fn prune(&self, filter: Filter, after: Option<Place>, limit: usize, walk_max: usize) -> Pruned {
        let request = PruneRequest {
            filter,
            after,
            limit,
            walk_max,
        };
        self.provider.prune(request).await.expect("the store answers")
    }

    /// Sweeps until nothing is left, `limit` events at a time. Returns the number of steps.
    async fn swept(&self, limit: usize) -> usize {
        let mut steps = 1;
        while self.provider.sweep(limit).await.expect("the store answers") {
            steps += 1;
            assert!(steps < 1_000, "a sweep comes to an end");
        }
        steps
    }

    /// Creates an instance with `executions` executions of two events each. The last execution has ended, or has only
    /// its first event.
    async fn continued(&self, id: &str, executions: u64, has_ended: bool) -> InstanceKey {
        let worker = self.worker("w").await;
        let mut owned = self.owned(id, &worker).await;
        for _ in 1..executions {
            let next = NextExecution {
                version: "1.0.0".into(),
                first_event: instance(id).first_event,
                hold: true,
            };
            let event = EndEvent::ExecutionContinuedAsNew {
                input: None,
                version: "1.0.0".into(),
            };
            self.commit(TurnCommit {
                events: vec![EventRecord::new(EventId(2), START_MS, event)],
                after: AfterTurn::ContinueAsNew(Box::new(next)),
                ..turn(&owned, &worker)
            })
            .await;
            owned.execution = owned.execution.next();
        }
        if has_ended {
            self.commit(end(&owned, &worker, None)).await;
        }
        owned.key
    }

    /// The number of events of each execution.
    async fn executions(&self, key: InstanceKey, count: u64) -> Vec<usize> {
        let mut events = Vec::new();
        for execution in 1..=count {
            let read = self
                .provider
                .read_history(key, ExecutionId(execution), EventId::FIRST, PageLimit::rows(10));
            events.push(read.await.expect("the store answers").len());
        }
        events
    }

    async fn prune_executions(&self, request: PruneExecutions) -> PrunedExecutions {
        self.provider
            .prune_executions(request)
            .await
            .expect("the store answers")
    }

    /// Creates an instance that ended `offset_ms` after the start.
    async fn ended_at(&self, id: &str, offset_ms: i64) -> InstanceKey {
        let worker = self.worker("w").await;
        let owned = self.owned(id, &worker).await;
        let ending = TurnCommit {
            time_ms: START_MS + offset_ms,
            ..end(&owned, &worker, None)
        };
        self.commit(ending).await;
        owned.key
    }
}

/// Nothing of the instance is found any more, and its id is free.
pub async fn takes_away_all_of_an_instance(store: &Store) {
    let store = store.first();
    let key = store.ended_at("a", 1).await;
    let other = store.ended_at("b", 1).await;
    assert_eq!(store.delete("a").await, Outcome::Deleted);
    assert_eq!(store.find("a").await, None);
    assert_eq!(store.delete("a").await, Outcome::NotFound);
    assert_eq!(store.send("a", event("go", "1")).await, Outcome::NotFound);
    assert_eq!(store.terminate("a", None).await, Outcome::NotFound);
    store.swept(1_000).await;
    assert_eq!(store.history(key).await, []);
    assert_eq!(store.history(other).await.len(), 2);
    let again = store.start(instance("a")).await;
    assert!(again > other, "a key is not used again");
    assert_eq!(store.history(again).await.len(), 1);
}

/// An instance that has not ended is not deleted in any state.
pub async fn leaves_an_instance_that_has_not_ended(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.delete("absent").await, Outcome::NotFound);
    let not = |status| Outcome::NotEnded { status };
    store.start(instance("a")).await;
    assert_eq!(store.delete("a").await, not(Status::Pending));
    let owned = store.acquire_one(&worker).await;
    store.commit(turn(&owned, &worker)).await;
    let before = store.status("a").await;
    assert_eq!(store.delete("a").await, not(Status::Running));
    assert_eq!(store.status("a").await, before);
    store.commit(suspend(&owned, &worker, "why")).await;
    assert_eq!(store.delete("a").await, not(Status::Suspended));
    assert_eq!(store.status("a").await.result.as_deref(), Some("why"));
}

/// A sweep removes the events of every execution, however many there are.
pub async fn sweeps_events_in_steps(store: &Store) {
    let store = store.first();
    let key = store.continued("a", 2, true).await;
    let stays = store.ended_at("b", 1).await;
    store.delete("a").await;
    assert!(store.swept(2).await >= 2, "four events in steps of two");
    assert_eq!(store.swept(2).await, 1, "nothing is left");
    assert_eq!(store.executions(key, 2).await, [0, 0]);
    assert_eq!(store.history(stays).await.len(), 2);
}

/// The events that one handle has left are swept by another one.
pub async fn leaves_its_sweep_to_any_handle(store: &Store) {
    let first = store.first();
    let Some(second) = store.second() else { return };
    let key = first.ended_at("a", 1).await;
    first.delete("a").await;
    second.swept(1).await;
    assert_eq!(first.history(key).await, []);
}

/// A prune deletes no more instances than its limit, and none that have not ended.
pub async fn prunes_the_longest_ended_first(store: &Store) {
    let store = store.first();
    for (id, at) in [("c", 30), ("a", 10), ("d", 30), ("b", 20)] {
        store.ended_at(id, at).await;
    }
    store.start(instance("open")).await;
    let pruned = store.prune(Filter::default(), None, 2, 100).await;
    assert_eq!(pruned.deleted, 2);
    assert!(pruned.next.is_some());
    for (id, is_there) in [("a", false), ("b", false), ("c", true), ("d", true), ("open", true)] {
        assert_eq!(store.find(id).await.is_some(), is_there, "{id}");
    }
    let pruned = store.prune(Filter::default(), pruned.next, 2, 100).await;
    assert_eq!((pruned.deleted, pruned.next), (2, None));
    assert_eq!(store.status("open").await.status, Status::Pending);
}

/// An instance must meet all conditions of the filter. Bounds of time are strict.
pub async fn prunes_the_instances_that_its_filter_matches(store: &Store) {
    let store = store.first();
    for (id, at) in [("x1", 10), ("x2", 20), ("y1", 10), ("x3", 30)] {
        store.ended_at(id, at).await;
    }
    store.start(instance("x4")).await;
    store.terminate("x4", None).await;
    let filter = Filter {
        statuses: vec![Status::Completed],
        id_prefix: Some("x".into()),
        completed_before_ms: Some(START_MS + 30),
        ..Filter::default()
    };
    let pruned = store.prune(filter.clone(), None, 100, 100).await;
    assert_eq!((pruned.deleted, pruned.next), (2, None));
    for (id, is_there) in [("x1", false), ("x2", false), ("y1", true), ("x3", true), ("x4", true)] {
        assert_eq!(store.find(id).await.is_some(), is_there, "{id}");
    }
    assert_eq!(store.prune(filter, None, 100, 100).await, Pruned::default());
}

/// An id of an instance that has not ended, or of none, is passed over. The longest ended goes first.
pub async fn prunes_the_instances_with_some_ids(store: &Store) {
    let store = store.first();
    for (id, at) in [("a", 30), ("b", 20), ("c", 10), ("d", 10)] {
        store.ended_at(id, at).await;
    }
    store.start(instance("open")).await;
    let filter = Filter {
        ids: ["a", "b", "c", "open", "none"].map(str::to_owned).into(),
        ..Filter::default()
    };
    let pruned = store.prune(filter.clone(), None, 1, 100).await;
    assert_eq!(pruned.deleted, 1);
    assert!(store.find("c").await.is_none());
    let pruned = store.prune(filter, pruned.next, 100, 100).await;
    assert_eq!((pruned.deleted, pruned.next), (2, None));
    for (id, is_there) in [("a", false), ("b", false), ("d", true), ("open", true)] {
        assert_eq!(store.find(id).await.is_some(), is_there, "{id}");
    }
}

/// A prune passes over the instances of built-in orchestrations if its filter does.
pub async fn prunes_the_instances_of_users_alone(store: &Store) {
    let store = store.first();
    for (id, name) in [("user's", "other"), ("built in", "perdure.lock")] {
        let mut new = instance(id);
        new.name = name.to_owned();
        store.start(new).await;
        store.terminate(id, None).await;
    }
    let filter = |hides_built_in| Filter {
        hides_built_in,
        ..Filter::default()
    };
    assert_eq!(store.prune(filter(true), None, 100, 100).await.deleted, 1);
    assert!(store.find("built in").await.is_some());
    assert_eq!(store.prune(filter(false), None, 100, 100).await.deleted, 1);
}

/// A page looks at no more instances than it may, and the next page goes on after them.
pub async fn prunes_in_pages(store: &Store) {
    let store = store.first();
    for n in 0..5 {
        store.ended_at(&format!("stays {n}"), 1).await;
    }
    store.ended_at("goes", 1).await;
    let filter = Filter {
        id_prefix: Some("goes".into()),
        ..Filter::default()
    };
    let (mut after, mut deleted) = (None, Vec::new());
    loop {
        let pruned = store.prune(filter.clone(), after, 10, 2).await;
        deleted.push(pruned.deleted);
        after = pruned.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(deleted, [0, 0, 1]);
}

/// The worker can still be released, and the counts no longer include the instance.
pub async fn of_an_instance_leaves_no_count_of_it(store: &Store) {
    let store = store.first();
    store.ended_at("a", 1).await;
    store.delete("a").await;
    let stats = store.provider.stats().await.expect("the store answers");
    assert_eq!((stats.instances, stats.workers), ([0; 7], 1));
    let worker = new_worker("w").id;
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
}

fn keeping(keep: u64) -> PruneExecutions {
    PruneExecutions {
        filter: Filter::default(),
        keep,
        from: None,
        events_max: 100,
        walk_max: 100,
    }
}

/// All but the last executions are pruned, whether the instance has ended or not. The status of the instance does not
/// change.
pub async fn prunes_former_executions(store: &Store) {
    let store = store.first();
    let long = store.continued("long", 5, false).await;
    let ended = store.continued("ended", 3, true).await;
    let short = store.continued("short", 1, false).await;
    let before = store.status("long").await;
    let pruned = store.prune_executions(keeping(2)).await;
    assert_eq!((pruned.deleted, pruned.next), (4, None));
    assert_eq!(store.executions(long, 5).await, [0, 0, 0, 2, 1]);
    assert_eq!(store.executions(ended, 3).await, [0, 2, 2]);
    assert_eq!(store.executions(short, 1).await, [1]);
    assert_eq!(store.status("long").await, before);
    assert_eq!(store.prune_executions(keeping(2)).await, PrunedExecutions::default());
    let filter = Filter {
        statuses: vec![Status::Completed],
        ..Filter::default()
    };
    let pruned = store.prune_executions(PruneExecutions { filter, ..keeping(1) }).await;
    assert_eq!((pruned.deleted, pruned.next), (1, None));
    assert_eq!(store.executions(long, 5).await, [0, 0, 0, 2, 1]);
    assert_eq!(store.executions(ended, 3).await, [0, 0, 2]);
    assert_eq!(store.prune_executions(keeping(9)).await, PrunedExecutions::default());
}

/// A step deletes no more events and looks at no more instances than it may. The next step goes on from there.
pub async fn prunes_executions_in_steps(store: &Store) {
    let store = store.first();
    let first = store.continued("first", 3, true).await;
    let second = store.continued("second", 3, true).await;
    for (keep, events_max, walk_max, deleted) in [(2, 1, 100, 2), (1, 3, 100, 2), (1, 100, 1, 0)] {
        let (mut from, mut found, mut steps) = (None, 0, 0);
        loop {
            let pruned = store
                .prune_executions(PruneExecutions {
                    from,
                    events_max,
                    walk_max,
                    ..keeping(keep)
                })
                .await;
            steps += 1;
            assert!(steps < 100, "it comes to an end");
            found += pruned.deleted;
            from = pruned.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(found, deleted, "{events_max} events, {walk_max} instances");
        assert!(steps > 1);
    }
    assert_eq!(store.executions(first, 3).await, [0, 0, 2]);
    assert_eq!(store.executions(second, 3).await, [0, 0, 2]);
}

/// Executions of other instances stay.
pub async fn prunes_executions_of_some_ids(store: &Store) {
    let store = store.first();
    let first = store.continued("first", 3, true).await;
    let second = store.continued("second", 3, true).await;
    let filter = Filter {
        ids: ["second", "none"].map(str::to_owned).into(),
        ..Filter::default()
    };
    let pruned = store.prune_executions(PruneExecutions { filter, ..keeping(1) }).await;
    assert_eq!((pruned.deleted, pruned.next), (2, None));
    assert_eq!(store.executions(first, 3).await, [2, 2, 2]);
    assert_eq!(store.executions(second, 3).await, [0, 0, 2]);
}
