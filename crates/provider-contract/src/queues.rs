//! Queues of instances: the slots that they give, and the line in which instances wait for them (P24, P25).

use perdure_engine::{MessageBody, Refusal, Settlement};
use perdure_provider::{
    Acquired, AcquiredInstance, CrossInstanceEffects, CrossInstanceStart, Epoch, NewInstance, NewMessage, OnConflict,
    Outcome, QUEUES_MAX, QueueDeletion, QueueEntry, QueueInfo, QueuePlace, QueueSettings, Rate, StartTime,
    StartWithMessage, Status, TurnCommit, WorkerId, Write,
};

use crate::store::{Handle, LEASE_MS, START_MS, Store, end, event, instance, release, scheduled, start, turn};

/// The queue of the checks.
pub(crate) const QUEUE: &str = "q";

pub(crate) fn slots(concurrency: u32) -> QueueSettings {
    QueueSettings {
        concurrency: Some(concurrency),
        ..QueueSettings::default()
    }
}

/// At most so many begin in a second.
pub(crate) fn per_second(limit: u32) -> QueueSettings {
    QueueSettings {
        rate: Some(Rate { limit, per_ms: 1_000 }),
        ..QueueSettings::default()
    }
}

pub(crate) async fn set(store: Handle<'_>, settings: QueueSettings) {
    let set = store.provider.set_queue(QUEUE.into(), settings).await;
    assert_eq!(set, Ok(true));
}

pub(crate) async fn info(store: Handle<'_>) -> QueueInfo {
    let queues = store.provider.queues(Some(QUEUE.into())).await;
    let [queue] = <[QueueInfo; 1]>::try_from(queues.expect("the store answers")).expect("one queue has the name");
    queue
}

/// An instance of the queue.
pub(crate) fn of_key(key: &str, id: &str) -> NewInstance {
    NewInstance {
        queue: Some(QueueEntry {
            queue: QUEUE.into(),
            key: key.into(),
        }),
        ..instance(id)
    }
}

pub(crate) fn queued(id: &str) -> NewInstance {
    of_key("", id)
}

pub(crate) fn ids(acquired: &Acquired) -> Vec<&str> {
    acquired.instances.iter().map(|instance| &*instance.id).collect()
}

/// Acquires what there is, which has to be these instances in this order.
pub(crate) async fn gets(store: Handle<'_>, worker: &WorkerId, expected: &[&str]) -> Vec<AcquiredInstance> {
    let acquired = store.acquire(worker).await;
    assert_eq!(ids(&acquired), expected);
    acquired.instances
}

pub(crate) async fn finish(store: Handle<'_>, instances: &[AcquiredInstance], worker: &WorkerId) {
    for instance in instances {
        store.commit(end(instance, worker, None)).await;
    }
}

/// A slot is given within the limit, and the next one when an instance has ended.
pub async fn give_as_many_slots_as_their_limit(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(2)).await;
    for id in ["a", "b", "c", "d"] {
        store.start(queued(id)).await;
    }
    let status = store.status("c").await;
    assert_eq!(status.status, Status::Pending);
    let first = store.acquire(&worker).await;
    assert_eq!(ids(&first), ["a", "b"]);
    assert!(first.slots_wanted);
    assert!(
        first
            .instances
            .iter()
            .all(|one| one.fresh && one.epoch == Epoch(1) && one.history.len() == 1)
    );
    assert!(store.acquire(&worker).await.slots_wanted);
    store.assert_nothing_due(&worker).await;
    finish(store, &first.instances[..1], &worker).await;
    let next = store.acquire(&worker).await;
    assert_eq!(ids(&next), ["c"]);
    finish(store, &first.instances[1..], &worker).await;
    let last = store.acquire(&worker).await;
    assert_eq!(ids(&last), ["d"]);
    assert!(!last.slots_wanted);
    assert_eq!(last.next_wake_at_ms, None);
}

/// A queue without limits only counts its instances.
pub async fn without_limits_let_all_begin(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, QueueSettings::default()).await;
    store.start(queued("a")).await;
    store.start(instance("b")).await;
    store.start(queued("c")).await;
    // What is due comes first, then what is in line.
    let all = gets(store, &worker, &["b", "a", "c"]).await;
    finish(store, &all, &worker).await;
    assert_eq!(info(store).await.running, 0);
}

