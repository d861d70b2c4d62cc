//! Starts that depend on the instance that their key has (P26).

use perdure_engine::{Mailbox, MessageBody};
use perdure_provider::{
    Epoch, InstanceKey, KeyedStart, NewInstance, OnConflict, Outcome, QueueEntry, StartRule, StartTime, Status, Write,
};

use crate::queues::{finish, gets, queued, set, slots};
use crate::store::{Handle, Store, end, event, instance};

const DEBOUNCE: StartRule = StartRule::Debounce {
    delay_ms: 1_000,
    max_ms: Some(2_500),
};

fn under(rule: StartRule, key: &str, start: NewInstance) -> Write {
    Write::KeyedStart(Box::new(KeyedStart {
        start,
        scope: "orchestration".into(),
        key: key.into(),
        rule,
        input: None,
    }))
}

fn joined(id: &str) -> Outcome {
    Outcome::Joined { id: id.into() }
}

async fn starts(store: Handle<'_>, rule: StartRule, key: &str, id: &str) {
    let outcome = store.write(under(rule, key, instance(id))).await;
    assert!(
        matches!(
            outcome,
            Outcome::Started {
                claimed: None,
                terminated: None,
                ..
            }
        ),
        "{outcome:?}"
    );
}

fn delayed(new: NewInstance) -> NewInstance {
    NewInstance {
        due: StartTime::After(1_000),
        ..new
    }
}

/// Nothing is started while the instance of a key has not ended, in any scope or under any other key but its own.
pub async fn skip_while_the_instance_of_their_key_is_open(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    starts(store, StartRule::Skip, "k", "a").await;
    let again = || under(StartRule::Skip, "k", instance("b"));
    assert_eq!(store.write(again()).await, joined("a"));
    assert!(store.find("b").await.is_none());
    starts(store, StartRule::Skip, "other", "c").await;
    let elsewhere = Write::KeyedStart(Box::new(KeyedStart {
        start: instance("d"),
        scope: "other".into(),
        key: "k".into(),
        rule: StartRule::Skip,
        input: None,
    }));
    assert!(matches!(store.write(elsewhere).await, Outcome::Started { .. }));
    let owned = store.acquire(&worker).await.instances;
    assert_eq!(store.write(again()).await, joined("a"));
    finish(store, &owned, &worker).await;
    starts(store, StartRule::Skip, "k", "b").await;
    // A start that is sent again finds its own instance.
    assert_eq!(store.write(again()).await, joined("b"));
}

/// The instance of a key is asked to cancel. One that no worker has acquired and that is not due ends.
pub async fn cancel_the_instance_of_their_key(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    starts(store, StartRule::Cancel, "k", "a").await;
    let owned = store.acquire_one(&worker).await;
    let outcome = store.write(under(StartRule::Cancel, "k", delayed(instance("b")))).await;
    let Outcome::Started { terminated, .. } = &outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        matches!(terminated.as_deref(), Some(Outcome::Delivered { owner: Some(owner), .. }) if *owner == worker),
        "{outcome:?}"
    );
    let messages = store.messages(owned.key).await;
    assert!(matches!(messages[0].body, MessageBody::Cancel { reason: None }));
    let outcome = store.write(under(StartRule::Cancel, "k", instance("c"))).await;
    let Outcome::Started { terminated, .. } = &outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        matches!(terminated.as_deref(), Some(Outcome::Terminated { owner: None, .. })),
        "{outcome:?}"
    );
    assert_eq!(store.status("b").await.status, Status::Cancelled);
    // A start that is sent again cancels nothing.
    let again = under(StartRule::Cancel, "k", instance("c"));
    assert_eq!(store.write(again).await, Outcome::Exists);
    assert_eq!(store.status("c").await.status, Status::Pending);
}

/// A throttled start is skipped within its time, even if the instance before has ended, unless that was deleted.
pub async fn wait_for_their_time_when_they_are_throttled(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let rule = StartRule::Throttle { per_ms: 1_000 };
    starts(store, rule, "k", "a").await;
    let owned = store.acquire_one(&worker).await;
    store.commit(end(&owned, &worker, None)).await;
    store.clock.advance(999);
    assert_eq!(store.write(under(rule, "k", instance("b"))).await, joined("a"));
    store.clock.advance(1);
    starts(store, rule, "k", "b").await;
    store.terminate("b", None).await;
    assert_eq!(store.write(under(rule, "k", instance("c"))).await, joined("b"));
    store.delete("b").await;
    starts(store, rule, "k", "c").await;
}

