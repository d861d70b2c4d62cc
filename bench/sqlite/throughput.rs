//! The throughput of the provider with the work of `floor`: the same steps as turn commits, 64 in a batch.
//!
//! Two callers' batches are under way at a time, as when a committer gathers the next one while one is written. It
//! prints one line of JSON: steps per second, and the median of a commit of one turn in ms, from the call to its
//! answer.
//!
//! ```sh
//! cargo run --release -p perdure-provider-sqlite --example throughput -- throughput.db 50000
//! ```

mod common;

use std::sync::{Arc, mpsc};

use common::{Arguments, BATCH, INSTANCES, NAME, OWNER, PAYLOAD, START_MS, median_ms, seconds};
use perdure_engine::{
    ActivityOptions, CommandEvent, DeliveryEvent, EventId, EventRecord, ExecutionStarted, StateValues,
};
use perdure_provider::{
    Epoch, InstanceKey, NewInstance, NewWorker, Newest, OnConflict, Outcome, Provider, ProviderError, StartTime,
    TurnCommit, WorkerId, Write,
};
use perdure_provider_contract::idle_turn;
use perdure_provider_sqlite::{SqliteOptions, SqliteProvider};

/// Turns committed one at a time for the median.
const COMMITS: usize = 500;
/// Batches under way.
const UNDER_WAY: usize = 2;

fn main() -> Result<(), ProviderError> {
    let Arguments { file, steps } = Arguments::read();
    let store = SqliteProvider::open(&file, SqliteOptions::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime without drivers starts");
    let worker = WorkerId(OWNER.into());
    runtime.block_on(store.register_worker(NewWorker {
        id: worker.clone(),
        name: "throughput".into(),
        host: "here".into(),
        pid: std::process::id(),
        process_start: String::new(),
        lease_ms: 60_000,
        description: None,
        newest: Newest::default(),
    }))?;
    let keys = started(
        commit(&store, (0..INSTANCES).map(|n| start(n, &worker)).collect())
            .recv()
            .expect("answered")?,
    );

    // Made before the clock starts: the floor makes none either.
    let turns: Vec<Write> = (0..steps)
        .map(|step| turn(keys[step % INSTANCES], step / INSTANCES, &worker))
        .collect();
    let batches: Vec<_> = turns.chunks(BATCH).map(<[Write]>::to_vec).collect();
    let taken = seconds(|| {
        let mut answers = std::collections::VecDeque::new();
        for batch in batches {
            answers.push_back(commit(&store, batch));
            if answers.len() == UNDER_WAY {
                committed(answers.pop_front())?;
            }
        }
        answers.into_iter().try_for_each(|answer| committed(Some(answer)))
    })?;
    let next = steps.div_ceil(INSTANCES);
    let commit_ms = median_ms(COMMITS, |n| {
        let (key, step) = (keys[n % INSTANCES], next + n / INSTANCES);
        committed(Some(commit(&store, vec![turn(key, step, &worker)])))
    })?;
    println!(
        "{{\"providerStepsPerSecond\":{:.0},\"providerCommitMs\":{commit_ms:.3}}}",
        steps as f64 / taken
    );
    Ok(())
}

type Answer = mpsc::Receiver<Result<Vec<Outcome>, ProviderError>>;

fn commit(store: &SqliteProvider, batch: Vec<Write>) -> Answer {
    let (answer, answered) = mpsc::channel();
    store.commit(
        Arc::new(batch),
        Box::new(move |result| answer.send(result).expect("the benchmark waits")),
    );
    answered
}

fn committed(answer: Option<Answer>) -> Result<(), ProviderError> {
    let outcomes = answer
        .expect("a batch is under way")
        .recv()
        .expect("a batch is answered")?;
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, Outcome::Committed { .. })),
        "the fences hold"
    );
    Ok(())
}

fn start(n: usize, worker: &WorkerId) -> Write {
    let event = ExecutionStarted {
        name: NAME.into(),
        version: "1.0.0".into(),
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
        id: format!("chain-{n}"),
        name: NAME.into(),
        version: "1.0.0".into(),
        first_event: EventRecord::new(EventId::FIRST, START_MS, event),
        parent_id: None,
        tags: None,
        priority: 0,
        claim: Some(worker.clone()),
        first_turn: None,
        on_conflict: OnConflict::Keep,
        queue: None,
        due: StartTime::Now,
    }))
}

fn started(outcomes: Vec<Outcome>) -> Vec<InstanceKey> {
    let key = |outcome| match outcome {
        Outcome::Started {
            key,
            claimed: Some(Epoch(1)),
            ..
        } => key,
        other => panic!("started and claimed, not {other:?}"),
    };
    outcomes.into_iter().map(key).collect()
}

/// Step `n` of an instance: the completion of one activity and the schedule of the next.
fn turn(key: InstanceKey, n: usize, worker: &WorkerId) -> Write {
    let next_event_id = EventId(n as u64 * 2 + 2);
    let completed = DeliveryEvent::ActivityCompleted {
        scheduled: EventId(next_event_id.0 - 1),
        output: Some(PAYLOAD.into()),
    };
    let scheduled = CommandEvent::ActivityScheduled {
        name: "step".into(),
        input: Some(PAYLOAD.into()),
        options: ActivityOptions::default(),
    };
    Write::Turn(Box::new(TurnCommit {
        events: vec![
            EventRecord::new(next_event_id, START_MS, completed),
            EventRecord::new(next_event_id.next(), START_MS, scheduled),
        ],
        time_ms: START_MS + n as i64,
        ..idle_turn(key, worker, Epoch(1), next_event_id)
    }))
}
