//! `isReplaying`, at every point between two commands.
//!
//! Every script of every file is checked for it, in every way in which the script is run: all that was stored is
//! replayed up to the wait that it reached, and not a command further. The tests here show this in transcripts.

use expect_test::{Expect, expect};
use perdure_engine::{
    Awaited, Budget, Command, CommandEvent, DeliveryEvent, Engine, Event, EventId, EventRecord, ExecutionId,
    ExecutionStarted, Mailbox, Start, StateValues, Step,
};

use crate::support::script::Script;
use crate::support::world::Way;
use crate::support::{run_everywhere, run_fresh};

const LATER: Way = Way {
    page: usize::MAX,
    replayed: u32::MAX,
    early: false,
    crashed: false,
};
const EARLY: Way = Way { early: true, ..LATER };

/// Brings a script back from what is stored after one of its turns; `|` marks the lines that the engine calls a replay.
#[track_caller]
fn check_from(turn: usize, way: Way, budget: Budget, text: &str, expect: Expect) {
    let script = Script::parse(text);
    run_everywhere(&script, budget);
    let mut world = run_fresh(&script, budget).worlds[turn - 1].clone();
    let mut run = world.load(way);
    let mut shown = String::new();
    loop {
        shown += if run.engine.is_replaying() {
            "| turn\n"
        } else {
            "  turn\n"
        };
        for line in world.turn(&mut run, way.page).expect("the same code fits").lines {
            shown += if line.replaying { "|   " } else { "    " };
            shown += &line.text;
            shown += "\n";
        }
        if !world.wait(&mut run) {
            break;
        }
    }
    expect.assert_eq(&shown);
}

const ORDER: &str = r#"
    status "begun"
    a = activity charge
    random
    await a
    status "charged"
    b = activity ship it
    random
    await b
    random
    return it
    ---
    100 complete a "paid"
    200 complete b "sent"
"#;

