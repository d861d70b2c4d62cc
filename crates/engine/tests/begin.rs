//! An instance whose first turn comes long after its start, because there was no worker, or before its start, by the
//! clock of the client that started it.

use perdure_engine::{
    Awaited, Budget, Command, CommandEvent, Engine, Event, EventId, EventKind, EventRecord, ExecutionId,
    ExecutionStarted, NoteEvent, Outcome, RecordError, Start, StateValues, Step,
};

const STARTED_MS: i64 = 1_000_000;

fn started() -> EventRecord {
    let event = ExecutionStarted {
        name: "late".into(),
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
    EventRecord::new(EventId::FIRST, STARTED_MS, event)
}

fn engine(history: Vec<EventRecord>, complete: bool) -> Result<Engine, RecordError> {
    let fresh = history.len() == 1 && complete;
    Engine::new(Start {
        execution: ExecutionId::FIRST,
        history,
        complete,
        fresh,
        budget: Budget::default(),
    })
}

/// Creates a timer of 10 s, waits for it, and ends with the time of that moment.
fn run(engine: &mut Engine, now_ms: i64) -> Vec<EventRecord> {
    engine.begin_turn(now_ms);
    let timer = engine
        .issue(Command::CreateTimer { delay_ms: 10_000 })
        .expect("it fits");
    let awaited = Awaited {
        mailboxes: Vec::new(),
        timers: vec![timer],
    };
    assert_eq!(
        engine.next(awaited.clone(), now_ms).expect("it fits"),
        Step::Wait,
        "the timer counts from the first turn"
    );
    let mut events = engine.end_turn().events;
    let due = now_ms + 10_000;
    assert!(matches!(engine.next(awaited, due).expect("it fits"), Step::Deliver { time_ms, .. } if time_ms == due));
    engine
        .finish(Outcome::Completed(Some(engine.time_ms().to_string())))
        .expect("it fits");
    events.extend(engine.end_turn().events);
    events
}

#[test]
fn time_begins_with_a_late_first_turn_and_a_replay_repeats_it() {
    begins_at(STARTED_MS + 3_600_000);
}

/// Story: a client with a clock that was an hour ahead made every timer of the instances that it started an hour late.
#[test]
fn time_begins_with_a_first_turn_that_comes_before_the_start() {
    begins_at(STARTED_MS - 3_600_000);
}

fn begins_at(late: i64) {
    let mut history = vec![started()];
    history.extend(run(&mut engine(history.clone(), true).expect("it is a history"), late));
    assert_eq!((history[1].kind, history[1].time_ms), (EventKind::ExecutionBegan, late));

    for page in 1..=history.len() {
        let mut pages = history.chunks(page).map(<[_]>::to_vec).peekable();
        let first = pages.next().expect("there is a first page");
        let mut engine = engine(first, pages.peek().is_none()).expect("it is a history");
        while engine.needs_history().is_some() {
            let more = pages.next().expect("there is more");
            engine.extend_history(more, pages.peek().is_none()).expect("it follows");
        }
        assert_eq!(engine.time_ms(), late, "before the code runs, with pages of {page}");
        let timer = engine
            .issue(Command::CreateTimer { delay_ms: 10_000 })
            .expect("it fits");
        assert_eq!(timer, EventId(3));
    }
}

#[test]
fn a_first_turn_in_time_records_nothing() {
    let mut engine = engine(vec![started()], true).expect("it is a history");
    let events = run(&mut engine, STARTED_MS + 20);
    assert_eq!(events[0].kind, EventKind::TimerCreated);
    assert_eq!(engine.time_ms(), STARTED_MS + 10_020);
}

#[test]
fn later_turns_do_not_begin_again() {
    let mut engine = engine(vec![started()], true).expect("it is a history");
    engine.begin_turn(STARTED_MS);
    assert_eq!(
        engine.next(Awaited::default(), STARTED_MS).expect("it fits"),
        Step::Wait
    );
    assert!(engine.end_turn().is_empty());
    engine.begin_turn(STARTED_MS + 3_600_000);
    assert!(engine.end_turn().is_empty());
}

#[test]
fn a_beginning_in_another_place_is_refused() {
    let timer = EventRecord::new(EventId(2), STARTED_MS, CommandEvent::TimerCreated { fire_at_ms: 1 });
    let began = EventRecord::new(EventId(3), STARTED_MS, NoteEvent::ExecutionBegan { version: None });
    let error = engine(vec![started(), timer, began], true).expect_err("no history is like that");
    assert_eq!(error.event_id, EventId(3));
}

/// A start without a version leaves the version to the worker that runs the first turn. A replay finds the version in
/// the history, on any worker.
#[test]
fn the_first_turn_records_a_version_that_the_start_left_open() {
    let open = ExecutionStarted {
        name: "late".into(),
        version: String::new(),
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
    let first = vec![EventRecord::new(EventId::FIRST, STARTED_MS, open)];
    let mut live = engine(first.clone(), true)
        .expect("it is a history")
        .with_version("2.0.0");
    assert_eq!(live.version(), "2.0.0");
    let mut history = first;
    history.extend(run(&mut live, STARTED_MS));
    let began = Event::Note(NoteEvent::ExecutionBegan {
        version: Some("2.0.0".into()),
    });
    assert_eq!(history[1].clone().into_event(), Ok(began));

    let replay = engine(history, true).expect("it is a history").with_version("3.0.0");
    assert_eq!((replay.version(), replay.is_replaying()), ("2.0.0", true));
    let named = engine(vec![started()], true)
        .expect("it is a history")
        .with_version("3.0.0");
    assert_eq!(named.version(), "1.0.0", "what the start names stays");
}
