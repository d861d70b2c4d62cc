//! The order and the limits by which queues give slots: priorities, turns of keys, workers, keys and rates (P24).

use std::collections::BTreeSet;

use perdure_provider::{
    Acquire, NewInstance, Newest, OPEN_VERSION, PageLimit, QueueSettings, Rate, StartTime, WorkerId,
};

use crate::queues::{finish, gets, ids, info, of_key, per_second, queued, set, slots};
use crate::store::{NAME, Store, VERSION, new_worker, start};

/// A request for work of a worker that runs these orchestrations.
fn request(worker: &WorkerId, registered: &[(&str, &str)]) -> Acquire {
    let registered = registered.iter().map(|&(name, version)| (name.into(), version.into()));
    Acquire {
        worker: worker.clone(),
        registered: registered.collect(),
        limit: PageLimit::rows(10),
        history_page: PageLimit::rows(100),
        left_ms: 0,
        looked: false,
    }
}

/// The limit of a worker holds for each worker by itself.
pub async fn count_the_instances_that_a_worker_owns(store: &Store) {
    let store = store.first();
    let (one, two) = (store.worker("one").await, store.worker("two").await);
    set(
        store,
        QueueSettings {
            per_worker: Some(2),
            ..QueueSettings::default()
        },
    )
    .await;
    for id in ["a", "b", "c", "d", "e"] {
        store.start(queued(id)).await;
    }
    let first = gets(store, &one, &["a", "b"]).await;
    store.assert_nothing_due(&one).await;
    gets(store, &two, &["c", "d"]).await;
    store.assert_nothing_due(&two).await;
    finish(store, &first[1..], &one).await;
    gets(store, &one, &["e"]).await;
}

/// The limit of a key holds beside that of the queue, and an instance without a key has no such limit.
pub async fn give_each_key_as_many_slots_as_its_limit(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(
        store,
        QueueSettings {
            key_concurrency: Some(1),
            ..slots(3)
        },
    )
    .await;
    for (key, id) in [
        ("x", "x1"),
        ("x", "x2"),
        ("x", "x3"),
        ("y", "y1"),
        ("y", "y2"),
        ("", "1"),
        ("", "2"),
        ("z", "z1"),
    ] {
        store.start(of_key(key, id)).await;
    }
    let first = gets(store, &worker, &["x1", "y1", "1"]).await;
    store.assert_nothing_due(&worker).await;
    finish(store, &first[..1], &worker).await;
    // The held one of the key came before those in line, and comes first.
    let next = gets(store, &worker, &["x2"]).await;
    finish(store, &first[1..2], &worker).await;
    let then = gets(store, &worker, &["y2"]).await;
    finish(store, &then, &worker).await;
    gets(store, &worker, &["2"]).await;
    finish(store, &next, &worker).await;
    gets(store, &worker, &["x3"]).await;
    finish(store, &first[2..], &worker).await;
    gets(store, &worker, &["z1"]).await;
}

/// However many of a key are held, each pass meets the next one at once.
pub async fn keep_the_order_of_a_key_whose_instances_are_held(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(
        store,
        QueueSettings {
            key_concurrency: Some(1),
            ..QueueSettings::default()
        },
    )
    .await;
    let names: Vec<String> = (0..600).map(|n| format!("i{n:03}")).collect();
    store
        .batch(names.iter().map(|id| start(of_key("x", id))).collect())
        .await;
    store.start(of_key("y", "other")).await;
    let mut running = gets(store, &worker, &["i000", "other"]).await;
    for name in &names[1..20] {
        finish(store, &running[..1], &worker).await;
        running = gets(store, &worker, &[name]).await;
    }
    // An instance of a higher priority passes those that are held.
    let urgent = NewInstance {
        priority: 1,
        ..of_key("x", "urgent")
    };
    store.start(urgent).await;
    store.assert_nothing_due(&worker).await;
    finish(store, &running, &worker).await;
    let urgent = gets(store, &worker, &["urgent"]).await;
    finish(store, &urgent, &worker).await;
    gets(store, &worker, &["i020"]).await;
}