/// The limit of a request leaves instances in line, and the answer says that they could run at once.
pub async fn leave_in_line_what_the_request_has_no_room_for(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(10)).await;
    for id in ["a", "b", "c"] {
        store.start(queued(id)).await;
    }
    let acquired = store.acquire_up_to(&worker, 2).await;
    assert_eq!(ids(&acquired), ["a", "b"]);
    assert!(acquired.next_wake_at_ms.is_some_and(|at_ms| at_ms <= acquired.now_ms));
    gets(store, &worker, &["c"]).await;
}

/// A slot is free after a termination, a turn that ends, a deletion, a replacement, and a cancellation while suspended.
pub async fn free_the_slot_of_an_instance_that_ends_in_any_way(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    for id in ["terminated", "deleted", "replaced", "suspended", "last"] {
        store.start(queued(id)).await;
    }
    gets(store, &worker, &["terminated"]).await;
    store.terminate("terminated", None).await;
    let deleted = gets(store, &worker, &["deleted"]).await;
    finish(store, &deleted, &worker).await;
    assert_eq!(store.delete("deleted").await, Outcome::Deleted);
    gets(store, &worker, &["replaced"]).await;
    let again = NewInstance {
        on_conflict: OnConflict::TerminateAndRestart,
        ..instance("replaced")
    };
    store.start(again).await;
    // The new one needs no slot: it is in no queue.
    gets(store, &worker, &["replaced", "suspended"]).await;
    store.suspend("suspended", "held").await;
    store.assert_nothing_due(&worker).await;
    store.send("suspended", MessageBody::Cancel { reason: None }).await;
    gets(store, &worker, &["last"]).await;
}

/// An instance keeps its slot while it sleeps, and when its worker dies.
pub async fn leave_an_instance_its_slot_until_its_end(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    store.start(queued("a")).await;
    store.start(queued("b")).await;
    let first = gets(store, &worker, &["a"]).await;
    store
        .commit(TurnCommit {
            events: vec![scheduled(2)],
            ..turn(&first[0], &worker)
        })
        .await;
    let mut asleep = first[0].clone();
    asleep.next_event_id = asleep.next_event_id.next();
    store.commit(release(&asleep, &worker, None)).await;
    store.assert_nothing_due(&worker).await;
    store.deliver("a", event("go", "1")).await;
    let again = gets(store, &worker, &["a"]).await;
    assert_eq!(again[0].epoch, Epoch(2));
    // Its worker dies.
    store.clock.advance(LEASE_MS as i64 + 1);
    let other = store.worker("other").await;
    let taken = store
        .provider
        .take_over_expired_workers("died")
        .await
        .expect("the store answers");
    assert_eq!(taken.workers, [worker]);
    let taken = gets(store, &other, &["a"]).await;
    store.assert_nothing_due(&other).await;
    finish(store, &taken, &other).await;
    gets(store, &other, &["b"]).await;
}

/// A message to an instance in line waits with it (P24).
pub async fn keep_what_is_in_line_from_being_woken(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    store.start(queued("a")).await;
    let key = store.start(queued("b")).await;
    let first = gets(store, &worker, &["a"]).await;
    store.deliver("b", event("go", "1")).await;
    store.assert_nothing_due(&worker).await;
    assert_eq!(store.messages(key).await.len(), 1);
    finish(store, &first, &worker).await;
    let next = gets(store, &worker, &["b"]).await;
    assert_eq!(next[0].messages.messages.len(), 1);
}

/// An instance in line has run no code, so its cancellation is its end (P25).
pub async fn end_what_is_in_line_at_once_if_it_is_cancelled(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    for id in ["a", "b", "c", "d"] {
        store.start(queued(id)).await;
    }
    let first = gets(store, &worker, &["a"]).await;
    let cancelled = store
        .send(
            "b",
            MessageBody::Cancel {
                reason: Some("\"no\"".into()),
            },
        )
        .await;
    assert!(matches!(cancelled, Outcome::Terminated { .. }), "{cancelled:?}");
    assert_eq!(store.status("b").await.status, Status::Cancelled);
    store.terminate("c", None).await;
    assert_eq!(info(store).await.waiting, 1);
    finish(store, &first, &worker).await;
    gets(store, &worker, &["d"]).await;
}

