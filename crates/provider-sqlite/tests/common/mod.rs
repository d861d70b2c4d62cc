//! Stores for the tests of this crate.
#![allow(dead_code, reason = "each test file uses a part of it")]

mod directory;

use std::path::Path;
use std::sync::{Arc, mpsc};

use perdure_engine::{EventId, EventRecord, ExecutionStarted, StateValues};
use perdure_provider::{
    Clock, ManualClock, NewInstance, OnConflict, Outcome, Provider, ProviderError, SystemClock, Write,
};
use perdure_provider_sqlite::{SqliteOptions, SqliteProvider};

pub(crate) use directory::Directory;

pub(crate) fn open(path: &Path, clock: Arc<dyn Clock>) -> SqliteProvider {
    SqliteProvider::open(
        path,
        SqliteOptions {
            clock,
            ..SqliteOptions::default()
        },
    )
    .expect("the store opens")
}

pub(crate) fn manual_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(1_000))
}

pub(crate) fn system_clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// Creates the start of an instance of `flow`.
pub(crate) fn start(id: &str) -> Write {
    let event = ExecutionStarted {
        name: "flow".into(),
        version: "1".into(),
        input: None,
        seed: 1,
        incarnation: None,
        parent: None,
        custom_status: None,
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: None,
        trace: None,
    };
    Write::Start(Box::new(NewInstance {
        id: id.into(),
        name: "flow".into(),
        version: "1".into(),
        first_event: EventRecord::new(EventId::FIRST, 0, event),
        parent_id: None,
        tags: None,
        priority: 0,
        claim: None,
        first_turn: None,
        on_conflict: OnConflict::Keep,
        queue: None,
        due: perdure_provider::StartTime::Now,
    }))
}

/// The receiver of a batch's result.
pub(crate) type Answer = mpsc::Receiver<Result<Vec<Outcome>, ProviderError>>;

/// Hands over a batch.
pub(crate) fn commit(store: &SqliteProvider, writes: Vec<Write>) -> Answer {
    let (answer, answered) = mpsc::channel();
    // The test may no longer wait for the answer by then.
    store.commit(Arc::new(writes), Box::new(move |result| drop(answer.send(result))));
    answered
}

/// Waits for a start that must succeed.
pub(crate) fn started(answer: &Answer) {
    let outcomes = answer
        .recv()
        .expect("a batch is answered")
        .expect("the batch is written");
    assert!(matches!(outcomes[..], [Outcome::Started { .. }]), "{outcomes:?}");
}
