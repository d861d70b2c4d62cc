//! The committer: what goes together, what is tried again, and who is told of a failure.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use perdure_provider::{Outcome, Provider, ProviderErrorKind, Write};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::committer::{Committer, Patience};
use crate::options::{BATCH_BYTES_MAX, CLIENT_PATIENCE};
use crate::testing::{Call, Memory, PausedClock};

/// Name and answer of each write, in the order of the answers.
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
async fn what_waits_while_a_batch_is_written_is_the_next_one_up_to_its_limit() {
    let f = Fixture::new(1);
    f.memory.hold(Call::Commit);
    for name in ["1", "2", "3", "4", "5", "6"] {
        f.submit(name, Patience::Endless);
    }
    assert_eq!(f.memory.batches(), [1], "one at a time");
    f.memory.let_go(Call::Commit);
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
    f.memory.let_go(Call::Commit);
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
    f.memory.let_go(Call::Commit);
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

/// A busy store answers each batch; one that is gone may not for as long as it is away.
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
        // What the store may have written by now is answered by nobody else.
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
        f.memory.let_go(Call::Commit);
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
    f.memory.let_go(Call::Commit);
    f.submit("3", Patience::Endless);
    f.settle().await;
    let answers = f.answers.lock().clone();
    assert_eq!(f.names(), ["0", "1", "bad", "2", "3"], "in order");
    for (name, answer) in answers {
        assert_eq!(answer.is_err(), name == "bad", "{name}");
    }
    assert_eq!(f.memory.batches(), [1, 3, 1, 1, 1, 1]);
}

/// A second batch that failed for good ended the back-off of a first one that the store was too busy for.
#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_end_the_back_off_of_another_batch() {
    let f = Fixture::new(2);
    f.memory.hold(Call::Commit);
    f.submit("1", Patience::Endless);
    f.submit("2", Patience::Endless);
    f.memory.fail(Call::Commit, ProviderErrorKind::Busy, 1);
    f.memory.fail(Call::Commit, ProviderErrorKind::Internal, 1);
    f.memory.let_go(Call::Commit);
    f.settle().await;
    assert_eq!((f.memory.batches().len(), f.names()), (2, vec!["2".to_owned()]));
    tokio::time::advance(Duration::from_millis(25)).await;
    f.settle().await;
    assert_eq!(f.names(), ["2", "1"]);
}

/// A closed store answers within the call; each answer called it again, ever deeper.
#[tokio::test(start_paused = true)]
async fn a_closed_store_that_answers_at_once_is_not_called_from_within_its_answers() {
    let f = Fixture::new(1);
    f.memory.hold(Call::Commit);
    for n in 0..20_000 {
        f.submit(&n.to_string(), Patience::Endless);
    }
    f.memory.answer_at_once();
    f.memory.close().await;
    f.memory.let_go(Call::Commit);
    f.settle().await;
    let answers = f.answers.lock().clone();
    assert_eq!(answers.len(), 20_000);
    assert!(answers.iter().all(|(_, a)| *a == Err(ProviderErrorKind::Closed)));
}