/// A suspended instance gets no slot, and is in line again once it is resumed.
pub async fn keep_what_is_suspended_out_of_the_line(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    for id in ["a", "b", "c"] {
        store.start(queued(id)).await;
    }
    let first = gets(store, &worker, &["a"]).await;
    store.suspend("b", "held").await;
    finish(store, &first, &worker).await;
    let next = gets(store, &worker, &["c"]).await;
    assert_eq!(store.resume("b").await, Outcome::Resumed);
    assert_eq!(store.status("b").await.status, Status::Pending);
    store.assert_nothing_due(&worker).await;
    finish(store, &next, &worker).await;
    gets(store, &worker, &["b"]).await;
}

/// A start in an unknown queue changes nothing, also one that goes with a turn.
pub async fn that_are_not_set_take_no_start(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.write(start(queued("a"))).await, Outcome::NoQueue);
    assert_eq!(store.find("a").await, None);
    let message = |id: &str| NewMessage {
        instance: id.into(),
        body: event("go", "1"),
        unread_max: None,
        time_ms: START_MS,
    };
    let both = |id: &str| {
        Write::StartWithMessage(Box::new(StartWithMessage {
            start: queued(id),
            message: message(id),
            ask: None,
        }))
    };
    assert_eq!(store.write(both("a")).await, Outcome::NoQueue);
    let parent = store.owned("parent", &worker).await;
    let sent = store.write(both("parent")).await;
    assert!(matches!(sent, Outcome::Delivered { .. }), "{sent:?}");
    let starting = CrossInstanceEffects {
        starts: vec![CrossInstanceStart {
            scheduled: perdure_engine::EventId(2),
            is_child: false,
            accepts_other: true,
            instance: queued("b"),
        }],
        ..CrossInstanceEffects::default()
    };
    let did = store
        .did(TurnCommit {
            events: vec![scheduled(2)],
            cross_instance: Some(Box::new(starting)),
            ..turn(&parent, &worker)
        })
        .await;
    assert!(did.refused);
    assert_eq!(did.started, [Outcome::NoQueue]);
    let told = store.bodies(parent.key).await;
    let [.., MessageBody::Settled { settlement, .. }] = &*told else {
        panic!("the instance is told, not {told:?}");
    };
    assert_eq!(*settlement, Settlement::Refused(Refusal::QueueNotFound));
    assert_eq!(store.find("b").await, None);
}

/// The starts of a turn wait for slots as those of clients do.
pub async fn give_slots_to_children_and_detached_instances(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    let parent = store.owned("parent", &worker).await;
    let starts = ["a", "b"].into_iter().zip(2..).map(|(id, event)| CrossInstanceStart {
        scheduled: perdure_engine::EventId(event),
        is_child: true,
        accepts_other: false,
        instance: queued(id),
    });
    let starting = CrossInstanceEffects {
        starts: starts.collect(),
        ..CrossInstanceEffects::default()
    };
    store
        .did(TurnCommit {
            events: vec![scheduled(2), scheduled(3)],
            cross_instance: Some(Box::new(starting)),
            ..turn(&parent, &worker)
        })
        .await;
    let first = gets(store, &worker, &["a"]).await;
    store.assert_nothing_due(&worker).await;
    finish(store, &first, &worker).await;
    gets(store, &worker, &["b"]).await;
}

/// New limits hold for the next admission.
pub async fn change_their_limits_while_instances_wait(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(
        store,
        QueueSettings {
            key_concurrency: Some(1),
            ..slots(2)
        },
    )
    .await;
    let many = (0..6).map(|n| start(of_key("x", &format!("i{n}"))));
    store.batch(many.collect()).await;
    let mut running = gets(store, &worker, &["i0"]).await;
    // The key has no limit any more.
    set(store, slots(3)).await;
    running.extend(gets(store, &worker, &["i1", "i2"]).await);
    // Lower limits stop none that runs.
    set(store, slots(1)).await;
    finish(store, &running[..2], &worker).await;
    store.assert_nothing_due(&worker).await;
    finish(store, &running[2..], &worker).await;
    gets(store, &worker, &["i3"]).await;
    assert_eq!(info(store).await.settings, slots(1));
}

