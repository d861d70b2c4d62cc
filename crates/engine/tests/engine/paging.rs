//! History that comes in pages.
//!
//! Every script of every file is replayed in pages of 1, 2, 3 and all events. The tests here show the pages that the
//! engine asks for, and those that it refuses.

use std::fmt::Write;

use expect_test::expect;
use perdure_engine::{
    Awaited, Budget, Command, Completion, Engine, EventId, EventKind, EventRecord, ExecutionId, RecordError, Start,
    Step, Waiting,
};

use crate::support::script::Script;
use crate::support::{run_everywhere, run_fresh};

fn history_of(text: &str) -> Vec<EventRecord> {
    let script = Script::parse(text);
    run_fresh(&script, Budget::default())
        .worlds
        .pop()
        .expect("there is a turn")
        .history
}

fn start(history: &[EventRecord], complete: bool) -> Start {
    Start {
        execution: ExecutionId::FIRST,
        history: history.to_vec(),
        complete,
        fresh: false,
        budget: Budget::default(),
    }
}

fn schedule(n: usize) -> Command {
    Command::ScheduleActivity {
        name: format!("step{n}"),
        input: None,
        options: perdure_engine::ActivityOptions::default(),
    }
}

fn wide(n: usize) -> String {
    let mut text = String::new();
    for n in 0..n {
        writeln!(text, "a{n} = activity step{n}").expect("a string takes all");
    }
    text + "await a0\nb = activity last\nawait b\n---\n100 complete a0\n"
}

/// Story: the first page ended among the commands of the first turn, and the next command was reported as one that
/// history did not hold. After a crash every instance that had fanned out beyond a page was suspended. Now the engine
/// asks for pages until it has the first wait.
#[test]
fn a_fan_out_wider_than_a_page() {
    let text = wide(10);
    let script = Script::parse(&text);
    run_everywhere(&script, Budget::default());

    let history = history_of(&text);
    let mut engine = Engine::new(start(&history[..3], false)).expect("a sound page");
    let mut asked = Vec::new();
    while let Some(from) = engine.needs_history() {
        asked.push(from.0);
        let begin = from.0 as usize - 1;
        let page: Vec<EventRecord> = history[begin..].iter().take(3).cloned().collect();
        let complete = page.len() < 3;
        engine.extend_history(page, complete).expect("a sound page");
    }
    // The completion is event 12; the page that begins with 10 holds it.
    assert_eq!(asked, [4, 7, 10]);
    for n in 0..10 {
        assert_eq!(engine.issue(schedule(n)), Ok(EventId(n as u64 + 2)));
    }
    // The events after the completion are not here yet.
    assert_eq!(engine.next(Awaited::default(), 0), Ok(Step::NeedHistory));
    assert_eq!(engine.end_turn().waiting, Waiting::History { from: EventId(13) });
    assert_eq!(engine.needs_history(), Some(EventId(13)));
}

/// The last page is full: only the empty page after it shows that it was the last.
#[test]
fn an_empty_page_at_the_end() {
    let history = history_of("a = activity step0\nawait a\n---\n");
    let mut engine = Engine::new(start(&history, false)).expect("a sound page");
    assert_eq!(engine.needs_history(), Some(EventId(3)));
    engine.extend_history(Vec::new(), true).expect("an empty page is sound");
    assert_eq!(engine.needs_history(), None);
    engine.issue(schedule(0)).expect("it fits");
    assert!(engine.is_replaying());
    assert_eq!(engine.next(Awaited::default(), 0), Ok(Step::Wait));
    assert!(!engine.is_replaying());
}

/// A caller that does not ask learns of a missing page at the first wait.
#[test]
fn the_first_wait_is_not_here_yet() {
    let history = history_of("await event x");
    let mut engine = Engine::new(start(&history, false)).expect("a sound page");
    assert_eq!(engine.next(Awaited::default(), 0), Ok(Step::NeedHistory));
    assert_eq!(engine.end_turn().waiting, Waiting::History { from: EventId(2) });
    engine.extend_history(Vec::new(), true).expect("an empty page is sound");
    assert_eq!(engine.next(Awaited::default(), 0), Ok(Step::Wait));
}

