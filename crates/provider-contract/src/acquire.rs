//! Acquisition (P3, P4, P9).

use std::collections::HashSet;

use perdure_engine::EventId;
use perdure_provider::{Acquire, Acquired, NewInstance, PageLimit, TurnCommit};

use crate::store::{NAME, START_MS, Store, VERSION, end, event, instance, release, scheduled, start, suspend, turn};

fn ids(acquired: &Acquired) -> Vec<&str> {
    acquired.instances.iter().map(|instance| instance.id.as_str()).collect()
}

/// Instances of a higher priority come first, however long others have waited. IndexedSet equals, the longest due comes
/// first.
pub async fn takes_the_highest_priority_first_and_then_the_longest_due(store: &Store) {
    let store = store.first();
    for (id, priority) in [
        ("low", -1),
        ("old", 0),
        ("high", 2_000_000_000),
        ("young", 0),
        ("lowest", i32::MIN),
    ] {
        store
            .start(NewInstance {
                priority,
                ..instance(id)
            })
            .await;
        store.clock.advance(1);
    }
    let worker = store.worker("w").await;
    let acquired = store.acquire(&worker).await;
    assert_eq!(ids(&acquired), ["high", "old", "young", "low", "lowest"]);
    assert_eq!(acquired.next_wake_at_ms, None);
}

/// `next_wake_at_ms` is then the due time of the first instance that was left behind.
pub async fn takes_no_more_than_the_limit_and_says_that_more_is_due(store: &Store) {
    let store = store.first();
    for n in 0..5 {
        store.start(instance(&format!("a{n}"))).await;
        store.clock.advance(1);
    }
    let worker = store.worker("w").await;
    let acquired = store.acquire_up_to(&worker, 2).await;
    assert_eq!(
        (ids(&acquired), acquired.next_wake_at_ms),
        (vec!["a0", "a1"], Some(START_MS + 2))
    );
    let acquired = store.acquire_up_to(&worker, 2).await;
    assert_eq!(
        (ids(&acquired), acquired.next_wake_at_ms),
        (vec!["a2", "a3"], Some(START_MS + 4))
    );
    let acquired = store.acquire_up_to(&worker, 0).await;
    assert_eq!((ids(&acquired), acquired.next_wake_at_ms), (vec![], Some(START_MS + 4)));
    let acquired = store.acquire_up_to(&worker, 2).await;
    assert_eq!((ids(&acquired), acquired.next_wake_at_ms), (vec!["a4"], None));
}

/// A match of the name alone or of the version alone is not enough. Instances that only other workers can run do not
/// count for this worker's next wake.
pub async fn takes_only_instances_whose_name_and_version_are_registered(store: &Store) {
    let store = store.first();
    for (id, name, version) in [
        ("1", "a", "1"),
        ("2", "a", "2"),
        ("3", "b", "1"),
        ("4", "b", "2"),
        ("5", "c", "1"),
    ] {
        store
            .start(NewInstance {
                name: name.into(),
                version: version.into(),
                ..instance(id)
            })
            .await;
    }
    let worker = store.worker("w").await;
    let request = |registered: &[(&str, &str)]| Acquire {
        worker: worker.clone(),
        registered: registered
            .iter()
            .map(|(name, version)| ((*name).into(), (*version).into()))
            .collect(),
        limit: PageLimit::rows(100),
        history_page: PageLimit::rows(100),
        left_ms: 0,
        looked: false,
    };
    let acquired = store.request(request(&[])).await;
    assert_eq!((ids(&acquired), acquired.next_wake_at_ms), (vec![], None));
    let acquired = store.request(request(&[("a", "3"), ("d", "1")])).await;
    assert_eq!((ids(&acquired), acquired.next_wake_at_ms), (vec![], None));
    // A registration that is listed twice counts once.
    let acquired = store.request(request(&[("b", "2"), ("a", "1"), ("b", "2")])).await;
    assert_eq!(
        (ids(&acquired).into_iter().collect(), acquired.next_wake_at_ms),
        (HashSet::from(["1", "4"]), None)
    );
    let acquired = store
        .request(request(&[("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1")]))
        .await;
    assert_eq!(
        ids(&acquired).into_iter().collect::<HashSet<_>>(),
        HashSet::from(["2", "3", "5"])
    );
}

/// Due times are compared with the store's clock alone (P9): an instance is not acquired a millisecond early, and is
/// acquired as soon as it is due.
pub async fn takes_nothing_before_its_time_and_says_when_that_is(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for (id, wake_at_ms) in [("late", START_MS + 100), ("soon", START_MS + 10)] {
        let owned = store.owned(id, &worker).await;
        assert_eq!(
            store.commit(release(&owned, &worker, Some(wake_at_ms))).await,
            Some(wake_at_ms)
        );
    }
    for (forward, expected, next) in [
        (9, vec![], Some(START_MS + 10)),
        (1, vec!["soon"], Some(START_MS + 100)),
        (89, vec![], Some(START_MS + 100)),
        (1, vec!["late"], None),
        (1_000_000, vec![], None),
    ] {
        store.clock.advance(forward);
        let acquired = store.acquire(&worker).await;
        assert_eq!((ids(&acquired), acquired.next_wake_at_ms), (expected, next));
    }
}

