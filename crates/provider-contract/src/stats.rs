//! Statistics of a store.

use std::collections::BTreeSet;

use perdure_provider::{
    Filter, NewInstance, OVERDUE_MS, OVERDUE_SORTS_MAX, OverdueInstances, OverdueRequest, OverdueWork, QueueDepth,
    Status, StoreStats,
};

use crate::store::{Handle, LEASE_MS, Store, end, event, instance, release, suspend, turn};

async fn stats(store: Handle<'_>) -> StoreStats {
    store.provider.stats().await.expect("the store answers")
}

/// An empty store has no instances, messages or workers.
pub async fn of_an_empty_store_are_nothing(store: &Store) {
    assert_eq!(stats(store.first()).await, StoreStats::default());
}

/// The counts equal the lengths of lists.
pub async fn count_instances_by_status(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for n in 0..3 {
        let owned = store.owned(&format!("ended {n}"), &worker).await;
        store.commit(end(&owned, &worker, None)).await;
    }
    for n in 0..2 {
        let owned = store.owned(&format!("held {n}"), &worker).await;
        store.commit(suspend(&owned, &worker, "why")).await;
    }
    let owned = store.owned("running", &worker).await;
    store.commit(turn(&owned, &worker)).await;
    let owned = store.owned("sleeping", &worker).await;
    store.commit(release(&owned, &worker, Some(i64::MAX))).await;
    let owned = store.owned("waiting", &worker).await;
    store.commit(release(&owned, &worker, None)).await;
    store.owned("acquired", &worker).await;
    store.start(instance("pending")).await;
    store.start(instance("terminated")).await;
    store.terminate("terminated", None).await;

    let found = stats(store).await;
    for (status, count) in Status::ALL.into_iter().zip(found.instances) {
        let filter = Filter {
            statuses: vec![status],
            ..Filter::default()
        };
        let request = perdure_provider::ListRequest {
            filter,
            after: None,
            limit: 100,
            walk_max: 100,
        };
        let page = store.provider.list(request).await.expect("the store answers");
        assert_eq!(count, page.instances.len() as u64, "{status}");
    }
    assert_eq!(found.instances.iter().sum::<u64>(), 11);
}

/// Messages of all instances count.
pub async fn count_messages_that_wait(store: &Store) {
    let store = store.first();
    for id in ["a", "b"] {
        store.start(instance(id)).await;
        store.deliver(id, event("go", "1")).await;
    }
    store.deliver("a", event("go", "2")).await;
    assert_eq!(stats(store).await.messages, 3);
    store.terminate("a", None).await;
    assert_eq!(stats(store).await.messages, 1);
}

/// A queue without attempts is not named.
pub async fn count_attempts_by_queue(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    store.offered(&worker, 4).await;
    let depths = async || {
        let stats = stats(store).await;
        let of = |depth: &QueueDepth| (depth.queue.clone(), depth.waiting, depth.running);
        let queues: Vec<_> = stats.queues.iter().map(of).collect();
        (queues, stats.tasks_waiting, stats.tasks_running)
    };
    assert_eq!(depths().await, (vec![("gpu".into(), 3, 0)], 3, 0));
    store.tasks(&helper, 1).await;
    assert_eq!(depths().await, (vec![("gpu".into(), 2, 1)], 2, 1));
    store.terminate("a", None).await;
    assert_eq!(depths().await, (vec![], 0, 0));
}

/// A worker counts until its lease ends by the store's clock.
pub async fn count_workers_that_are_alive(store: &Store) {
    let store = store.first();
    store.worker("v").await;
    store
        .clock
        .advance(i64::try_from(LEASE_MS).expect("a lease is short") - 1);
    store.worker("w").await;
    assert_eq!(stats(store).await.workers, 2);
    store.clock.advance(1);
    assert_eq!(stats(store).await.workers, 1);
}

/// The stats tell how many instances are due and overdue, and how long the oldest has been due.
pub async fn count_due_and_overdue_instances(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("later", &worker).await;
    store.commit(release(&owned, &worker, Some(store.now_ms() + 100))).await;
    store.owned("owned", &worker).await;
    let due = |stats: StoreStats| (stats.due, stats.overdue, stats.oldest_due_ms);
    assert_eq!(due(stats(store).await), (0, 0, None));
    store.start(instance("now")).await;
    assert_eq!(due(stats(store).await), (1, 0, Some(0)));
    store.clock.advance(100);
    assert_eq!(due(stats(store).await), (2, 0, Some(100)));
    store.clock.advance(OVERDUE_MS - 100);
    assert_eq!(due(stats(store).await), (2, 0, Some(OVERDUE_MS.unsigned_abs())));
    store.clock.advance(1);
    assert_eq!(due(stats(store).await), (2, 1, Some(OVERDUE_MS.unsigned_abs() + 1)));
}

