//! The trace context of a start is recorded with it, stays with the instance, and changes nothing.

use perdure_engine::{
    ActivityOptions, Awaited, Budget, Command, Engine, Event, EventId, EventRecord, ExecutionId, ExecutionStarted,
    InstanceStart, Outcome, Start, StartConflict, StateValues, TraceContext, incarnation_of,
};

const TRACE: &str = "{\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"}";

fn started(trace: TraceContext) -> Event {
    Event::Started(ExecutionStarted {
        name: "order".into(),
        version: "1.0.0".into(),
        input: None,
        seed: 7,
        incarnation: None,
        parent: None,
        custom_status: None,
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: None,
        trace,
    })
}

fn engine(history: Vec<EventRecord>, fresh: bool) -> Engine {
    let start = Start {
        execution: ExecutionId::FIRST,
        history,
        complete: true,
        fresh,
        budget: Budget::default(),
    };
    Engine::new(start).expect("a sound history")
}

fn first(trace: TraceContext) -> EventRecord {
    EventRecord::new(EventId::FIRST, 0, started(trace))
}

fn charge(trace: TraceContext) -> Command {
    Command::ScheduleActivity {
        name: "charge".into(),
        input: None,
        options: ActivityOptions {
            trace,
            ..ActivityOptions::default()
        },
    }
}

fn child(trace: TraceContext) -> Command {
    Command::StartChild(InstanceStart {
        on_conflict: StartConflict::default(),
        admission: None,
        id: "child".into(),
        name: "order".into(),
        version: "1.0.0".into(),
        input: None,
        tags: None,
        priority: 0,
        trace,
    })
}

#[test]
fn next_execution_has_the_trace_context() {
    for trace in [None, Some(TRACE.to_owned())] {
        let mut engine = engine(vec![first(trace.clone())], true);
        engine.begin_turn(0);
        let end = Outcome::ContinuedAsNew {
            input: None,
            version: None,
        };
        engine.finish(end).expect("it has a live turn");
        let Some(ExecutionStarted { trace: next, .. }) = engine.next_execution() else {
            panic!("it continued as new");
        };
        assert_eq!(*next, trace);
    }
}

/// A process that replays may trace, or not, or be in another trace: the history is the same.
#[test]
fn replay_does_not_compare_the_trace_context() {
    let mut live = engine(vec![first(Some(TRACE.into()))], true);
    live.begin_turn(0);
    for command in [charge(Some(TRACE.into())), child(Some(TRACE.into()))] {
        live.issue(command).expect("it is live");
    }
    let mut history = vec![first(Some(TRACE.into()))];
    assert!(live.next(Awaited::default(), 0).is_ok());
    history.extend(live.end_turn().events);
    for trace in [None, Some("{}".to_owned())] {
        let mut replay = engine(history.clone(), false);
        assert_eq!(replay.trace(), Some(TRACE));
        replay.begin_turn(0);
        for command in [charge(trace.clone()), child(trace.clone())] {
            replay.issue(command).expect("it is the same command");
        }
        assert!(replay.next(Awaited::default(), 0).is_ok());
    }
}

/// Without tracing no byte of a trace is stored, and older histories without it can be read.
#[test]
fn absent_trace_context_stores_no_byte() {
    let meta = first(None).meta.expect("a start has one");
    assert_eq!(meta, r#"{"version":"1.0.0","seed":"7"}"#);
    assert_eq!(first(None).into_event(), Ok(started(None)));
    assert_eq!(
        incarnation_of(&meta).ok(),
        Some(None),
        "nor is what starts once had none of"
    );
    let plain = charge(None);
    let mut live = engine(vec![first(None)], true);
    live.begin_turn(0);
    live.issue(plain).expect("it is live");
    assert!(live.next(Awaited::default(), 0).is_ok());
    assert_eq!(live.end_turn().events.pop().and_then(|row| row.meta), None);
}