/// A queue with instances stays as it is.
pub async fn are_deleted_when_no_instance_is_in_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let delete = || store.provider.delete_queue(QUEUE.into());
    assert_eq!(delete().await, Ok(QueueDeletion::NotFound));
    set(store, slots(1)).await;
    store.start(queued("a")).await;
    store.start(queued("b")).await;
    let first = gets(store, &worker, &["a"]).await;
    assert_eq!(delete().await, Ok(QueueDeletion::InUse { waiting: 1, running: 1 }));
    finish(store, &first, &worker).await;
    let next = gets(store, &worker, &["b"]).await;
    finish(store, &next, &worker).await;
    assert_eq!(delete().await, Ok(QueueDeletion::Deleted));
    assert_eq!(store.write(start(queued("c"))).await, Outcome::NoQueue);
    set(store, slots(1)).await;
    store.start(queued("c")).await;
    gets(store, &worker, &["c"]).await;
}

/// The counts are those of the moment.
pub async fn are_listed_with_their_counts(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for name in ["b", QUEUE, "a"] {
        assert_eq!(store.provider.set_queue(name.into(), slots(2)).await, Ok(true));
    }
    store.clock.advance(5);
    let later = NewInstance {
        due: StartTime::After(60_000),
        ..queued("later")
    };
    store.start(later).await;
    for id in ["x", "y", "z"] {
        store.start(queued(id)).await;
        store.clock.advance(10);
    }
    gets(store, &worker, &["x", "y"]).await;
    let all = store.provider.queues(None).await.expect("the store answers");
    let names: Vec<&str> = all.iter().map(|queue| &*queue.name).collect();
    assert_eq!(names, ["a", "b", QUEUE]);
    assert_eq!(
        all[2],
        QueueInfo {
            name: QUEUE.into(),
            settings: slots(2),
            paused_at_ms: None,
            waiting: 1,
            delayed: 1,
            running: 2,
            tokens: None,
            oldest_ms: Some(START_MS + 25),
        }
    );
    assert_eq!(store.provider.queues(Some("none".into())).await, Ok(Vec::new()));
}

/// A queue that exists can be set although no other one can be made.
pub async fn are_no_more_than_a_store_may_have(store: &Store) {
    let store = store.first();
    for n in 0..QUEUES_MAX {
        assert_eq!(store.provider.set_queue(format!("q{n}"), slots(1)).await, Ok(true));
    }
    assert_eq!(store.provider.set_queue("more".into(), slots(1)).await, Ok(false));
    assert_eq!(store.provider.set_queue("q0".into(), slots(2)).await, Ok(true));
}

/// An instance with a start time in the future waits for that, and then for a slot.
pub async fn let_delayed_instances_into_the_line_at_their_time(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    let delayed = |id: &str, due| NewInstance { due, ..queued(id) };
    store.start(delayed("late", StartTime::After(2_000))).await;
    store.start(delayed("soon", StartTime::At(START_MS + 1_000))).await;
    let none = store.acquire(&worker).await;
    assert_eq!(ids(&none), Vec::<&str>::new());
    assert_eq!(none.next_wake_at_ms, Some(START_MS + 1_000));
    store.clock.advance(1_000);
    let soon = store.acquire(&worker).await;
    assert_eq!(ids(&soon), ["soon"]);
    assert_eq!(soon.next_wake_at_ms, Some(START_MS + 2_000));
    store.clock.advance(1_000);
    store.assert_nothing_due(&worker).await;
    finish(store, &soon.instances, &worker).await;
    gets(store, &worker, &["late"]).await;
}