/// Overdue instances are named by orchestration and version, the longest due first, up to a limit.
pub async fn name_overdue_orchestrations(store: &Store) {
    let store = store.first();
    let sort = |name: &str, version: &str, id: &str| NewInstance {
        name: name.into(),
        version: version.into(),
        ..instance(id)
    };
    store.start(sort("pay", "2.0.0", "second")).await;
    store.clock.advance(10);
    store.start(sort("pay", "1.0.0", "first")).await;
    store.clock.advance(10);
    store.start(sort("pay", "1.0.0", "third")).await;
    store.clock.advance(OVERDUE_MS - 20);
    assert_eq!(overdue(store).await, OverdueWork::default());
    store.clock.advance(15);
    let named = |version: &str, id: &str, instances: u64, over_ms: u64| OverdueInstances {
        name: "pay".into(),
        version: version.into(),
        instances,
        oldest_ms: OVERDUE_MS.unsigned_abs() + over_ms,
        id: id.into(),
    };
    assert_eq!(
        overdue(store).await.instances,
        [named("2.0.0", "second", 1, 15), named("1.0.0", "first", 1, 5),]
    );
    store.clock.advance(6);
    assert_eq!(overdue(store).await.instances[1], named("1.0.0", "first", 2, 11));

    for n in 0..OVERDUE_SORTS_MAX {
        store
            .start(sort("many", &format!("{n}.0.0"), &format!("many/{n}")))
            .await;
    }
    store.clock.advance(OVERDUE_MS + 1);
    let all = overdue(store).await.instances;
    assert_eq!(all.len(), OVERDUE_SORTS_MAX);
    assert_eq!(all[0].id, "second");
}

/// Overdue instances of one orchestration are found among those that sleep, of any priority. Served
/// orchestrations are left out.
pub async fn find_overdue_instances_among_sleeping_ones(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for priority in [-1, 0, 1] {
        let id = format!("sleeping/{priority}");
        let new = NewInstance {
            priority,
            ..instance(&id)
        };
        store.start(new).await;
    }
    for owned in store.acquire(&worker).await.instances {
        let wake_at_ms = store.now_ms() + 10 * OVERDUE_MS;
        store.commit(release(&owned, &worker, Some(wake_at_ms))).await;
    }
    for (id, priority) in [("first", 0), ("second", 2)] {
        let new = NewInstance {
            priority,
            ..instance(id)
        };
        store.start(new).await;
        store.clock.advance(1);
    }
    store.clock.advance(OVERDUE_MS);
    let found = overdue(store).await.instances;
    let sort: Vec<_> = found.iter().map(|sort| (sort.instances, &*sort.id)).collect();
    assert_eq!(sort, [(2, "first")]);

    let served = OverdueRequest {
        served_orchestrations: [(found[0].name.clone(), found[0].version.clone())].into(),
        ..LONG
    };
    assert_eq!(store.provider.overdue(served).await, Ok(OverdueWork::default()));
}

/// Overdue attempts are named by queue and activity, unless a worker has taken them or they are served.
pub async fn name_overdue_attempts(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.offered(&worker, 4).await;
    assert_eq!(overdue(store).await, OverdueWork::default());
    store.clock.advance(OVERDUE_MS + 1);
    let found = overdue(store).await.attempts;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].attempts, &*found[0].id), (3, "a"));
    assert_eq!(i64::try_from(found[0].oldest_ms), Ok(OVERDUE_MS + 1));

    let longer = OverdueRequest {
        for_ms: OVERDUE_MS + 1,
        ..LONG
    };
    assert_eq!(store.provider.overdue(longer).await, Ok(OverdueWork::default()));
    let served = OverdueRequest {
        served_activities: [(found[0].queue.clone(), found[0].name.clone())].into(),
        ..LONG
    };
    assert_eq!(store.provider.overdue(served).await, Ok(OverdueWork::default()));
    assert_eq!(store.tasks(&worker, 2).await.tasks.len(), 2);
    assert_eq!(overdue(store).await.attempts[0].attempts, 1);
    assert_eq!(store.tasks(&worker, 2).await.tasks.len(), 1);
    assert_eq!(overdue(store).await, OverdueWork::default());
}

const LONG: OverdueRequest = OverdueRequest {
    for_ms: OVERDUE_MS,
    served_orchestrations: BTreeSet::new(),
    served_activities: BTreeSet::new(),
};

async fn overdue(store: Handle<'_>) -> OverdueWork {
    store.provider.overdue(LONG).await.expect("the store answers")
}

/// Registered workers are listed with their numbers of instances and tasks, also a worker whose lease has ended.
pub async fn name_workers_with_their_instances_and_tasks(store: &Store) {
    let store = store.first();
    let inspect = async || store.provider.inspect().await.expect("the store answers");
    assert_eq!(inspect().await.workers, []);
    let (v, w) = (store.worker("v").await, store.worker("w").await);
    store.owned("one", &v).await;
    store.offered(&v, 3).await;
    assert_eq!(store.tasks(&w, 1).await.tasks.len(), 1);
    store.clock.advance(i64::try_from(LEASE_MS).expect("a lease is short"));

    let found = inspect().await;
    assert_eq!(found.now_ms, store.now_ms());
    let loads: Vec<_> = (found.workers.iter())
        .map(|load| (load.worker.id.clone(), load.instances, load.tasks))
        .collect();
    assert_eq!(loads, [(v.clone(), 2, 0), (w.clone(), 0, 1)]);
    assert!(
        found
            .workers
            .iter()
            .all(|load| load.worker.lease_until_ms <= found.now_ms)
    );
    let registered: Vec<_> = found.workers.into_iter().map(|load| load.worker).collect();
    assert_eq!(registered, store.provider.workers().await.expect("the store answers"));
}