/// The held instances of a key come first also for a worker that cannot run all of them, and those of one orchestration
/// do not keep back those of another.
pub async fn keep_the_order_of_a_key_for_workers_of_one_orchestration(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("helper").await);
    set(
        store,
        QueueSettings {
            key_concurrency: Some(1),
            ..QueueSettings::default()
        },
    )
    .await;
    let other = |id: &str| NewInstance {
        name: "other".into(),
        ..of_key("x", id)
    };
    let others = || request(&helper, &[("other", VERSION)]);
    store.start(of_key("x", "x1")).await;
    let first = gets(store, &worker, &["x1"]).await;
    store.start(other("o2")).await;
    store.start(of_key("x", "x3")).await;
    store.assert_nothing_due(&worker).await;
    assert_eq!(ids(&store.request(others()).await), Vec::<&str>::new());
    store.start(of_key("x", "x4")).await;
    finish(store, &first, &worker).await;
    let third = gets(store, &worker, &["x3"]).await;
    assert_eq!(ids(&store.request(others()).await), Vec::<&str>::new());
    store.start(other("o5")).await;
    finish(store, &third, &worker).await;
    let second = store.request(others()).await;
    assert_eq!(ids(&second), ["o2"]);
    finish(store, &second.instances, &helper).await;
    let fourth = gets(store, &worker, &["x4"]).await;
    finish(store, &fourth, &worker).await;
    assert_eq!(ids(&store.request(others()).await), ["o5"]);
}

/// Without fairness, the key of an instance has no effect on the order.
pub async fn give_slots_by_priority_and_then_to_the_first_come(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(10)).await;
    for (priority, id) in [(0, "a"), (5, "b"), (0, "c"), (-1, "d"), (5, "e")] {
        store.clock.advance(1);
        let new = NewInstance {
            priority,
            ..of_key("k", id)
        };
        store.start(new).await;
    }
    gets(store, &worker, &["b", "e", "a", "c", "d"]).await;
}

/// With fairness, each key gets a slot before another one gets the next.
pub async fn let_keys_take_turns(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(
        store,
        QueueSettings {
            is_fair: true,
            ..slots(2)
        },
    )
    .await;
    let many = (0..4).map(|n| start(of_key("x", &format!("x{n}"))));
    store.batch(many.collect()).await;
    for id in ["y0", "y1"] {
        store.start(of_key("y", id)).await;
    }
    let first = gets(store, &worker, &["x0", "y0"]).await;
    // A key that comes later is served in the round that is next.
    store.start(of_key("z", "z0")).await;
    finish(store, &first, &worker).await;
    let next = gets(store, &worker, &["x1", "y1"]).await;
    finish(store, &next, &worker).await;
    gets(store, &worker, &["z0", "x2"]).await;
}

/// Delayed instances of a key get their turns in the order of their times.
pub async fn give_delayed_instances_their_turns_by_time(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(
        store,
        QueueSettings {
            is_fair: true,
            ..slots(2)
        },
    )
    .await;
    let delayed = |id: &str, ms| NewInstance {
        due: StartTime::After(ms),
        ..of_key("x", id)
    };
    for (id, ms) in [("third", 1_000), ("second", 500), ("first", 400)] {
        store.start(delayed(id, ms)).await;
    }
    store.clock.advance(1_000);
    let running = gets(store, &worker, &["first", "second"]).await;
    finish(store, &running, &worker).await;
    gets(store, &worker, &["third"]).await;
}

/// The rate of a queue counts admissions, whether or not the instances have ended.
pub async fn admit_no_more_than_the_rate_in_any_span(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, per_second(2)).await;
    let many = (0..6).map(|n| start(queued(&format!("i{n}"))));
    store.batch(many.collect()).await;
    let first = store.acquire(&worker).await;
    assert_eq!(ids(&first), ["i0", "i1"]);
    let next_at_ms = first.next_wake_at_ms.expect("the rate has a token again");
    let wait_ms = next_at_ms - first.now_ms;
    assert_eq!(wait_ms, 1_000);
    assert_eq!(info(store).await.tokens, Some(0));
    // The slots of those that have ended are free, and the rate counts them all the same.
    finish(store, &first.instances, &worker).await;
    store.clock.advance(wait_ms - 1);
    store.assert_nothing_due(&worker).await;
    store.clock.advance(1);
    gets(store, &worker, &["i2", "i3"]).await;
    // A start that comes to an idle queue need not wait.
    store.clock.advance(10_000);
    gets(store, &worker, &["i4", "i5"]).await;
}

/// The rate of a key holds for this key alone.
pub async fn admit_no_more_of_a_key_than_its_rate(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let per_ms = 60_000;
    set(
        store,
        QueueSettings {
            key_rate: Some(Rate { limit: 1, per_ms }),
            ..QueueSettings::default()
        },
    )
    .await;
    for (key, id) in [("x", "x0"), ("x", "x1"), ("x", "x2"), ("y", "y0"), ("", "0"), ("", "1")] {
        store.start(of_key(key, id)).await;
    }
    let first = store.acquire(&worker).await;
    assert_eq!(ids(&first), ["x0", "y0", "0", "1"]);
    let wait_ms = first.next_wake_at_ms.expect("the key has a token again") - first.now_ms;
    assert_eq!(wait_ms, per_ms as i64);
    store.clock.advance(wait_ms - 1);
    let early = store.acquire(&worker).await;
    assert_eq!(ids(&early), Vec::<&str>::new());
    assert_eq!(early.next_wake_at_ms, Some(early.now_ms + 1));
    store.clock.advance(1);
    gets(store, &worker, &["x1"]).await;
    store.clock.advance(per_ms as i64);
    let last = store.acquire(&worker).await;
    assert_eq!(ids(&last), ["x2"]);
    assert_eq!(last.next_wake_at_ms, None);
    // A key whose admissions no longer count begins anew.
    store.clock.advance(200_000);
    store.start(of_key("x", "x3")).await;
    gets(store, &worker, &["x3"]).await;
}