#[test]
fn a_live_engine_asks_for_no_page_and_takes_none() {
    let history = history_of("await event x");
    let mut engine = Engine::new(Start {
        execution: ExecutionId::FIRST,
        fresh: true,
        ..start(&history, true)
    })
    .expect("a sound page");
    assert_eq!(engine.needs_history(), None);
    assert_eq!(engine.extend_history(history, true), Ok(()));
    assert_eq!(engine.next_event_id(), EventId(2));
}

/// Completions that came before the history was here are delivered after it.
#[test]
fn completions_between_the_pages() {
    let history = history_of(&wide(3));
    let mut engine = Engine::new(start(&history[..1], false)).expect("a sound page");
    engine.offer(Completion::ActivityCompleted {
        scheduled: EventId(3),
        output: None,
    });
    engine
        .extend_history(history[1..5].to_vec(), false)
        .expect("a sound page");
    engine.offer(Completion::ActivityCompleted {
        scheduled: EventId(6),
        output: None,
    });
    for n in 0..3 {
        engine.issue(schedule(n)).expect("it fits");
    }
    assert_eq!(engine.next(Awaited::default(), 0), Ok(Step::NeedHistory));
    assert!(engine.end_turn().is_empty());
    engine
        .extend_history(history[5..].to_vec(), true)
        .expect("a sound page");
    assert!(matches!(engine.next(Awaited::default(), 0), Ok(Step::Deliver { .. })));
    let last = Command::ScheduleActivity {
        name: "last".into(),
        input: None,
        options: perdure_engine::ActivityOptions::default(),
    };
    engine.issue(last).expect("it fits");
    for _ in 0..2 {
        assert!(matches!(engine.next(Awaited::default(), 0), Ok(Step::Deliver { .. })));
    }
    assert_eq!(engine.next(Awaited::default(), 0), Ok(Step::Wait));
    let scheduled: Vec<Option<EventId>> = engine.end_turn().events.iter().map(|event| event.ref_id).collect();
    assert_eq!(scheduled, [Some(EventId(3)), Some(EventId(6))]);
}

#[test]
fn pages_that_do_not_follow() {
    let history = history_of(&wide(3));
    let problem = |pages: &[&[EventRecord]]| -> String {
        let mut engine = match Engine::new(start(pages[0], false)) {
            Ok(engine) => engine,
            Err(error) => return error.to_string(),
        };
        let mut problems: Vec<RecordError> = Vec::new();
        for page in &pages[1..] {
            problems.extend(engine.extend_history(page.to_vec(), false).err());
        }
        problems
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(";\n  ")
    };
    let mut twice = history.clone();
    twice[1] = EventRecord {
        event_id: EventId(2),
        ..history[0].clone()
    };
    let mut ended = history.clone();
    ended[2] = EventRecord {
        kind: EventKind::ExecutionFailed,
        ..history[2].clone()
    };
    let problems = [
        problem(&[&[]]),
        problem(&[&history[1..]]),
        problem(&[&history[..2], &history[..2]]),
        problem(&[&history[..2], &history[3..]]),
        // A refused page leaves a gap that the next page does not close.
        problem(&[&history[..2], &history[3..4], &history[4..], &history[2..]]),
        problem(&[&twice]),
        problem(&[&ended]),
    ];
    expect![[r#"
        event 1 (ExecutionStarted) cannot be read: the history does not begin with ExecutionStarted
        event 2 (ActivityScheduled) cannot be read: event 1 was expected in its place
        event 1 (ExecutionStarted) cannot be read: event 3 was expected in its place
        event 4 (ActivityScheduled) cannot be read: event 3 was expected in its place
        event 4 (ActivityScheduled) cannot be read: event 3 was expected in its place;
          event 5 (ActivityCompleted) cannot be read: event 3 was expected in its place
        event 2 (ExecutionStarted) cannot be read: only the first event can be a start
        event 4 (ActivityScheduled) cannot be read: the execution ended before it"#]]
    .assert_eq(&problems.join("\n"));
}
