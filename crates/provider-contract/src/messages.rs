//! Messages (P5).

use std::collections::HashMap;

use perdure_engine::{Message, MessageBody, MessageSeq};
use perdure_provider::{
    InboxPosition, NewMessage, Outcome, PageLimit, ProviderErrorKind, Status, TurnCommit, WorkerId, Write,
};

use crate::store::{Handle, START_MS, Store, end, event, instance, queued, release, start, suspend, turn};

fn cancel(reason: &str) -> MessageBody {
    MessageBody::Cancel {
        reason: Some(reason.into()),
    }
}

/// Events, queues and requests to cancel share one order.
pub async fn keep_their_order_over_every_kind(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let key = store.start(instance("a")).await;
    let bodies = [
        event("go", "1"),
        queued("go", "2"),
        cancel("\"enough\""),
        MessageBody::Cancel { reason: None },
        event("go", "3"),
        event("", "4"),
        queued("other", "5"),
    ];
    let mut sent = Vec::new();
    for body in bodies {
        sent.push(Message {
            seq: store.deliver("a", body.clone()).await,
            body,
        });
    }
    assert!(sent.is_sorted_by(|one, two| one.seq < two.seq));
    assert_eq!(store.messages(key).await, sent);
    assert_eq!(store.acquire_one(&worker).await.messages.messages, sent);
}

/// A number is not given twice, even after its message is gone.
pub async fn numbers_of_an_instance_only_rise(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let one = store.deliver("a", event("go", "1")).await;
    let two = store.deliver("a", event("go", "2")).await;
    store
        .commit(TurnCommit {
            consumed: vec![one, two],
            seen: two,
            ..turn(&owned, &worker)
        })
        .await;
    let three = store.deliver("a", event("go", "3")).await;
    assert!(MessageSeq(0) < one && one < two && two < three, "{one} {two} {three}");
}

/// `seen` tells new messages from old ones that arrive late from a read before the acquisition.
pub async fn that_are_old_are_told_from_new_ones_at_an_acquisition(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let one = store.deliver("a", event("go", "1")).await;
    let two = store.deliver("a", event("go", "2")).await;
    assert!(owned.seen < one, "{}", owned.seen);
    store
        .commit(TurnCommit {
            consumed: vec![one],
            seen: two,
            ..release(&owned, &worker, Some(START_MS))
        })
        .await;
    let again = store.acquire_one(&worker).await;
    assert!(again.seen >= two, "{} is behind {two}", again.seen);
    let three = store.deliver("a", event("go", "3")).await;
    assert!(three > again.seen, "{three} looks old: {}", again.seen);
}

/// The outcome names the owner, which is to be woken in any process.
pub async fn tell_the_owner_of_the_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let outcome = store.send("a", event("go", "1")).await;
    assert!(
        matches!(&outcome, Outcome::Delivered { key, owner: Some(owner), .. } if *key == owned.key && *owner == worker)
    );
    // The owner keeps the instance: no other worker may take it because of the message.
    let other = store.worker("other").await;
    store.assert_nothing_due(&other).await;
}

/// A message wakes the instance, whether or not it would have woken by itself.
pub async fn make_a_sleeping_instance_due(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for (id, wake_at_ms) in [("timed", Some(START_MS + 1_000_000)), ("for ever", None)] {
        let owned = store.owned(id, &worker).await;
        store.commit(release(&owned, &worker, wake_at_ms)).await;
        store.assert_nothing_due(&worker).await;
        for body in [event("go", "1"), cancel("1")] {
            let outcome = store.send(id, body).await;
            assert!(matches!(outcome, Outcome::Delivered { owner: None, .. }), "{outcome:?}");
        }
        let woken = store.acquire_one(&worker).await;
        assert_eq!((woken.id.as_str(), woken.messages.messages.len()), (id, 2));
    }
}

/// A message does not move a due instance behind those that became due after it.
pub async fn leave_an_instance_that_is_due_in_its_place(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.start(instance("first")).await;
    store.clock.advance(1);
    store.start(instance("second")).await;
    store.clock.advance(1);
    store.deliver("first", event("go", "1")).await;
    assert_eq!(store.acquire_up_to(&worker, 1).await.instances[0].id, "first");
}

/// Only a resume wakes a suspended instance. Then its messages are there.
pub async fn wait_at_a_suspended_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    let outcome = store.send("a", event("go", "1")).await;
    assert!(matches!(outcome, Outcome::Delivered { owner: None, .. }), "{outcome:?}");
    store.assert_nothing_due(&worker).await;
    assert_eq!(store.status("a").await.status, Status::Suspended);
    assert_eq!(store.resume("a").await, Outcome::Resumed);
    assert_eq!(store.acquire_one(&worker).await.messages.messages.len(), 1);
}

