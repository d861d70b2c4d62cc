//! Instances that are due, which a question tells of and does not acquire.

use perdure_engine::MessageSeq;
use perdure_provider::{
    Acquire, AcquiredInstance, Clock, Due, DueInstance, DueRequest, NewInstance, PageLimit, ReleaseInstance, StartTime,
    WorkerId, Write,
};

use crate::queues::{queued, set, slots};
use crate::store::{Handle, NAME, START_MS, Store, VERSION, end, event, instance, release};

/// Asks for at most `rows` instances, with at most `messages` messages each.
async fn due(store: &Handle<'_>, rows: usize, messages: usize) -> Due {
    let request = DueRequest {
        worker: WorkerId("asks".into()),
        left_ms: 0,
        registered: vec![(NAME.to_owned(), VERSION.to_owned())],
        rows,
        messages: PageLimit::rows(messages),
    };
    store.provider.due(request).await.expect("the store answers")
}

async fn keys_of(store: &Handle<'_>, rows: usize) -> Vec<i64> {
    let due = due(store, rows, 10).await;
    due.instances.iter().map(|instance| instance.key.0).collect()
}

/// Returns an instance that sleeps until a time, as its last worker knew it.
async fn asleep(store: &Handle<'_>, id: &str, worker: &WorkerId, until_ms: Option<i64>) -> AcquiredInstance {
    let owned = store.owned(id, worker).await;
    store.commit(release(&owned, worker, until_ms)).await;
    owned
}

/// The highest priority comes first, then the instance that has been due longest.
pub async fn are_told_in_the_order_of_acquisitions(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut keys = Vec::new();
    for (id, priority) in [("a", 0), ("b", 5), ("c", 5)] {
        let new = NewInstance {
            priority,
            ..instance(id)
        };
        keys.push(store.start(new).await.0);
        store.clock.advance(1);
    }
    let in_order = [keys[1], keys[2], keys[0]];
    assert_eq!(keys_of(&store, 10).await, in_order);
    assert_eq!(keys_of(&store, 2).await, in_order[..2]);
    let acquired = store.acquire(&worker).await;
    assert_eq!(
        acquired.instances.iter().map(|one| one.key.0).collect::<Vec<_>>(),
        in_order
    );
    assert_eq!(keys_of(&store, 10).await, [] as [i64; 0], "they have an owner");
}

/// With the epoch and the next event of its last owner, so that a worker sees if its generator is still right.
pub async fn come_with_all_of_their_messages(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let sleeping = asleep(&store, "a", &worker, None).await;
    assert_eq!(due(&store, 10, 10).await.instances, []);
    let first = store.deliver("a", event("go", "1")).await;
    let second = store.deliver("a", event("stop", "2")).await;
    let told = due(&store, 10, 2).await;
    let [
        DueInstance {
            key,
            epoch,
            next_event_id,
            messages,
        },
    ] = &told.instances[..]
    else {
        panic!("one is due, not {told:?}");
    };
    assert_eq!(
        (*key, *epoch, *next_event_id),
        (sleeping.key, sleeping.epoch, sleeping.next_event_id)
    );
    let found: Vec<(MessageSeq, _)> = messages.iter().flatten().map(|m| (m.seq, m.body.clone())).collect();
    assert_eq!(found, [(first, event("go", "1")), (second, event("stop", "2"))]);
    assert_eq!(told.now_ms, START_MS);
    assert!(!told.has_others);
    // The instance is still due, with its messages.
    assert_eq!(store.acquire_one(&worker).await.messages.messages.len(), 2);
}

/// A worker must not run a turn with some of them.
pub async fn come_without_messages_that_exceed_the_limit(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    asleep(&store, "a", &worker, None).await;
    for n in 0..3 {
        store.deliver("a", event("go", &n.to_string())).await;
    }
    let messages = |due: Due| due.instances[0].messages.as_ref().map(Vec::len);
    assert_eq!(messages(due(&store, 10, 3).await), Some(3));
    assert_eq!(messages(due(&store, 10, 2).await), None);
}

/// An instance that waits for a time comes without messages.
pub async fn are_due_from_their_time_on(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let first = asleep(&store, "a", &worker, Some(START_MS + 10)).await;
    asleep(&store, "b", &worker, Some(START_MS + 20)).await;
    let before = due(&store, 10, 10).await;
    assert_eq!(
        (before.instances, before.next_wake_at_ms),
        (Vec::new(), Some(START_MS + 10))
    );
    store.clock.advance(10);
    let told = due(&store, 10, 10).await;
    assert_eq!(told.next_wake_at_ms, Some(START_MS + 20));
    let told: Vec<_> = told.instances.into_iter().map(|one| (one.key, one.messages)).collect();
    assert_eq!(told, [(first.key, Some(Vec::new()))]);
    store.clock.advance(10);
    let last = due(&store, 10, 10).await;
    assert_eq!((last.instances.len(), last.next_wake_at_ms), (2, None));
}

/// More than the limit, or some that wait in the line of a queue.
pub async fn say_if_an_acquisition_may_give_others(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["a", "b"] {
        store.start(instance(id)).await;
    }
    assert!(due(&store, 1, 10).await.has_others);
    assert!(!due(&store, 2, 10).await.has_others);
    store.acquire(&worker).await;
    set(store, slots(1)).await;
    assert!(!due(&store, 2, 10).await.has_others);
    store.start(queued("c")).await;
    let told = due(&store, 2, 10).await;
    assert!(told.instances.is_empty() && told.has_others);
    store.acquire_one(&worker).await;
    assert!(!due(&store, 2, 10).await.has_others, "it has its slot");
}

