//! The committer: which writes go together, which are tried again, and which callers are told of a failure.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use perdure_provider::{CommitOutcome, Outcome, Provider, ProviderError, ProviderErrorKind, Write};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::support::{Call, Memory, PausedClock};
use perdure_runtime::internals::limits::{BATCH_BYTES_MAX, CLIENT_PATIENCE};
use perdure_runtime::internals::{Committer, Patience};

/// The name and the answer of each write, in the order of the answers.
type Answers = Arc<Mutex<Vec<(String, Result<Outcome, ProviderErrorKind>)>>>;

struct Fixture {
    memory: Arc<Memory>,
    committer: Arc<Committer>,
    answers: Answers,
}

impl Fixture {
    fn new(concurrent: usize) -> Self {
        let memory = Memory::new(PausedClock::new(), concurrent);
        Self {
            committer: Committer::new(memory.clone(), Handle::current()),
            memory,
            answers: Arc::default(),
        }
    }

    fn submit(&self, name: &str, patience: Patience) {
        self.submit_write(
            Write::Resume {
                id: name.into(),
                time_ms: 0,
            },
            name,
            patience,
        );
    }

    fn submit_write(&self, write: Write, name: &str, patience: Patience) {
        let (answers, name) = (Arc::clone(&self.answers), name.to_owned());
        let done = Box::new(move |answer: Result<_, perdure_provider::ProviderError>| {
            answers.lock().push((name, answer.map_err(|e| e.kind)));
        });
        self.committer.submit(write, patience, done);
    }