/// A debounced start moves the instance of its key and replaces its input, up to the longest delay. Messages that came
/// for the instance stay.
pub async fn move_the_instance_of_their_key_when_they_are_debounced(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let first = delayed(instance("a"));
    assert!(matches!(
        store.write(under(DEBOUNCE, "k", first)).await,
        Outcome::Started { .. }
    ));
    store.deliver("a", event("go", "1")).await;
    let later = |id: &str, input: &str| {
        let mut new = delayed(instance(id));
        new.first_event.payload = Some(input.into());
        new.priority = 3;
        new.tags = Some(format!("{{\"input\":\"{input}\"}}"));
        under(DEBOUNCE, "k", new)
    };
    let readdressed = Outcome::Readdress { id: "a".into() };
    assert_eq!(store.write(later("b", "2")).await, readdressed);
    assert!(store.find("b").await.is_none());
    for (ms, input, due_in) in [(900, "2", 1_000), (900, "3", 700), (600, "4", 100)] {
        store.clock.advance(ms);
        assert_eq!(store.write(later("a", input)).await, joined("a"));
        let acquired = store.acquire(&worker).await;
        assert!(acquired.instances.is_empty(), "after {input}");
        assert_eq!(acquired.next_wake_at_ms, Some(store.now_ms() + due_in), "after {input}");
    }
    store.clock.advance(100);
    let owned = store.acquire_one(&worker).await;
    assert_eq!((owned.id.as_str(), owned.epoch), ("a", Epoch(1)));
    let history = store.history(owned.key).await;
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].payload.as_deref(), Some("4"));
    assert_eq!(store.messages(owned.key).await.len(), 1);
    assert_eq!(store.status("a").await.tags.as_deref(), Some("{\"input\":\"4\"}"));
    // The instance of the key runs, so the next start is one of its own.
    let outcome = store.write(later("a", "5")).await;
    assert_eq!(outcome, Outcome::Exists);
    assert!(matches!(store.write(later("b", "5")).await, Outcome::Started { .. }));
    assert_eq!(
        store.write(later("c", "6")).await,
        Outcome::Readdress { id: "b".into() }
    );
}

/// A debounced instance of a queue stays in its queue.
pub async fn move_an_instance_in_a_queue(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    store.write(under(DEBOUNCE, "k", delayed(queued("a")))).await;
    store.clock.advance(600);
    assert_eq!(
        store.write(under(DEBOUNCE, "k", delayed(queued("a")))).await,
        joined("a")
    );
    store.clock.advance(600);
    store.assert_nothing_due(&worker).await;
    store.clock.advance(400);
    let first = gets(store, &worker, &["a"]).await;
    // The instance is in line by now, so the next start makes another one.
    store.write(under(DEBOUNCE, "k", delayed(queued("b")))).await;
    store.clock.advance(1_000);
    store.assert_nothing_due(&worker).await;
    let outcome = store.write(under(DEBOUNCE, "k", delayed(queued("c")))).await;
    assert!(matches!(outcome, Outcome::Started { .. }), "{outcome:?}");
    finish(store, &first, &worker).await;
    let second = gets(store, &worker, &["b"]).await;
    store.clock.advance(1_000);
    store.assert_nothing_due(&worker).await;
    finish(store, &second, &worker).await;
    gets(store, &worker, &["c"]).await;
}