/// An admission counts for the time of the rate that holds now, not of the one under which it came.
pub async fn count_by_the_rate_that_holds(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let rates = |rate, key_rate| QueueSettings {
        rate: Some(rate),
        key_rate: Some(key_rate),
        ..QueueSettings::default()
    };
    let daily = |limit| Rate {
        limit,
        per_ms: 86_400_000,
    };
    let a_second = |limit| Rate { limit, per_ms: 1_000 };
    set(store, rates(daily(1), daily(1))).await;
    for (key, id) in [
        ("x", "x0"),
        ("x", "x1"),
        ("x", "x2"),
        ("x", "x3"),
        ("y", "y0"),
        ("y", "y1"),
    ] {
        store.start(of_key(key, id)).await;
    }
    gets(store, &worker, &["x0"]).await;
    store.clock.advance(10);
    store.assert_nothing_due(&worker).await;
    set(store, rates(daily(2), a_second(2))).await;
    gets(store, &worker, &["x1"]).await;
    store.clock.advance(10);
    set(store, rates(a_second(5), a_second(2))).await;
    gets(store, &worker, &["y0", "y1"]).await;
    store.clock.advance(980);
    gets(store, &worker, &["x2"]).await;
    store.clock.advance(10);
    gets(store, &worker, &["x3"]).await;
}

/// An instance of an unregistered orchestration keeps no other one from its slot.
pub async fn give_slots_only_for_what_the_worker_can_run(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    let other = NewInstance {
        name: "other".into(),
        ..queued("a")
    };
    store.start(other).await;
    store.start(queued("b")).await;
    let first = gets(store, &worker, &["b"]).await;
    finish(store, &first, &worker).await;
    store.assert_nothing_due(&worker).await;
    assert_eq!(info(store).await.waiting, 1);
}

/// An open version is settled when its instance would get a slot (P17).
pub async fn settle_the_version_of_what_they_give_a_slot(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let newer = perdure_provider::NewWorker {
        newest: Newest(vec![(NAME.into(), "9.0.0".into())]),
        ..new_worker("newer")
    };
    store
        .provider
        .register_worker(newer.clone())
        .await
        .expect("the store answers");
    // An instance that is left to another worker uses no token up.
    set(
        store,
        QueueSettings {
            rate: Some(Rate {
                limit: 1,
                per_ms: 86_400_000,
            }),
            ..slots(1)
        },
    )
    .await;
    let open = NewInstance {
        version: OPEN_VERSION.into(),
        ..queued("a")
    };
    store.start(open).await;
    let none = store
        .request(request(&worker, &[(NAME, OPEN_VERSION), (NAME, VERSION)]))
        .await;
    assert_eq!(ids(&none), Vec::<&str>::new());
    let some = store
        .request(request(&newer.id, &[(NAME, OPEN_VERSION), (NAME, "9.0.0")]))
        .await;
    assert_eq!(ids(&some), ["a"]);
    assert_eq!(some.instances[0].version, "9.0.0");
}

/// However many workers ask at once, the limit holds, and each instance gets a slot once.
pub async fn keep_their_limit_if_many_workers_ask_at_once(store: &Store) {
    let first = store.first();
    let second = store.second().unwrap_or(first);
    set(first, slots(7)).await;
    let many = (0..40).map(|n| start(queued(&format!("i{n}"))));
    first.batch(many.collect()).await;
    let workers = [first.worker("w1").await, second.worker("w2").await];
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let (one, two, three, four) = tokio::join!(
            first.acquire_up_to(&workers[0], 3),
            second.acquire_up_to(&workers[1], 3),
            first.acquire_up_to(&workers[0], 3),
            second.acquire_up_to(&workers[1], 3),
        );
        let acquired = [(0, one), (1, two), (0, three), (1, four)];
        let count: usize = acquired.iter().map(|(_, acquired)| acquired.instances.len()).sum();
        assert!(count <= 7, "{count} instances have a slot");
        for (worker, acquired) in acquired {
            for instance in &acquired.instances {
                assert!(seen.insert(instance.id.clone()), "{} got a slot twice", instance.id);
            }
            finish(first, &acquired.instances, &workers[worker]).await;
        }
        if seen.len() == 40 {
            return;
        }
    }
    panic!("only {} of 40 instances got a slot", seen.len());
}