    async fn settle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    fn names(&self) -> Vec<String> {
        self.answers.lock().iter().map(|(name, _)| name.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_wait_for_a_batch_are_the_next_one_up_to_its_limit() {
    let f = Fixture::new(1);
    f.memory.hold(Call::Commit);
    for name in ["1", "2", "3", "4", "5", "6"] {
        f.submit(name, Patience::Endless);
    }
    assert_eq!(f.memory.batches(), [1], "one at a time");
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(f.memory.batches(), [1, 4, 1], "the store takes four at once");
    assert_eq!(f.names(), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!((f.committer.stats().batches, f.committer.stats().writes), (3, 6));
}

#[tokio::test(start_paused = true)]
async fn so_many_batches_are_under_way_as_the_store_takes() {
    let f = Fixture::new(2);
    f.memory.hold(Call::Commit);
    for name in ["1", "2", "3", "4"] {
        f.submit(name, Patience::Endless);
    }
    assert_eq!(f.memory.batches(), [1, 1]);
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(f.memory.batches(), [1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_bounded_by_its_bytes() {
    let f = Fixture::new(1);
    f.memory.hold(Call::Commit);
    f.submit("1", Patience::Endless);
    for name in ["2", "3", "4"] {
        let body = perdure_engine::MessageBody::Mail {
            mailbox: perdure_engine::Mailbox::Event("e".into()),
            payload: Some("x".repeat(BATCH_BYTES_MAX / 2 + 1)),
        };
        let message = perdure_provider::NewMessage {
            instance: name.into(),
            body,
            unread_max: None,
            time_ms: 0,
        };
        f.submit_write(Write::Message(message), name, Patience::Endless);
    }
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(f.memory.batches(), [1, 2, 1], "the second of them is over the limit");
}

#[tokio::test(start_paused = true)]
async fn a_busy_store_is_tried_again_with_growing_delays_and_in_order() {
    let f = Fixture::new(1);
    f.memory.fail(Call::Commit, ProviderErrorKind::Busy, 3);
    f.submit("1", Patience::Endless);
    f.submit("2", Patience::Endless);
    f.settle().await;
    assert_eq!(f.memory.batches(), [1], "nothing more before the delay is over");
    for (ms, batches) in [(20, 2), (39, 2), (1, 3), (79, 3), (1, 5)] {
        tokio::time::advance(Duration::from_millis(ms)).await;
        f.settle().await;
        assert!(f.memory.batches().len() <= batches, "{:?}", f.memory.batches());
    }
    tokio::time::advance(Duration::from_millis(5)).await;
    f.settle().await;
    assert_eq!(f.names(), ["1", "2"]);
    assert_eq!(f.committer.stats().retries, 3);
}

/// A busy store answers each batch. A store that is gone may not answer for as long as it is away.
#[tokio::test(start_paused = true)]
async fn a_client_is_told_when_the_store_stays_busy_or_silent_and_a_turn_never_is() {
    for is_silent in [false, true] {
        let f = Fixture::new(1);
        if is_silent {
            f.memory.hold(Call::Commit);
        } else {
            f.memory.fail(Call::Commit, ProviderErrorKind::Full, 12);
        }
        f.submit("under way", Patience::Limited);
        f.submit("turn", Patience::Endless);
        f.submit("client", Patience::Limited);
        let before = Instant::now();
        while f.answers.lock().is_empty() {
            f.settle().await;
            tokio::time::advance(Duration::from_millis(50)).await;
        }
        let waited = before.elapsed();
        assert!(
            waited >= CLIENT_PATIENCE && waited < CLIENT_PATIENCE + Duration::from_secs(1),
            "{waited:?}"
        );
        f.settle().await;
        // Only the store can still answer a write that it may have carried out by now.
        let kind = if is_silent {
            ProviderErrorKind::Busy
        } else {
            ProviderErrorKind::Full
        };
        let told = if is_silent {
            vec!["client"]
        } else {
            vec!["under way", "client"]
        };
        let expected: Vec<_> = told.iter().map(|name| ((*name).to_owned(), Err(kind))).collect();
        assert_eq!(*f.answers.lock(), expected);
        f.memory.resume(Call::Commit);
        for _ in 0..10 {
            f.settle().await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(f.names().len(), 3, "{:?}", f.names());
        assert!(f.answers.lock().contains(&("turn".to_owned(), Ok(Outcome::NotFound))));
    }
}

#[tokio::test(start_paused = true)]
async fn one_refused_write_takes_no_other_down() {
    let f = Fixture::new(1);
    f.memory
        .refuse(|write| matches!(write, Write::Resume { id, .. } if id == "bad"));
    f.memory.hold(Call::Commit);
    for name in ["0", "1", "bad", "2"] {
        f.submit(name, Patience::Endless);
    }
    f.memory.resume(Call::Commit);
    f.submit("3", Patience::Endless);
    f.settle().await;
    let answers = f.answers.lock().clone();
    assert_eq!(f.names(), ["0", "1", "bad", "2", "3"], "in order");
    for (name, answer) in answers {
        assert_eq!(answer.is_err(), name == "bad", "{name}");
    }
    assert_eq!(f.memory.batches(), [1, 3, 1, 1, 1, 1]);
}

/// Regression test: a second batch that failed for good ended the back-off of a first one that the store was too busy
/// for.
#[tokio::test(start_paused = true)]
async fn a_caller_that_panics_over_its_answer_keeps_no_other_from_its_own() {
    let f = Fixture::new(1);
    f.memory.hold(Call::Commit);
    f.submit("1", Patience::Endless);
    let write = Write::Resume {
        id: "2".into(),
        time_ms: 0,
    };
    let panics = Box::new(|_: Result<Outcome, ProviderError>| panic!("over its answer"));
    f.committer.submit(write, Patience::Endless, panics);
    f.submit("3", Patience::Endless);
    f.memory.resume(Call::Commit);
    f.settle().await;
    f.submit("4", Patience::Endless);
    f.settle().await;
    assert_eq!(f.names(), ["1", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_end_the_back_off_of_another_batch() {
    let f = Fixture::new(2);
    f.memory.hold(Call::Commit);
    f.submit("1", Patience::Endless);
    f.submit("2", Patience::Endless);
    f.memory.fail(Call::Commit, ProviderErrorKind::Busy, 1);
    f.memory.fail(Call::Commit, ProviderErrorKind::Internal, 1);
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!((f.memory.batches().len(), f.names()), (2, vec!["2".to_owned()]));
    tokio::time::advance(Duration::from_millis(25)).await;
    f.settle().await;
    assert_eq!(f.names(), ["2", "1"]);
}

/// Regression test: a closed store answers within the call, and each answer called it again, ever deeper.
#[tokio::test(start_paused = true)]
async fn a_closed_store_that_answers_at_once_is_not_called_from_within_its_answers() {
    let f = Fixture::new(1);
    f.memory.hold(Call::Commit);
    for n in 0..20_000 {
        f.submit(&n.to_string(), Patience::Endless);
    }
    f.memory.answer_at_once();
    f.memory.close().await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    let answers = f.answers.lock().clone();
    assert_eq!(answers.len(), 20_000);
    assert!(answers.iter().all(|(_, a)| *a == Err(ProviderErrorKind::Closed)));
}

/// A write that was in the batch is reported as possibly written, even if it is given up or refused later. A write that
/// was not in it is not.
#[tokio::test(start_paused = true)]
async fn a_possible_write_is_reported_as_such_after_any_later_error() {
    let f = Fixture::new(1);
    let outcomes: Arc<Mutex<Vec<(&str, CommitOutcome)>>> = Arc::default();
    let submit = |name: &'static str| {
        let outcomes = Arc::clone(&outcomes);
        let done = Box::new(move |answer: Result<Outcome, ProviderError>| {
            let error = answer.expect_err("nothing is written");
            outcomes.lock().push((name, error.outcome));
        });
        let write = Write::Resume {
            id: name.into(),
            time_ms: 0,
        };
        f.committer.submit(write, Patience::Limited, done);
    };
    f.memory.fail_unknown(Call::Commit, ProviderErrorKind::Io);
    f.memory.fail(Call::Commit, ProviderErrorKind::Busy, 100);
    submit("in it");
    submit("not in it");
    while outcomes.lock().len() < 2 {
        f.settle().await;
        tokio::time::advance(Duration::from_millis(50)).await;
    }
    let expected = [
        ("in it", CommitOutcome::Unknown),
        ("not in it", CommitOutcome::NotCommitted),
    ];
    // Both are given up at once. Their order depends on which was tried last.
    outcomes.lock().sort_unstable_by_key(|(name, _)| *name);
    assert_eq!(*outcomes.lock(), expected);
}

fn message(instance: &str, text: &str) -> Write {
    let body = perdure_engine::MessageBody::Mail {
        mailbox: perdure_engine::Mailbox::Event("e".into()),
        payload: Some(text.into()),
    };
    Write::Message(perdure_provider::NewMessage {
        instance: instance.into(),
        body,
        unread_max: None,
        time_ms: 0,
    })
}

/// Several writes that always fail block no other.
#[tokio::test(start_paused = true)]
async fn writes_that_always_fail_leave_their_turn_to_the_others() {
    let f = Fixture::new(1);
    let is_bad = |write: &Write| matches!(write, Write::Message(m) if m.body.bytes() == 3);
    f.memory.fail_those(ProviderErrorKind::Io, is_bad);
    for n in 0..20 {
        f.submit_write(message(&n.to_string(), "bad"), "bad", Patience::Endless);
    }
    f.submit_write(message("good", "x"), "good", Patience::Endless);
    crate::support::sleep(Duration::from_secs(60)).await;
    assert_eq!(f.names(), ["good"]);
}

/// The store takes the failure for one that passes, and it never does. Not all ways are known in which one write can be
/// too much for a store.
#[tokio::test(start_paused = true)]
async fn a_write_that_always_fails_blocks_no_other() {
    let f = Fixture::new(1);
    let is_bad = |write: &Write| matches!(write, Write::Message(m) if m.instance == "bad" && m.body.bytes() == 3);
    f.memory.fail_those(ProviderErrorKind::Io, is_bad);
    for (instance, text) in [("a", "1"), ("bad", "bad"), ("b", "2"), ("bad", "after"), ("c", "3")] {
        f.submit_write(
            message(instance, text),
            &format!("{instance} {text}"),
            Patience::Endless,
        );
    }
    crate::support::sleep(Duration::from_secs(1)).await;
    assert_eq!(f.names(), ["a 1", "b 2", "c 3"]);
    // Writes that come later neither wait for the failing write nor go alone.
    let batches = f.memory.batches().len();
    f.memory.hold(Call::Commit);
    for name in ["4", "5", "6", "7"] {
        f.submit(name, Patience::Endless);
    }
    f.memory.resume(Call::Commit);
    crate::support::sleep(Duration::from_millis(100)).await;
    assert_eq!(f.names()[3..], ["4", "5", "6", "7"]);
    assert!(f.memory.batches()[batches..].contains(&3), "{:?}", f.memory.batches());
    f.memory.fail_those(ProviderErrorKind::Io, |_| false);
    crate::support::sleep(Duration::from_secs(2)).await;
    assert_eq!(f.names()[7..], ["bad bad", "bad after"], "in their order");
}

/// Each write fails alone then, and none is given up.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_long_keeps_the_order_of_each_subject() {
    let f = Fixture::new(1);
    f.memory.fail(Call::Commit, ProviderErrorKind::Io, 40);
    for n in 0..12 {
        let instance = ["a", "b", "c"][n % 3];
        f.submit_write(message(instance, "x"), &format!("{instance}{n}"), Patience::Endless);
    }
    crate::support::sleep(Duration::from_secs(200)).await;
    let names = f.names();
    assert_eq!(names.len(), 12);
    for instance in ["a", "b", "c"] {
        let of_one: Vec<_> = names.iter().filter(|name| name.starts_with(instance)).collect();
        let numbers: Vec<usize> = of_one.iter().map(|name| name[1..].parse().expect("a number")).collect();
        assert!(numbers.is_sorted(), "{names:?}");
    }
}