fn input(value: &str) -> MessageBody {
    MessageBody::Mail {
        // The name of a queue of a batch: a value in it is not encoded for the instance that has it.
        mailbox: Mailbox::Queue(r#"perdure.batch:["orchestration","k"]"#.into()),
        payload: Some(value.into()),
    }
}

/// Returns a start of a batch of at most `max` inputs, which is due a second after the first of them.
fn of_batch(max: u32, new: NewInstance, value: &str) -> Write {
    let rule = StartRule::Batch { within_ms: 1_000, max };
    Write::KeyedStart(Box::new(KeyedStart {
        start: NewInstance {
            due: rule.due().expect("the rule says when"),
            ..new
        },
        scope: "orchestration".into(),
        key: "k".into(),
        rule,
        input: Some(input(value)),
    }))
}

async fn begins_batch(store: Handle<'_>, max: u32, new: NewInstance, value: &str) {
    let outcome = store.write(of_batch(max, new, value)).await;
    assert!(matches!(outcome, Outcome::Started { claimed: None, .. }), "{outcome:?}");
}

async fn assert_inputs(store: Handle<'_>, key: InstanceKey, expected: &[&str]) {
    let messages = store.messages(key).await;
    let bodies: Vec<MessageBody> = messages.into_iter().map(|message| message.body).collect();
    let expected: Vec<MessageBody> = expected.iter().map(|value| input(value)).collect();
    assert_eq!(bodies, expected);
}

/// Starts of a batch are inputs of one instance until its time has come, or until it has as many as it may have.
pub async fn join_the_instance_of_their_batch(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    begins_batch(store, 3, instance("a"), "1").await;
    store.clock.advance(400);
    assert_eq!(store.write(of_batch(3, instance("b"), "2")).await, joined("a"));
    // The time counts from the first.
    let early = store.acquire(&worker).await;
    assert_eq!(
        (early.instances.len(), early.next_wake_at_ms),
        (0, Some(store.now_ms() + 600))
    );
    store.clock.advance(600);
    let first = store.acquire_one(&worker).await;
    assert_eq!(first.id, "a");
    assert_inputs(store, first.key, &["1", "2"]).await;
    assert!(store.find("b").await.is_none());
    // An instance that runs takes no more.
    begins_batch(store, 3, instance("b"), "3").await;
    for value in ["4", "5"] {
        assert_eq!(store.write(of_batch(3, instance("c"), value)).await, joined("b"));
    }
    // A full one is due at once, and a further input is the first of the next one.
    begins_batch(store, 3, instance("c"), "6").await;
    let second = store.acquire_one(&worker).await;
    assert_eq!(second.id, "b");
    assert_inputs(store, second.key, &["3", "4", "5"]).await;
    begins_batch(store, 1, instance("alone"), "7").await;
    assert_eq!(store.acquire_one(&worker).await.id, "alone");
}

/// Starts of batches that are written together fill one instance after the other, with other writes between them.
pub async fn fill_batches_that_are_written_together(store: &Store) {
    let store = store.first();
    let of = |n: usize, key: &str| {
        let mut write = of_batch(3, instance(&format!("{key}{n}")), &n.to_string());
        if let Write::KeyedStart(keyed) = &mut write {
            keyed.key = key.into();
        }
        write
    };
    let mut writes: Vec<Write> = (0..14)
        .map(|n| of(n, if n % 2 == 0 { "even" } else { "odd" }))
        .collect();
    writes.insert(5, under(StartRule::Skip, "k", instance("other")));
    let mut outcomes = store.batch(writes).await;
    assert!(matches!(outcomes.remove(5), Outcome::Started { .. }));
    for (n, outcome) in outcomes.iter().enumerate() {
        let (of_key, key) = (n / 2, if n % 2 == 0 { "even" } else { "odd" });
        // Every third of a key begins a batch.
        let first = n - 2 * (of_key % 3);
        if first == n {
            assert!(matches!(outcome, Outcome::Started { .. }), "{n}: {outcome:?}");
        } else {
            assert_eq!(*outcome, joined(&format!("{key}{first}")), "{n}");
        }
    }
    for (id, inputs) in [
        ("even0", vec!["0", "2", "4"]),
        ("odd7", vec!["7", "9", "11"]),
        ("even12", vec!["12"]),
    ] {
        let found = store.find(id).await.expect("it was started");
        assert_inputs(store, found.key, &inputs).await;
    }
    let next = of(14, "even");
    assert_eq!(store.write(next).await, joined("even12"));
}

/// The instance of a batch waits in its queue when it is full.
pub async fn join_the_instance_of_their_batch_in_a_queue(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    begins_batch(store, 2, queued("a"), "1").await;
    store.assert_nothing_due(&worker).await;
    assert_eq!(store.write(of_batch(2, queued("b"), "2")).await, joined("a"));
    let first = gets(store, &worker, &["a"]).await;
    assert_inputs(store, first[0].key, &["1", "2"]).await;
    begins_batch(store, 2, queued("b"), "3").await;
    assert_eq!(store.write(of_batch(2, queued("c"), "4")).await, joined("b"));
    begins_batch(store, 2, queued("c"), "5").await;
    store.assert_nothing_due(&worker).await;
    finish(store, &first, &worker).await;
    let second = gets(store, &worker, &["b"]).await;
    assert_inputs(store, second[0].key, &["3", "4"]).await;
}

/// An instance of a batch that has ended or is suspended before its time takes no further input.
pub async fn leave_a_batch_that_will_not_run(store: &Store) {
    let store = store.first();
    begins_batch(store, 9, instance("a"), "1").await;
    store.terminate("a", None).await;
    begins_batch(store, 9, instance("b"), "2").await;
    store.suspend("b", "held").await;
    begins_batch(store, 9, instance("c"), "3").await;
    // One that goes on runs with the inputs that it had.
    assert_eq!(store.write(of_batch(9, instance("d"), "4")).await, joined("c"));
    store.delete("a").await;
    assert_eq!(store.write(of_batch(9, instance("d"), "5")).await, joined("c"));
}

/// Each of eight inputs at once comes to one instance, of at most as many as its batch may have.
pub async fn give_each_input_to_one_batch_of_eight_at_once(store: &Store) {
    let number = std::sync::atomic::AtomicU32::new(0);
    let outcomes = store
        .eight_at_once(|| {
            let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
            of_batch(3, instance(&number), &number)
        })
        .await;
    let is_start = |outcome: &&Outcome| matches!(outcome, Outcome::Started { .. });
    assert_eq!(outcomes.iter().filter(is_start).count(), 3, "{outcomes:?}");
    let store = store.first();
    let mut inputs = Vec::new();
    for number in 0..8 {
        let Some(found) = store.find(&number.to_string()).await else {
            continue;
        };
        let messages = store.messages(found.key).await;
        assert!(messages.len() <= 3, "{messages:?}");
        inputs.extend(messages.into_iter().map(|message| message.body));
    }
    for number in 0..8 {
        let input = input(&number.to_string());
        assert_eq!(inputs.iter().filter(|body| **body == input).count(), 1, "{inputs:?}");
    }
}

/// A start that is refused leaves the key to the instance before.
pub async fn change_nothing_when_they_are_refused(store: &Store) {
    let store = store.first();
    store.start(instance("in use")).await;
    starts(store, StartRule::Cancel, "k", "a").await;
    for (new, refused) in [
        (instance("in use"), Outcome::Exists),
        (
            NewInstance {
                queue: Some(QueueEntry {
                    queue: "none".into(),
                    key: String::new(),
                }),
                ..instance("b")
            },
            Outcome::NoQueue,
        ),
    ] {
        assert_eq!(store.write(under(StartRule::Cancel, "k", new.clone())).await, refused);
        assert_eq!(store.write(under(StartRule::Skip, "new", new)).await, refused);
    }
    assert_eq!(store.status("a").await.status, Status::Pending);
    assert_eq!(
        store.write(under(StartRule::Skip, "k", instance("c"))).await,
        joined("a")
    );
    starts(store, StartRule::Skip, "new", "c").await;
    // A start may replace an instance of its id, which has the key of another rule.
    let throttle = StartRule::Throttle { per_ms: 1_000 };
    starts(store, throttle, "k", "t").await;
    let anew = NewInstance {
        on_conflict: OnConflict::TerminateAndRestart,
        ..instance("t")
    };
    assert_eq!(store.write(under(throttle, "k", anew.clone())).await, joined("t"));
    let outcome = store.write(under(StartRule::Skip, "t", anew)).await;
    assert!(
        matches!(
            outcome,
            Outcome::Started {
                terminated: Some(_),
                ..
            }
        ),
        "{outcome:?}"
    );
    starts(store, throttle, "k", "u").await;
}

/// One of eight starters at once starts an instance, and the others are told of it.
pub async fn make_one_instance_of_eight_at_once(store: &Store) {
    for rule in [StartRule::Skip, StartRule::Throttle { per_ms: 60_000 }] {
        let number = std::sync::atomic::AtomicU32::new(0);
        let outcomes = store
            .eight_at_once(|| {
                let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                under(rule, "k", instance(&format!("{} {number}", rule.name())))
            })
            .await;
        let joined = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Joined { .. }));
        let started = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Started { .. }));
        assert_eq!((joined.count(), started.count()), (7, 1), "{outcomes:?}");
    }
}

