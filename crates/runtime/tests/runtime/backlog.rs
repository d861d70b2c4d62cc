//! Large backlogs of messages: they wait in the store, and none is lost, repeated or out of order.

use perdure_engine::{EventKind, Mailbox, MessageBody};
use perdure_provider::Status;

use crate::support::{Call, Fixture, Op, answer};
use perdure_runtime::internals::limits::{MESSAGE_BYTES_HELD_MAX, MESSAGE_PAGE, MESSAGES_HELD_MAX, SEARCHED_MAX};
use perdure_runtime::{Awaiting, RuntimeOptions};

/// More messages than several pages have, and more than are held at once.
const CROWD: usize = 3 * MESSAGES_HELD_MAX + 7;

/// Returns a script that begins with `first`, reads `count` events `x`, and ends with `last`.
fn reader(first: &[Op], count: usize, last: &[Op]) -> &'static [Op] {
    let reads = std::iter::repeat_n(Op::Event("x"), count);
    let script: Vec<Op> = first.iter().copied().chain(reads).chain(last.iter().copied()).collect();
    Box::leak(script.into_boxed_slice())
}

fn cached(cached_instances_max: usize) -> RuntimeOptions {
    RuntimeOptions {
        cached_instances_max,
        ..RuntimeOptions::default()
    }
}

/// Sends events of one name, numbered from `from`.
async fn send(f: &mut Fixture, event: &str, from: usize, count: usize) {
    for n in from..from + count {
        let body = MessageBody::Mail {
            mailbox: Mailbox::Event(event.into()),
            payload: Some(n.to_string()),
        };
        f.store.send("i".into(), body, None, answer().reply());
        if n % 100 == 0 {
            f.settle().await;
            assert_held(f);
        }
    }
    f.settle().await;
    assert_held(f);
}

fn assert_held(f: &Fixture) {
    let held = f.held_messages("i");
    assert!(held <= MESSAGES_HELD_MAX, "{held} messages are in memory");
}

/// Lets the instance read the messages that wait, to its end.
async fn end(f: &mut Fixture) {
    let ended = f.wait("i", Awaiting::End);
    for _ in 0..CROWD {
        if ended.take().is_some() {
            return;
        }
        assert_held(f);
        f.settle().await;
    }
    panic!("it sleeps, and {} messages wait", f.memory.waiting("i"));
}