/// No code would ever read them (P6).
pub async fn are_refused_by_an_ended_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(end(&owned, &worker, None)).await;
    assert_eq!(
        store.send("a", event("go", "1")).await,
        Outcome::Ended {
            status: Status::Completed
        }
    );
    assert_eq!(
        store.send("a", cancel("1")).await,
        Outcome::Ended {
            status: Status::Completed
        }
    );
    assert_eq!(store.messages(owned.key).await, []);
}

/// A message to an unknown id is not kept for a later instance.
pub async fn are_refused_for_an_unknown_id(store: &Store) {
    let store = store.first();
    assert_eq!(store.send("a", event("go", "1")).await, Outcome::NotFound);
    let key = store.start(instance("a")).await;
    assert_eq!(store.messages(key).await, []);
}

/// A message is removed in the same commit as the event that it became. The others stay, in order.
pub async fn are_gone_with_the_turn_that_consumed_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let mut numbers = Vec::new();
    for n in 0..4 {
        numbers.push(store.deliver("a", event("go", &n.to_string())).await);
    }
    let consumed = vec![numbers[2], numbers[0]];
    store
        .commit(TurnCommit {
            consumed,
            seen: numbers[3],
            ..turn(&owned, &worker)
        })
        .await;
    let left: Vec<_> = store
        .messages(owned.key)
        .await
        .into_iter()
        .map(|message| message.seq)
        .collect();
    assert_eq!(left, [numbers[1], numbers[3]]);
}

/// A message is consumed by a turn, not by a read.
pub async fn that_were_not_consumed_pass_to_the_next_owner(store: &Store) {
    let store = store.first();
    let (worker, next) = (store.worker("w").await, store.worker("next").await);
    store.start(instance("a")).await;
    let one = store.deliver("a", event("go", "1")).await;
    let owned = store.acquire_one(&worker).await;
    let two = store.deliver("a", event("go", "2")).await;
    store
        .commit(TurnCommit {
            consumed: vec![one],
            seen: two,
            ..turn(&owned, &worker)
        })
        .await;
    store
        .provider
        .release_worker(&worker)
        .await
        .expect("the worker is removed");
    let taken = store.acquire_one(&next).await;
    assert_eq!(
        taken.messages.messages,
        [Message {
            seq: two,
            body: event("go", "2")
        }]
    );
}

/// A fenced turn consumes nothing.
pub async fn of_a_fenced_turn_still_wait(store: &Store) {
    let store = store.first();
    let (worker, next) = (store.worker("w").await, store.worker("next").await);
    store.start(instance("a")).await;
    let seq = store.deliver("a", event("go", "1")).await;
    let owned = store.acquire_one(&worker).await;
    store
        .provider
        .release_worker(&worker)
        .await
        .expect("the worker is removed");
    let taken = store.acquire_one(&next).await;
    let late = TurnCommit {
        consumed: vec![seq],
        ..turn(&owned, &worker)
    };
    assert_eq!(store.turn(late).await, Outcome::Fenced);
    assert_eq!(taken.messages.messages.len(), 1);
    store
        .commit(TurnCommit {
            consumed: vec![seq],
            ..turn(&taken, &next)
        })
        .await;
    assert_eq!(store.messages(taken.key).await, []);
}

/// A turn is refused as a defect if it consumes a message that does not wait for its instance, or that its worker has
/// not seen.
pub async fn cannot_be_consumed_twice(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.start(instance("other")).await;
    store.deliver("other", event("go", "1")).await;
    let others = store.deliver("other", event("go", "2")).await;
    store.acquire(&worker).await;
    let owned = store.owned("a", &worker).await;
    let seq = store.deliver("a", event("go", "1")).await;
    assert_ne!(seq, others);
    let with = |consumed: Vec<MessageSeq>, seen| TurnCommit {
        consumed,
        seen,
        ..turn(&owned, &worker)
    };
    for bad in [
        with(vec![seq, seq], seq),
        with(vec![others], seq.max(others)),
        with(vec![seq], MessageSeq(seq.0 - 1)),
    ] {
        let refused = store.try_batch(vec![Write::Turn(Box::new(bad))]).await;
        assert_eq!(refused.expect_err("it is refused").kind, ProviderErrorKind::Internal);
        assert_eq!(store.messages(owned.key).await.len(), 1);
    }
    store.commit(with(vec![seq], seq)).await;
}

/// One read from a position on: the messages, the next position, and whether more follow.
async fn inbox(
    store: Handle<'_>,
    worker: &WorkerId,
    since: &InboxPosition,
    limit: usize,
) -> (Vec<(i64, MessageSeq)>, InboxPosition, bool) {
    let inbox = store.provider.read_inbox(worker, since, PageLimit::rows(limit)).await;
    let inbox = inbox.expect("the store answers");
    assert!(inbox.messages.len() <= limit);
    let seq = |message: Result<Message, MessageSeq>| message.expect("it can be read").seq;
    let messages = inbox.messages.into_iter().map(|(key, message)| (key.0, seq(message)));
    (messages.collect(), inbox.position, inbox.more)
}