/// Starts of one batch see each other.
pub async fn see_those_before_them_in_a_batch(store: &Store) {
    let store = store.first();
    let write = |n: usize| under(StartRule::Skip, &format!("k{}", n % 5), instance(&format!("i{n}")));
    let outcomes = store.batch((0..10).map(write).collect()).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        if n < 5 {
            assert!(matches!(outcome, Outcome::Started { .. }), "{outcome:?}");
        } else {
            assert_eq!(*outcome, joined(&format!("i{}", n - 5)));
        }
    }
}

/// Batches of two handles with the same keys in opposite orders are both written.
pub async fn of_many_keys_in_any_order_come_about(store: &Store) {
    let first = store.first();
    let second = store.second().unwrap_or(first);
    for round in 0..10 {
        let write = |who: &str, n: usize| {
            under(
                StartRule::Skip,
                &format!("{round} {n}"),
                instance(&format!("{who}{round}{n}")),
            )
        };
        let forth = (0..8).map(|n| write("a", n)).collect();
        let back = (0..8).rev().map(|n| write("b", n)).collect();
        let (forth, back) = tokio::join!(first.batch(forth), second.batch(back));
        let started = forth
            .iter()
            .chain(&back)
            .filter(|outcome| matches!(outcome, Outcome::Started { .. }));
        assert_eq!(started.count(), 8, "{forth:?} {back:?}");
    }
}
