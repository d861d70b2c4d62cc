//! Statistics of a store.

use perdure_provider::{Filter, NewInstance, OVERDUE_MS, OVERDUE_SORTS_MAX, Overdue, Status, StoreStats};

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
    let overdue = async || store.provider.overdue().await.expect("the store answers");
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
    assert_eq!(overdue().await, []);
    store.clock.advance(15);
    let named = |version: &str, id: &str, instances: u64, over_ms: u64| Overdue {
        name: "pay".into(),
        version: version.into(),
        instances,
        oldest_ms: OVERDUE_MS.unsigned_abs() + over_ms,
        id: id.into(),
    };
    assert_eq!(
        overdue().await,
        [named("2.0.0", "second", 1, 15), named("1.0.0", "first", 1, 5),]
    );
    store.clock.advance(6);
    assert_eq!(overdue().await[1], named("1.0.0", "first", 2, 11));

    for n in 0..OVERDUE_SORTS_MAX {
        store
            .start(sort("many", &format!("{n}.0.0"), &format!("many/{n}")))
            .await;
    }
    store.clock.advance(OVERDUE_MS + 1);
    let all = overdue().await;
    assert_eq!(all.len(), OVERDUE_SORTS_MAX as usize);
    assert_eq!(all[0].id, "second");
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