/// Reads all messages after a position in pages of `limit`, each once.
async fn sweep(
    store: Handle<'_>,
    worker: &WorkerId,
    since: &InboxPosition,
    limit: usize,
) -> (Vec<(i64, MessageSeq)>, InboxPosition) {
    let (mut all, mut position) = (Vec::new(), since.clone());
    loop {
        let (messages, next, more) = inbox(store, worker, &position, limit).await;
        all.extend(messages);
        position = next;
        if !more {
            return (all, position);
        }
    }
}

/// The messages of one instance, in the order in which they were read.
fn of(key: i64, messages: &[(i64, MessageSeq)]) -> Vec<MessageSeq> {
    let its = messages.iter().filter(|(owner, _)| *owner == key);
    its.map(|(_, seq)| *seq).collect()
}

/// The inbox holds the messages of all instances of the worker, those of an instance in order. It holds no messages of
/// others, and none twice.
pub async fn in_the_inbox_are_those_of_the_worker_since_a_position(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let (a, b) = (
        store.owned("a", &worker).await.key.0,
        store.owned("b", &worker).await.key.0,
    );
    store.owned("c", &other).await;
    store.start(instance("d")).await;
    let beginning = InboxPosition::default();
    let (none, early) = sweep(store, &worker, &beginning, 10).await;
    assert_eq!(none, []);
    let mut expected: HashMap<i64, Vec<MessageSeq>> = HashMap::new();
    for _ in 0..3 {
        for (id, key) in [("a", Some(a)), ("c", None), ("b", Some(b)), ("d", None)] {
            let seq = store.deliver(id, event("go", "1")).await;
            if let Some(key) = key {
                expected.entry(key).or_default().push(seq);
            }
        }
    }
    for since in [&beginning, &early] {
        for limit in [1, 2, 5, 6, 7, 100] {
            let (messages, end) = sweep(store, &worker, since, limit).await;
            assert_eq!(messages.len(), 6, "in pages of {limit}");
            assert_eq!(
                (of(a, &messages), of(b, &messages)),
                (expected[&a].clone(), expected[&b].clone())
            );
            assert_eq!(inbox(store, &worker, &end, 100).await.0, []);
        }
    }
    let (_, end) = sweep(store, &worker, &early, 100).await;
    let late = store.deliver("b", event("go", "2")).await;
    let (messages, end) = sweep(store, &worker, &end, 100).await;
    assert_eq!(messages, [(b, late)]);
    let first = store.provider.read_inbox(&worker, &beginning, PageLimit::rows(1)).await;
    let first = first.expect("the store answers");
    let first = first.messages[0].1.as_ref().expect("it can be read");
    assert_eq!(first.body, event("go", "1"));
    store
        .provider
        .release_worker(&worker)
        .await
        .expect("the worker is removed");
    assert_eq!(inbox(store, &worker, &end, 100).await.0, []);
    assert_eq!(inbox(store, &worker, &beginning, 100).await.0, []);
}

/// A message that comes between two pages is in a later page, and hides none of those before it.
pub async fn that_come_between_pages_of_the_inbox_are_read_too(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let a = store.owned("a", &worker).await.key.0;
    let b = store.owned("b", &worker).await.key.0;
    let mut expected = vec![
        store.deliver("b", event("go", "1")).await,
        store.deliver("b", event("go", "2")).await,
    ];
    let (mut messages, position, more) = inbox(store, &worker, &InboxPosition::default(), 1).await;
    assert!(more);
    let between = store.deliver("a", event("go", "1")).await;
    expected.push(store.deliver("b", event("go", "3")).await);
    let (rest, end) = sweep(store, &worker, &position, 1).await;
    messages.extend(rest);
    messages.extend(sweep(store, &worker, &end, 100).await.0);
    assert_eq!((of(a, &messages), of(b, &messages)), (vec![between], expected));
}

/// A crowd of messages for other instances hides none.
pub async fn in_the_inbox_are_found_among_many_of_others(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let (a, b) = (
        store.owned("a", &worker).await.key.0,
        store.owned("b", &worker).await.key.0,
    );
    store.batch(vec![start(instance("crowd"))]).await;
    let (_, position) = sweep(store, &worker, &InboxPosition::default(), 100).await;
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        of_b.push(store.deliver("b", event("go", "1")).await);
        let message = || NewMessage {
            instance: "crowd".into(),
            body: event("go", "1"),
            unread_max: None,
            time_ms: START_MS,
        };
        store
            .batch((0..1_000).map(|_| Write::Message(message())).collect())
            .await;
        of_a.push(store.deliver("a", event("go", "1")).await);
    }
    for limit in [2, 100] {
        let (messages, _) = sweep(store, &worker, &position, limit).await;
        assert_eq!((of(a, &messages), of(b, &messages)), (of_a.clone(), of_b.clone()));
    }
}