/// A start time of a queue that has not come tells when to look again. One that has come is something to acquire, but
/// not for a worker that cannot run the instance. Regression test: one store took each delayed start for work, and did
/// other things than the others from then on.
pub async fn see_the_queues_as_an_acquisition_does(store: &Store) {
    let store = store.first();
    store.worker("w").await;
    set(store, slots(1)).await;
    let later = |id: &str, ms: u64| NewInstance {
        due: StartTime::After(ms),
        ..queued(id)
    };
    let other = NewInstance {
        name: "other".into(),
        ..later("a", 10)
    };
    store.start(other).await;
    store.start(later("b", 30)).await;
    let seen = async || {
        let told = due(&store, 10, 10).await;
        assert_eq!(told.instances, []);
        (told.has_others, told.next_wake_at_ms)
    };
    assert_eq!(seen().await, (false, Some(START_MS + 30)));
    store.clock.advance(20);
    assert_eq!(
        seen().await,
        (false, Some(START_MS + 30)),
        "it cannot run the one that is due"
    );
    store.clock.advance(10);
    assert_eq!(seen().await, (true, None));
}

/// A worker that does not know an orchestration has no generator of it.
pub async fn are_those_of_registered_orchestrations(store: &Store) {
    let store = store.first();
    let other = NewInstance {
        name: "other".into(),
        ..instance("a")
    };
    store.start(other).await;
    assert_eq!(keys_of(&store, 10).await, [] as [i64; 0]);
}

/// A request that leaves instances for 50 ms to the workers that released them.
fn leaving(worker: &WorkerId) -> Acquire {
    Acquire {
        worker: worker.clone(),
        registered: vec![(NAME.to_owned(), VERSION.to_owned())],
        limit: PageLimit::rows(10),
        history_page: PageLimit::rows(10),
        left_ms: 50,
        looked: true,
    }
}

/// The time is told until which they are left, also if they are due by a time of their own.
pub async fn are_left_to_the_worker_that_released_them(store: &Store) {
    let store = store.first();
    let (one, two) = (store.worker("one").await, store.worker("two").await);
    for (id, has_time) in [("a", true), ("b", false)] {
        let since_ms = store.clock.now_ms();
        let sleeping = asleep(&store, id, &one, has_time.then_some(since_ms)).await;
        if !has_time {
            store.deliver(id, event("go", "1")).await;
        }
        store.clock.advance(49);
        let left = store.request(leaving(&two)).await;
        assert_eq!((left.instances.len(), left.next_wake_at_ms), (0, Some(since_ms + 50)));
        let asked = DueRequest {
            worker: two.clone(),
            left_ms: 50,
            registered: leaving(&two).registered,
            rows: 10,
            messages: PageLimit::rows(10),
        };
        let told = store.provider.due(asked.clone()).await.expect("the store answers");
        assert_eq!((told.instances.len(), told.has_others), (0, false));
        assert_eq!(told.next_wake_at_ms, left.next_wake_at_ms);
        let own = DueRequest {
            worker: one.clone(),
            ..asked
        };
        assert_eq!(
            store
                .provider
                .due(own)
                .await
                .expect("the store answers")
                .instances
                .len(),
            1
        );
        store.clock.advance(1);
        let taken = store.request(leaving(&two)).await.instances;
        assert_eq!(taken.iter().map(|one| one.key).collect::<Vec<_>>(), [sleeping.key]);
        store.commit(end(&taken[0], &two, None)).await;
    }
}

/// An instance that no turn has released, one that its worker released in another way, and one whose worker is gone.
pub async fn are_left_to_no_other_worker(store: &Store) {
    let store = store.first();
    let (one, two) = (store.worker("one").await, store.worker("two").await);
    store.start(instance("a")).await;
    let first = store.request(leaving(&one)).await.instances.remove(0);
    store
        .write(Write::ReleaseInstance(ReleaseInstance {
            key: first.key,
            worker: one.clone(),
            epoch: first.epoch,
        }))
        .await;
    let second = store.request(leaving(&two)).await.instances.remove(0);
    assert_eq!(second.key, first.key);
    store.commit(release(&second, &two, Some(START_MS))).await;
    assert_eq!(store.provider.release_worker(&two).await, Ok(0));
    assert_eq!(store.request(leaving(&one)).await.instances.len(), 1);
}

/// Others that are due later are not held up.
pub async fn are_left_without_those_behind_them(store: &Store) {
    let store = store.first();
    let (one, two) = (store.worker("one").await, store.worker("two").await);
    for n in 0..12 {
        asleep(&store, &format!("a{n}"), &one, Some(START_MS + 10)).await;
    }
    store.clock.advance(10);
    store.start(instance("b")).await;
    let taken = store.request(leaving(&two)).await.instances;
    assert_eq!(taken.iter().map(|one| &*one.id).collect::<Vec<_>>(), ["b"]);
    let taken = store.request(leaving(&one)).await.instances;
    assert_eq!(taken.len(), 10);
}