/// Only active, unowned and due instances are acquired (P4), and only they count for the next wake.
pub async fn takes_nothing_that_is_owned_suspended_or_ended(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.owned("owned", &worker).await;
    let suspended = store.owned("suspended", &worker).await;
    store.commit(suspend(&suspended, &worker, "why")).await;
    let ended = store.owned("ended", &worker).await;
    store.commit(end(&ended, &worker, None)).await;
    store.start(instance("terminated")).await;
    store.terminate("terminated", None).await;
    store.clock.advance(1_000_000);
    for worker in [worker, store.worker("other").await] {
        let acquired = store.acquire(&worker).await;
        assert_eq!((ids(&acquired), acquired.next_wake_at_ms), (vec![], None));
    }
}

/// At most one worker owns an instance, however many workers ask at once and through any number of handles.
pub async fn gives_each_instance_to_one_of_many_workers(store: &Store) {
    let first = store.first();
    let second = store.second().unwrap_or(first);
    first
        .batch((0..100).map(|n| start(instance(&format!("a{n}")))).collect())
        .await;
    let workers = [first.worker("w1").await, first.worker("w2").await];
    let (mut seen, mut rounds) = (HashSet::new(), 0);
    loop {
        let (one, two, three, four) = tokio::join!(
            first.acquire_up_to(&workers[0], 7),
            second.acquire_up_to(&workers[1], 7),
            first.acquire_up_to(&workers[0], 7),
            second.acquire_up_to(&workers[1], 7),
        );
        let before = seen.len();
        for acquired in [one, two, three, four] {
            for instance in acquired.instances {
                assert!(seen.insert(instance.id.clone()), "{} is given out once", instance.id);
            }
        }
        rounds += 1;
        if seen.len() == before {
            break;
        }
    }
    assert_eq!((seen.len(), rounds), (100, 5));
}

/// The epoch rises by at least one, and never falls (P3).
pub async fn raises_the_epoch_at_every_acquisition(store: &Store) {
    let store = store.first();
    let workers = [store.worker("w1").await, store.worker("w2").await];
    store.start(instance("a")).await;
    let mut last = None;
    for n in 0..6 {
        let worker = &workers[n % 2];
        let owned = store.acquire_one(worker).await;
        assert!(Some(owned.epoch) > last, "{:?} after {last:?}", owned.epoch);
        last = Some(owned.epoch);
        store.commit(release(&owned, worker, Some(0))).await;
    }
}

/// An acquisition brings everything that the worker needs to go on. The rest of a long history is read in pages.
pub async fn brings_the_first_page_of_history_and_every_message(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store
        .start(NewInstance {
            parent_id: Some("parent".into()),
            ..instance("a")
        })
        .await;
    store.start(instance("b")).await;
    for n in 0..30 {
        store.deliver("a", event("go", &n.to_string())).await;
        store.deliver("b", event("go", &n.to_string())).await;
    }
    let request = |history_page| Acquire {
        worker: worker.clone(),
        registered: vec![(NAME.into(), VERSION.into())],
        limit: PageLimit::rows(1),
        history_page: PageLimit::rows(history_page),
        left_ms: 0,
        looked: false,
    };
    let first = store.request(request(10)).await;
    let [owned] = &first.instances[..] else {
        panic!("one, not {first:?}")
    };
    assert_eq!((owned.id.as_str(), owned.parent_id.as_deref()), ("a", Some("parent")));
    assert_eq!((owned.name.as_str(), owned.version.as_str()), (NAME, VERSION));
    assert_eq!(owned.history, [instance("a").first_event]);
    assert_eq!(owned.messages.messages, store.messages(owned.key).await);
    assert_eq!(owned.messages.messages.len(), 30);
    let events = (2..=25).map(scheduled).collect();
    store
        .commit(TurnCommit {
            events,
            ..release(owned, &worker, Some(0))
        })
        .await;

    for history_page in [0, 10, 25, 1_000] {
        let again = store.request(request(history_page)).await;
        let [owned] = &again.instances[..] else {
            panic!("one, not {again:?}")
        };
        assert_eq!((owned.id.as_str(), owned.next_event_id), ("a", EventId(26)));
        let expected: Vec<_> = (1..=25).take(history_page).collect();
        assert_eq!(
            owned.history.iter().map(|event| event.event_id.0).collect::<Vec<_>>(),
            expected
        );
        store.commit(release(owned, &worker, Some(0))).await;
    }
}

/// No other worker would ever take the instance over from a worker that does not exist.
pub async fn gives_nothing_to_a_worker_that_is_not_registered(store: &Store) {
    let store = store.first();
    let (gone, worker) = (store.worker("gone").await, store.worker("w").await);
    store
        .provider
        .release_worker(&gone)
        .await
        .expect("the worker is removed");
    store.start(instance("a")).await;
    store.assert_nothing_due(&gone).await;
    assert_eq!(store.acquire_one(&worker).await.id, "a");
}

/// A backlog of unregistered orchestrations stays due, and does not keep a worker from the instances that it can run.
pub async fn leaves_a_backlog_of_unregistered_orchestrations_due(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let unknown = |n| NewInstance {
        name: "unknown".into(),
        priority: 9,
        ..instance(&format!("u{n}"))
    };
    store.batch((0..500).map(|n| start(unknown(n))).collect()).await;
    store.start(instance("a")).await;
    let owned = store.acquire_one(&worker).await;
    assert_eq!(owned.id, "a");
    store.commit(turn(&owned, &worker)).await;
    let acquired = store
        .request(Acquire {
            worker: worker.clone(),
            registered: vec![("unknown".into(), VERSION.into())],
            limit: PageLimit::rows(600),
            history_page: PageLimit::rows(1),
            left_ms: 0,
            looked: false,
        })
        .await;
    assert_eq!(acquired.instances.len(), 500);
}