/// Returns the values of the events that the instance received, in order.
fn received(f: &Fixture, event: &str) -> Vec<usize> {
    let history = f.memory.get("i").history;
    let received = history
        .iter()
        .filter(|e| e.kind == EventKind::EventReceived && e.name.as_deref() == Some(event));
    received
        .map(|e| e.payload.as_deref().and_then(|n| n.parse().ok()).expect("a number"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_busy_instance_leaves_them_in_the_store_and_reads_them_in_order() {
    for cache in [0, 100] {
        let mut f = Fixture::started(cached(cache), reader(&[Op::Activity("a")], CROWD, &[])).await;
        f.start("i").await;
        send(&mut f, "x", 0, CROWD).await;
        assert_eq!(f.memory.waiting("i"), CROWD);
        f.complete("a").await;
        end(&mut f).await;
        assert_eq!(received(&f, "x"), (0..CROWD).collect::<Vec<_>>());
        f.assert_empty();
    }
}

/// The instance is acquired with a backlog that was there before it.
#[tokio::test(start_paused = true)]
async fn an_instance_that_begins_with_them_reads_them_in_order() {
    for cache in [0, 100] {
        let mut f = Fixture::new(cached(cache));
        let started = f.ask_start("i", "main");
        f.settle().await;
        started.take().expect("it was answered").expect("it starts");
        send(&mut f, "x", 0, CROWD).await;
        f.script("main", reader(&[], CROWD, &[]));
        f.begin().await;
        end(&mut f).await;
        assert_eq!(received(&f, "x"), (0..CROWD).collect::<Vec<_>>());
        f.assert_empty();
    }
}

/// There are so many mailboxes that the store is first asked for the messages that wait longest. These are messages of
/// some of the mailboxes, or only messages that the instance does not wait for.
#[tokio::test(start_paused = true)]
async fn an_instance_that_waits_for_many_mailboxes_finds_their_messages_in_order() {
    let names: Vec<String> = (0..2 * SEARCHED_MAX).map(|n| format!("x{n}")).collect();
    let names: &'static [String] = names.leak();
    let (wanted, page) = (MESSAGES_HELD_MAX + 2 * names.len(), MESSAGE_PAGE.rows);
    for (cache, unwanted) in [(0, 0), (100, 0), (100, page / 2), (100, 2 * page)] {
        let reads = std::iter::repeat_n(Op::AnyEvent(names), wanted);
        let script: Vec<Op> = std::iter::once(Op::Activity("a")).chain(reads).collect();
        let mut f = Fixture::started(cached(cache), script.leak()).await;
        f.start("i").await;
        send(&mut f, "unwanted", 0, unwanted).await;
        for n in 0..wanted {
            let body = MessageBody::Mail {
                mailbox: Mailbox::Event(names[n % names.len()].clone()),
                payload: Some(n.to_string()),
            };
            f.store.send("i".into(), body, None, answer().reply());
        }
        f.settle().await;
        f.complete("a").await;
        end(&mut f).await;
        let history = f.memory.get("i").history;
        let received = history.iter().filter(|e| e.kind == EventKind::EventReceived);
        let values: Vec<usize> = received
            .map(|e| e.payload.as_deref().and_then(|n| n.parse().ok()).expect("a number"))
            .collect();
        assert_eq!(values, (0..wanted).collect::<Vec<_>>());
        f.assert_empty();
    }
}

/// The instance waits for another mailbox: asleep in the store, or here because an activity runs.
#[tokio::test(start_paused = true)]
async fn a_crowd_of_messages_that_are_not_awaited_hides_no_later_message() {
    for (cache, is_held) in [(0, false), (100, false), (0, true), (100, true)] {
        let first: &[Op] = if is_held { &[Op::Spawn("a")] } else { &[] };
        let script: Vec<Op> = [first, &[Op::Event("go"), Op::Event("go")]].concat();
        let mut f = Fixture::started(cached(cache), reader(&script, 3, &[Op::Event("go")])).await;
        f.start("i").await;
        send(&mut f, "x", 0, CROWD).await;
        for n in 0..3 {
            send(&mut f, "go", n, 1).await;
            assert_eq!(received(&f, "go").len(), n + 1, "cached {cache}, held {is_held}");
        }
        assert_eq!(f.memory.get("i").status, Status::Completed);
        assert_eq!(received(&f, "x"), [0, 1, 2]);
        f.assert_empty();
    }
}

/// The messages of the backlog that the instance holds are as good as any, and cost no turn.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_here_is_not_woken_by_a_crowd() {
    let mut f = Fixture::started(cached(100), &[Op::Spawn("a"), Op::Event("go")]).await;
    f.start("i").await;
    let turns = f.turns.len();
    send(&mut f, "x", 0, CROWD).await;
    assert!(
        f.turns.len() <= turns + 2,
        "{} turns for nothing",
        f.turns.len() - turns
    );
    send(&mut f, "go", 0, 1).await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_request_to_cancel_is_found_behind_a_crowd() {
    for is_before in [false, true] {
        let mut f = Fixture::new(cached(100));
        let started = f.ask_start("i", "main");
        f.settle().await;
        started.take().expect("it was answered").expect("it starts");
        send(&mut f, "x", 0, CROWD).await;
        let script: &[Op] = if is_before {
            &[Op::Event("go")]
        } else {
            &[Op::Spawn("a"), Op::Event("go")]
        };
        f.script("main", reader(script, 0, &[]));
        if is_before {
            f.store.send(
                "i".into(),
                MessageBody::Cancel { reason: None },
                Some(0),
                answer().reply(),
            );
            f.settle().await;
        }
        f.begin().await;
        if !is_before {
            f.store.send(
                "i".into(),
                MessageBody::Cancel { reason: None },
                Some(0),
                answer().reply(),
            );
            f.settle().await;
        }
        assert_eq!(f.memory.get("i").status, Status::Cancelled);
        f.assert_empty();
    }
}

/// Regression test: a message that came after the store was read and before the answer was here counted as known, and
/// the instance slept on.
#[tokio::test(start_paused = true)]
async fn a_message_that_comes_while_the_store_is_searched_is_found() {
    let mut f = Fixture::started(cached(100), &[Op::Spawn("a"), Op::Activity("b"), Op::Event("go")]).await;
    f.start("i").await;
    send(&mut f, "x", 0, CROWD).await;
    f.memory.hold(Call::Messages);
    f.complete("b").await;
    send(&mut f, "go", 0, 1).await;
    assert_eq!(
        f.memory.get("i").status,
        Status::Running,
        "the search is not answered yet"
    );
    f.memory.resume(Call::Messages);
    f.settle().await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// When the backlog is read, messages are handed over as they come.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_was_read_leaves_nothing_behind() {
    let count = MESSAGES_HELD_MAX + MESSAGE_PAGE.rows;
    let script = reader(
        &[Op::Spawn("a"), Op::Activity("b")],
        count,
        &[Op::Event("go"), Op::Event("go")],
    );
    let mut f = Fixture::started(cached(100), script).await;
    f.start("i").await;
    send(&mut f, "x", 0, count).await;
    f.complete("b").await;
    assert_eq!((received(&f, "x").len(), f.memory.waiting("i")), (count, 0));
    f.memory.hold(Call::Messages);
    send(&mut f, "go", 0, 2).await;
    assert_eq!(
        f.memory.get("i").status,
        Status::Completed,
        "without reading the store again"
    );
    f.memory.resume(Call::Messages);
    f.assert_empty();
}

/// The page that the backlog is read with ends before a message that was handed over as it came.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_comes_before_its_instance_keeps_its_order() {
    let count = 2 * MESSAGE_PAGE.rows + 2;
    // After the first message an activity holds the instance, so that no release tells the store which messages are not
    // known here.
    let mut f = Fixture::started(cached(0), reader(&[Op::Event("x"), Op::Spawn("a")], count - 1, &[])).await;
    f.start("i").await;
    f.memory.hold(Call::Acquire);
    send(&mut f, "x", 0, 1).await;
    // The instance is acquired with message 0 in the store, and is not here yet.
    send(&mut f, "x", 1, count - 2).await;
    f.memory.hold(Call::Messages);
    f.memory.resume(Call::Acquire);
    f.settle().await;
    send(&mut f, "x", count - 1, 1).await;
    f.memory.resume(Call::Messages);
    end(&mut f).await;
    assert_eq!(received(&f, "x"), (0..count).collect::<Vec<_>>());
    f.assert_empty();
}

/// A few large messages are treated like a backlog of many.
#[tokio::test(start_paused = true)]
async fn large_messages_are_left_in_the_store_and_read_in_order() {
    const SIZE: usize = 1024 * 1024;
    let mut f = Fixture::started(cached(100), reader(&[Op::Activity("a")], 12, &[])).await;
    f.start("i").await;
    for n in 0..12 {
        let body = MessageBody::Mail {
            mailbox: Mailbox::Event("x".into()),
            payload: Some(format!("{}{n}", " ".repeat(SIZE))),
        };
        f.store.send("i".into(), body, None, answer().reply());
        f.settle().await;
    }
    assert_eq!(f.held_messages("i"), MESSAGE_BYTES_HELD_MAX / SIZE);
    f.complete("a").await;
    let ended = f.wait("i", Awaiting::End);
    for _ in 0..20 {
        assert!(f.held_messages("i") <= MESSAGE_BYTES_HELD_MAX / SIZE);
        f.settle().await;
    }
    assert!(ended.take().is_some(), "{} messages wait", f.memory.waiting("i"));
    let history = f.memory.get("i").history;
    let payloads = history.iter().filter_map(|event| event.payload.as_deref());
    let received: Vec<usize> = payloads.filter_map(|text| text.trim().parse().ok()).collect();
    assert_eq!(received, (0..12).collect::<Vec<_>>());
}