/// The first turn of a new instance is live from its first command on, and a replay as soon as it is stored.
#[test]
fn the_first_turn() {
    let script = Script::parse(ORDER);
    let fresh = run_fresh(&script, Budget::default());
    assert!(!fresh.turns[0].lines.is_empty());
    assert!(fresh.turns[0].lines.iter().all(|line| !line.replaying));
    check_from(
        1,
        LATER,
        Budget::default(),
        ORDER,
        expect![[r#"
        | turn
        |   status "begun"
        |   #2 activity charge none
        |   random 0.764109042047738
        |   wait for a
          turn
            #2 gives "paid" @+100
            status "charged"
            #4 activity ship "paid"
            random 0.4659376151199609
            wait for b
          turn
            #4 gives "sent" @+200
            random 0.005674514325306634
            return "sent"
    "#]],
    );
}

/// Commands after the last recorded delivery were recorded with it.
#[test]
fn the_turn_after_the_last_recorded_event() {
    check_from(
        2,
        LATER,
        Budget::default(),
        ORDER,
        expect![[r#"
        | turn
        |   status "begun"
        |   #2 activity charge none
        |   random 0.764109042047738
        |   wait for a
        |   #2 gives "paid" @+100
        |   status "charged"
        |   #4 activity ship "paid"
        |   random 0.4659376151199609
        |   wait for b
          turn
            #4 gives "sent" @+200
            random 0.005674514325306634
            return "sent"
    "#]],
    );
}

/// The replay and the first live delivery are one turn: it becomes live in the middle.
#[test]
fn in_the_middle_of_a_turn() {
    check_from(
        1,
        EARLY,
        Budget::default(),
        ORDER,
        expect![[r#"
        | turn
        |   status "begun"
        |   #2 activity charge none
        |   random 0.764109042047738
        |   wait for a
            #2 gives "paid" @+100
            status "charged"
            #4 activity ship "paid"
            random 0.4659376151199609
            wait for b
          turn
            #4 gives "sent" @+200
            random 0.005674514325306634
            return "sent"
    "#]],
    );
    check_from(
        2,
        EARLY,
        Budget::default(),
        ORDER,
        expect![[r#"
        | turn
        |   status "begun"
        |   #2 activity charge none
        |   random 0.764109042047738
        |   wait for a
        |   #2 gives "paid" @+100
        |   status "charged"
        |   #4 activity ship "paid"
        |   random 0.4659376151199609
        |   wait for b
            #4 gives "sent" @+200
            random 0.005674514325306634
            return "sent"
    "#]],
    );
}

#[test]
fn all_of_it() {
    check_from(
        3,
        LATER,
        Budget::default(),
        ORDER,
        expect![[r#"
        | turn
        |   status "begun"
        |   #2 activity charge none
        |   random 0.764109042047738
        |   wait for a
        |   #2 gives "paid" @+100
        |   status "charged"
        |   #4 activity ship "paid"
        |   random 0.4659376151199609
        |   wait for b
        |   #4 gives "sent" @+200
        |   random 0.005674514325306634
        |   return "sent"
    "#]],
    );
}

/// Only the start is recorded, and a turn was stored: the commands of the code before its first wait are a replay.
#[test]
fn a_turn_that_recorded_no_events() {
    let text = r#"
        status "waiting"
        random
        await event go
        random
        await event end
        ---
        100 event go
        200 event end
    "#;
    check_from(
        1,
        LATER,
        Budget::default(),
        text,
        expect![[r#"
        | turn
        |   status "waiting"
        |   random 0.764109042047738
        |   wait for event go
          turn
            event go gives none @+100
            random 0.4659376151199609
            wait for event end
          turn
            event end gives none @+200
            return none
    "#]],
    );
    check_from(
        1,
        EARLY,
        Budget::default(),
        text,
        expect![[r#"
        | turn
        |   status "waiting"
        |   random 0.764109042047738
        |   wait for event go
            event go gives none @+100
            random 0.4659376151199609
            wait for event end
          turn
            event end gives none @+200
            return none
    "#]],
    );
}

/// The last event is a failed attempt. It is no turn of the code, so the replay ends at the wait before it.
#[test]
fn a_turn_of_bookkeeping_alone() {
    let text = r"
        a = activity charge ; attempts=3
        random
        await a
        random
        ---
        100 fail a Error
        500 complete a
    ";
    check_from(
        2,
        EARLY,
        Budget::default(),
        text,
        expect![[r#"
        | turn
        |   #2 activity charge none
        |   random 0.764109042047738
        |   wait for a
            #2 gives none @+500
            random 0.4659376151199609
            return none
    "#]],
    );
}

/// A turn that its budget cut: the replay ends at the cut, and the waiting completions go on live in the same turn.
#[test]
fn a_turn_that_was_cut() {
    let text = r"
        repeat 4
          await queue jobs
          random
        end
        ---
        100 queue jobs 1
        100 queue jobs 2
        100 queue jobs 3
        100 queue jobs 4
    ";
    let budget = Budget {
        deliveries: 1,
        ..Budget::default()
    };
    check_from(
        3,
        LATER,
        budget,
        text,
        expect![[r#"
        | turn
        |   wait for queue jobs
        |   queue jobs gives 1 @+100
        |   random 0.764109042047738
        |   wait for queue jobs
        |   queue jobs gives 2 @+100
        |   random 0.4659376151199609
        |   wait for queue jobs
            queue jobs gives 3 @+100
            random 0.005674514325306634
            wait for queue jobs
          turn
            queue jobs gives 4 @+100
            random 0.3013736978309758
            return none
    "#]],
    );
}

/// A cancellation that comes during a replay waits until the replay is over.
#[test]
fn a_cancel_while_replaying() {
    let text = r#"
        a = activity charge
        await a
        status "charged"
        b = activity ship
        await b
        on cancel
        random
        c = activity refund
        await c
        ---
        100 complete a
        200 cancel "stop"
        300 complete c
    "#;
    check_from(
        2,
        Way {
            page: 1,
            replayed: 1,
            ..EARLY
        },
        Budget::default(),
        text,
        expect![[r#"
        | turn
        |   #2 activity charge none
        |   wait for a
        |   #2 gives none @+100
        |   status "charged"
        |   #4 activity ship none
        |   wait for b
            cancelled: "stop" @+200
            random 0.764109042047738
            #6 activity refund none
            wait for c
          turn
            #6 gives none @+300
            return none
    "#]],
    );
}

/// A replay alone stops where history does: a due timer and durable sent operations wait for a live engine.
/// Returns an engine whose code waits for a timer and a sent message where its history ends.
fn at_the_end_of_history() -> (Engine, EventId, Awaited) {
    let sent = || {
        Event::Command(CommandEvent::MessageSent {
            instance: "other".into(),
            mailbox: Mailbox::Event("go".into()),
            payload: None,
        })
    };
    let started = Event::Started(ExecutionStarted {
        name: "alone".into(),
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
    });
    let events = [
        started,
        Event::Command(CommandEvent::TimerCreated { fire_at_ms: 0 }),
        sent(),
    ];
    let history = (1..)
        .zip(events)
        .map(|(id, event)| EventRecord::new(EventId(id), 0, event));
    let mut engine = Engine::new(Start {
        execution: ExecutionId::FIRST,
        history: history.collect(),
        complete: true,
        fresh: false,
        budget: Budget::default(),
    })
    .expect("it is a history");
    let timer = engine.issue(Command::CreateTimer { delay_ms: 0 }).expect("it fits");
    let message = engine
        .issue(Command::SendMessage {
            instance: "other".into(),
            mailbox: Mailbox::Event("go".into()),
            payload: None,
        })
        .expect("it fits");
    let awaited = Awaited {
        mailboxes: Vec::new(),
        timers: vec![timer, message],
    };
    (engine, timer, awaited)
}

#[test]
fn replay_alone_stops_where_history_does() {
    let (mut engine, _, awaited) = at_the_end_of_history();
    for _ in 0..2 {
        assert_eq!(engine.next_recorded(awaited.clone()).expect("it fits"), None);
    }
    assert!(matches!(
        engine.next(awaited, 0).expect("it fits"),
        Step::Deliver { .. }
    ));
}

#[test]
fn replay_goes_on_with_what_was_written_since() {
    let (mut engine, timer, awaited) = at_the_end_of_history();
    assert_eq!(engine.next_recorded(awaited.clone()).expect("it fits"), None);
    assert!(engine.is_replaying());
    let fired = Event::Delivery(DeliveryEvent::TimerFired { timer });
    let page = vec![EventRecord::new(EventId(4), 5, fired)];
    engine.extend_history(page, true).expect("it follows");
    let step = engine.next_recorded(awaited.clone()).expect("it fits");
    assert!(matches!(step, Some(Step::Deliver { time_ms: 5, .. })), "{step:?}");
    assert_eq!(engine.next_recorded(awaited).expect("it fits"), None);
}

/// Every script of every file is checked for it: the operation whose success is announced as next is the next delivery.
/// The test here shows when it is announced.
#[test]
fn success_that_is_next_is_announced() {
    let text = r"
        a = activity alone
        await a
        b = activity one
        c = activity other
        await b
        await c
        d = activity bad
        await d
        e = activity slow ; attempts=2
        await e
        t = timer 1s
        await t
        f = activity open
        await f
        ---
        100 complete a
        200 complete b
        300 complete c
        400 fail d Error fatal
        500 fail e Error
        2000 complete e
        9000 look
    ";
    let script = Script::parse(text);
    run_everywhere(&script, Budget::default());
    let last = run_fresh(&script, Budget::default()).worlds.pop();
    let history = last.expect("there is a turn").history;
    assert_eq!(announced(&history, history.len()), ["alone", "slow", "timer"]);
    // The second event schedules the first activity.
    assert!(announced(&history, 2).is_empty(), "the result is not in the page");
}

/// Replays a history whose first `page` events are here. Returns the operations whose success is announced as next.
fn announced(history: &[EventRecord], page: usize) -> Vec<String> {
    let mut engine = Engine::new(Start {
        execution: ExecutionId::FIRST,
        complete: page == history.len(),
        history: history[..page].to_vec(),
        fresh: false,
        budget: Budget::default(),
    })
    .expect("a sound history");
    let mut timers = Vec::new();
    let mut announced = Vec::new();
    for record in &history[..page] {
        let (command, name) = match record.clone().into_event().expect("a sound record") {
            Event::Command(CommandEvent::ActivityScheduled { name, input, options }) => {
                let operation = name.clone();
                (Command::ScheduleActivity { name, input, options }, operation)
            }
            Event::Command(CommandEvent::TimerCreated { fire_at_ms }) => {
                (Command::CreateTimerAt { fire_at_ms }, "timer".to_owned())
            }
            Event::Delivery(_) => {
                let awaited = Awaited {
                    mailboxes: Vec::new(),
                    timers: timers.clone(),
                };
                engine.next(awaited, 0).expect("it fits");
                continue;
            }
            _ => continue,
        };
        let id = engine.issue(command).expect("it fits");
        timers.extend((name == "timer").then_some(id));
        announced.extend(engine.succeeds_next(id).then_some(name));
    }
    announced
}
