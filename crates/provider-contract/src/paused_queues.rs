//! Queues that are paused: they give no slot (P30).

use perdure_provider::{NewInstance, QueueDeletion, QueueEntry, QueueSettings, StartTime, Status};

use crate::claimed_slots::starts;
use crate::queues::{QUEUE, finish, gets, info, per_second, queued, set, slots};
use crate::store::{Handle, START_MS, Store, instance};

async fn pause(store: Handle<'_>) {
    assert_eq!(store.provider.pause_queue(QUEUE.into(), true).await, Ok(true));
}

async fn resume(store: Handle<'_>) {
    assert_eq!(store.provider.pause_queue(QUEUE.into(), false).await, Ok(true));
}

/// Returns since when the queue of an instance is paused, as its open work tells.
async fn pause_of(store: Handle<'_>, id: &str) -> Option<i64> {
    let work = store.provider.open_work(id.into()).await.expect("the store answers");
    work.and_then(|work| work.queued)
        .expect("it is in a queue")
        .paused_at_ms
}

/// An instance waits for the end of the pause, and no process is told to look for it before.
pub async fn give_no_slot_until_their_pause_ends(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, per_second(1)).await;
    store.start(queued("a")).await;
    store.clock.advance(5);
    pause(store).await;
    store.clock.advance(5);
    pause(store).await;
    let nothing = store.acquire(&worker).await;
    assert!(nothing.instances.is_empty() && !nothing.slots_wanted);
    assert_eq!(nothing.next_wake_at_ms, None);
    let paused = info(store).await;
    assert_eq!(paused.paused_at_ms, Some(START_MS + 5), "since the first pause");
    assert_eq!((paused.waiting, paused.running, paused.tokens), (1, 0, Some(1)));
    assert_eq!(pause_of(store, "a").await, Some(START_MS + 5));
    // An instance without a queue is acquired as ever, and one that waits can be ended.
    store.start(instance("free")).await;
    gets(store, &worker, &["free"]).await;
    store.start(queued("b")).await;
    store.terminate("b", None).await;
    resume(store).await;
    assert_eq!(
        (info(store).await.paused_at_ms, pause_of(store, "a").await),
        (None, None)
    );
    gets(store, &worker, &["a"]).await;
}

/// An instance that has a slot goes on, and the slot that its end makes free is given after the pause.
pub async fn leave_the_slots_that_were_given(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    store.start(queued("a")).await;
    store.start(queued("b")).await;
    let first = gets(store, &worker, &["a"]).await;
    pause(store).await;
    assert_eq!(info(store).await.running, 1);
    finish(store, &first, &worker).await;
    let nothing = store.acquire(&worker).await;
    assert!(nothing.instances.is_empty() && !nothing.slots_wanted);
    let counts = info(store).await;
    assert_eq!((counts.waiting, counts.running), (1, 0));
    resume(store).await;
    gets(store, &worker, &["b"]).await;
}

/// A start whose worker claims it is in line, although slots are free.
pub async fn give_no_slot_with_a_start(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(2)).await;
    pause(store).await;
    assert_eq!(starts(store, &worker, &["a"]).await, Vec::<&str>::new());
    assert_eq!(store.status("a").await.status, Status::Pending);
    store.assert_nothing_due(&worker).await;
    resume(store).await;
    gets(store, &worker, &["a"]).await;
}

/// A delayed instance whose time comes during the pause, and a suspended one that is resumed, wait for its end.
pub async fn keep_what_comes_due_meanwhile(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(5)).await;
    store.start(queued("suspended")).await;
    store.suspend("suspended", "wait").await;
    let delayed = NewInstance {
        due: StartTime::After(1_000),
        ..queued("delayed")
    };
    store.start(delayed).await;
    pause(store).await;
    store.clock.advance(1_000);
    store.assert_nothing_due(&worker).await;
    store.resume("suspended").await;
    store.assert_nothing_due(&worker).await;
    let counts = info(store).await;
    assert_eq!(counts.waiting + counts.delayed, 2);
    resume(store).await;
    gets(store, &worker, &["suspended", "delayed"]).await;
}

/// New limits change nothing about a pause. A queue that is not there cannot be paused, and one that was deleted while
/// it was paused is new when it is set again.
pub async fn stay_paused_when_their_limits_change(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for is_paused in [true, false] {
        assert_eq!(store.provider.pause_queue(QUEUE.into(), is_paused).await, Ok(false));
    }
    set(store, slots(1)).await;
    pause(store).await;
    set(store, QueueSettings::default()).await;
    store.start(queued("a")).await;
    store.assert_nothing_due(&worker).await;
    assert_eq!(info(store).await.paused_at_ms, Some(START_MS));
    store.terminate("a", None).await;
    let deleted = store.provider.delete_queue(QUEUE.into()).await;
    assert_eq!(deleted, Ok(QueueDeletion::Deleted));
    set(store, slots(1)).await;
    store.start(queued("b")).await;
    gets(store, &worker, &["b"]).await;
}

/// Other queues give slots as ever.
pub async fn hold_up_no_other_queue(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    assert_eq!(store.provider.set_queue("other".into(), slots(1)).await, Ok(true));
    pause(store).await;
    let other = |id: &str| NewInstance {
        queue: Some(QueueEntry {
            queue: "other".into(),
            key: String::new(),
        }),
        ..instance(id)
    };
    store.start(queued("a")).await;
    store.start(other("b")).await;
    store.start(other("c")).await;
    let acquired = store.acquire(&worker).await;
    let ids: Vec<&str> = acquired.instances.iter().map(|one| &*one.id).collect();
    assert_eq!((ids, acquired.slots_wanted), (vec!["b"], true));
    finish(store, &acquired.instances, &worker).await;
    gets(store, &worker, &["c"]).await;
    resume(store).await;
    gets(store, &worker, &["a"]).await;
}