/// More start times come at once than a pass looks at. The answer says that the next look is needed soon.
pub async fn let_delayed_instances_into_the_line_that_are_too_many_for_a_pass(store: &Store) {
    const MANY: usize = 1_100;
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    let delayed = |n: usize| NewInstance {
        due: StartTime::After(1_000),
        ..queued(&format!("i{n}"))
    };
    store.batch((0..MANY).map(|n| start(delayed(n))).collect()).await;
    store.clock.advance(1_000);
    for look in 1.. {
        let acquired = store.acquire(&worker).await;
        assert_eq!(acquired.instances.len(), usize::from(look == 1));
        let (queue, now_ms) = (info(store).await, acquired.now_ms);
        assert_eq!(queue.waiting + queue.delayed, MANY as u64 - 1);
        if queue.delayed == 0 {
            assert_eq!(acquired.next_wake_at_ms, None);
            return;
        }
        assert!(
            acquired.next_wake_at_ms.is_some_and(|at_ms| at_ms <= now_ms + 10),
            "{acquired:?}"
        );
    }
}

/// The open work of an instance names its queue and its place there, and the time at which it is due.
pub async fn are_named_with_the_place_of_an_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let limits = QueueSettings {
        key_concurrency: Some(1),
        ..QueueSettings::default()
    };
    set(store, limits).await;
    for id in ["runs", "held"] {
        store.start(of_key("x", id)).await;
    }
    let running = gets(store, &worker, &["runs"]).await;
    store.start(queued("waits")).await;
    let delayed = |id: &str| NewInstance {
        due: StartTime::After(1_000),
        ..queued(id)
    };
    store.start(delayed("delayed")).await;
    let apart = NewInstance {
        queue: None,
        ..delayed("apart")
    };
    store.start(apart).await;
    let place_of = async |id: &str| {
        let work = store.provider.open_work(id.into()).await.expect("the store answers");
        let work = work.expect("it is there");
        let queued = work.queued.map(|queued| {
            assert_eq!(queued.queue, QUEUE);
            (queued.key, queued.place, queued.queued_at_ms - START_MS)
        });
        (queued, work.due_at_ms.map(|at_ms| at_ms - START_MS))
    };
    let at = |key: &str, place, ms| (Some((key.to_owned(), place, ms)), None);
    assert_eq!(place_of("runs").await, at("x", QueuePlace::Slot, 0));
    assert_eq!(place_of("held").await, at("x", QueuePlace::Held, 0));
    assert_eq!(place_of("waits").await, at("", QueuePlace::Waits, 0));
    assert_eq!(place_of("delayed").await, at("", QueuePlace::Delayed, 1_000));
    assert_eq!(place_of("apart").await, (None, Some(1_000)));
    finish(store, &running, &worker).await;
    gets(store, &worker, &["held", "waits"]).await;
    assert_eq!(place_of("held").await, at("x", QueuePlace::Slot, 0));
}

/// A start time without a queue: no worker acquires the instance before.
pub async fn are_no_business_of_starts_that_are_only_delayed(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let delayed = |id: &str, due| NewInstance { due, ..instance(id) };
    store.start(delayed("after", StartTime::After(2_000))).await;
    store.start(delayed("at", StartTime::At(START_MS + 1_000))).await;
    store.start(delayed("past", StartTime::At(START_MS - 1_000))).await;
    let key = store.start(delayed("cancelled", StartTime::After(1_000))).await;
    let past = store.acquire(&worker).await;
    assert_eq!(ids(&past), ["past"]);
    assert_eq!(past.next_wake_at_ms, Some(START_MS + 1_000));
    // A message waits for the time of the instance, and a cancellation ends it at once.
    store.deliver("after", event("go", "1")).await;
    store.assert_nothing_due(&worker).await;
    let cancelled = store.send("cancelled", MessageBody::Cancel { reason: None }).await;
    assert!(
        matches!(cancelled, Outcome::Terminated { key: of, .. } if of == key),
        "{cancelled:?}"
    );
    store.clock.advance(1_000);
    gets(store, &worker, &["at"]).await;
    store.clock.advance(1_000);
    let after = gets(store, &worker, &["after"]).await;
    assert_eq!(after[0].messages.messages.len(), 1);
}

/// A worker that was removed gets no instance from a line.
pub async fn give_nothing_to_a_worker_that_is_not_registered(store: &Store) {
    let store = store.first();
    set(store, slots(1)).await;
    store.start(queued("a")).await;
    store.assert_nothing_due(&WorkerId("stranger".into())).await;
    let worker = store.worker("w").await;
    gets(store, &worker, &["a"]).await;
}
