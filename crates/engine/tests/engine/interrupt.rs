//! A request to cancel that comes to code which does not wait: executions that follow each other, and commands without
//! end.

use perdure_engine::{
    Awaited, Budget, Command, CommandEvent, Completion, Delivery, Engine, Event, EventId, EventRecord, ExecutionId,
    ExecutionStarted, Fault, Interruption, Message, MessageBody, MessageSeq, NoteEvent, Outcome, Start, StateValues,
    Step, Terminal, TerminationEvent, Waiting,
};

const START_MS: i64 = 1_000;

fn started() -> EventRecord {
    let event = ExecutionStarted {
        name: "loop".into(),
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
    EventRecord::new(EventId::FIRST, START_MS, event)
}

fn engine(history: Vec<EventRecord>, fresh: bool, complete: bool) -> Engine {
    let start = Start {
        execution: ExecutionId(2),
        history,
        complete,
        fresh,
        budget: Budget::default(),
    };
    Engine::new(start).expect("it is a history")
}

fn cancel(reason: &str) -> Completion {
    Completion::Message(Message {
        seq: MessageSeq(7),
        body: MessageBody::Cancel {
            reason: Some(reason.into()),
        },
    })
}

fn timer(engine: &mut Engine) -> Result<EventId, Fault> {
    engine.issue(Command::CreateTimer { delay_ms: 5 })
}

fn delivery(reason: &str) -> Delivery {
    Delivery::Cancel {
        reason: Some(reason.into()),
        timeout_ms: None,
    }
}

/// The code asks before its first step and after its second command.
fn run(engine: &mut Engine, asks: [bool; 2]) -> Result<Vec<(Delivery, i64)>, Fault> {
    let mut heard = Vec::new();
    let mut ask = |engine: &mut Engine, asks| {
        if asks {
            heard.extend(engine.interrupt(START_MS + 10));
        }
    };
    ask(engine, asks[0]);
    timer(engine)?;
    timer(engine)?;
    ask(engine, asks[1]);
    timer(engine)?;
    engine.finish(Outcome::Cancelled(None))?;
    Ok(heard)
}

/// Returns the history of a run to which the request came before its first step, or after its second command.
fn recorded(first: bool) -> Vec<EventRecord> {
    let mut live = engine(vec![started()], true, true);
    if first {
        live.offer(cancel("stop"));
        assert_eq!(
            run(&mut live, [true, true]),
            Ok(vec![(delivery("stop"), START_MS + 10)])
        );
    } else {
        assert_eq!(live.interrupt(START_MS), None);
        timer(&mut live).expect("it is live");
        timer(&mut live).expect("it is live");
        live.offer(cancel("stop"));
        assert_eq!(live.interrupt(START_MS + 10), Some((delivery("stop"), START_MS + 10)));
        timer(&mut live).expect("it is live");
        live.finish(Outcome::Cancelled(None)).expect("it is live");
    }
    let output = live.end_turn();
    assert_eq!(output.consumed, [MessageSeq(7)]);
    assert_eq!(output.waiting, Waiting::Ended(Terminal::Cancelled));
    [started()].into_iter().chain(output.events).collect()
}

#[test]
fn interruption_is_delivered_and_recorded_where_the_code_asks() {
    for (first, place) in [(true, 1), (false, 3)] {
        let history = recorded(first);
        let event = Interruption {
            reason: Some("stop".into()),
        };
        let at = EventRecord::new(EventId(place + 1), START_MS + 10, event);
        assert_eq!(history[place as usize], at);
    }
}

#[test]
fn replay_finds_the_interruption_in_the_same_place_with_any_pages() {
    for first in [true, false] {
        for page in 1..=6 {
            let history = recorded(first);
            let mut pages = history.chunks(page);
            let begin = pages.next().expect("it has a first page").to_vec();
            let is_all = begin.len() == history.len();
            let mut replayed = engine(begin, false, is_all);
            while let Some(from) = replayed.needs_history() {
                let next = pages.next().expect("there is more").to_vec();
                assert_eq!(next[0].event_id, from);
                let is_last = next.last().map(|last| last.event_id) == history.last().map(|last| last.event_id);
                replayed.extend_history(next, is_last).expect("it follows");
            }
            let heard = run(&mut replayed, [true, true]);
            assert_eq!(heard, Ok(vec![(delivery("stop"), START_MS + 10)]), "pages of {page}");
            assert!(replayed.end_turn().is_empty());
        }
    }
}

/// Code that does not ask where it asked before is other code.
#[test]
fn code_that_does_not_ask_misses_the_interruption() {
    for (first, asks) in [(true, [false, true]), (false, [true, false])] {
        let mut replayed = engine(recorded(first), false, true);
        let fault = run(&mut replayed, asks).expect_err("its history holds a request there");
        assert!(fault.to_string().contains("a cancellation is delivered"), "{fault}");
        assert_eq!(replayed.fault(), Some(&fault));
    }
    let mut waits = engine(recorded(true), false, true);
    waits
        .next(Awaited::default(), START_MS)
        .expect_err("it was not waited for");
}

/// A request that was delivered at a wait is not delivered before that wait, as in the histories of former versions.
#[test]
fn waiting_code_gets_no_interruption() {
    let mut live = engine(vec![started()], true, true);
    let awaited = |timer| Awaited {
        timers: vec![timer],
        mailboxes: Vec::new(),
    };
    let first = timer(&mut live).expect("it is live");
    live.offer(cancel("stop"));
    live.next(awaited(first), START_MS + 1).expect("it is live");
    let events = live.end_turn().events;
    let history: Vec<EventRecord> = [started()].into_iter().chain(events).collect();
    assert!(history[2].meta.is_none(), "it is stored as ever");
    let mut replayed = engine(history, false, true);
    assert_eq!(replayed.interrupt(START_MS), None);
    timer(&mut replayed).expect("it did that");
    assert_eq!(replayed.interrupt(START_MS), None);
    let step = replayed.next(awaited(first), START_MS + 9).expect("it waited there");
    assert!(format!("{step:?}").contains("Cancel"), "{step:?}");
}

#[test]
fn no_request_gives_no_interruption() {
    let mut live = engine(vec![started()], true, true);
    assert_eq!(run(&mut live, [true, true]), Ok(vec![]));
    live.offer(cancel("late"));
    assert_eq!(live.interrupt(START_MS), None, "it has ended");
}

/// The instance was suspended, and cancelled without its code. A replay reaches the wait where the code was, or its
/// start, and nothing runs on.
#[test]
fn suspended_code_gets_no_interruption() {
    let outside = |first: u64| {
        let requested = Event::Note(NoteEvent::CancelRequested { reason: None });
        let cancelled = Event::Termination(TerminationEvent::ExecutionCancelled { error: None });
        [(first, requested), (first + 1, cancelled)].map(|(id, event)| EventRecord::new(EventId(id), START_MS, event))
    };
    let created = EventRecord::new(
        EventId(2),
        START_MS,
        CommandEvent::TimerCreated {
            fire_at_ms: START_MS + 5,
        },
    );
    let waited: Vec<EventRecord> = [started(), created].into_iter().chain(outside(3)).collect();
    let never_ran: Vec<EventRecord> = [started()].into_iter().chain(outside(2)).collect();
    for history in [waited, never_ran] {
        let mut replayed = engine(history, false, true);
        assert_eq!(replayed.interrupt(START_MS), None);
        assert!(timer(&mut replayed).is_ok());
        let step = replayed.next(Awaited::default(), i64::MAX);
        assert_eq!(step, Ok(Step::Wait));
        assert!(!replayed.is_runnable(i64::MAX) && replayed.is_replaying());
        assert!(replayed.end_turn().is_empty());
    }
}
