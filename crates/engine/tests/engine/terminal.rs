//! The end of an execution, from inside and from outside.

use expect_test::expect;
use perdure_engine::{
    Awaited, Budget, Command, Completion, Engine, EventId, EventRecord, ExecutionId, ExecutionStarted, Mailbox,
    Message, MessageBody, MessageSeq, Outcome, Start, StateValues, Step, Terminal, TerminationEvent, Waiting,
};

use crate::support::script::Script;
use crate::support::world::{WHOLE, Way};
use crate::support::{START_MS, check, run_fresh};

#[test]
fn code_returns_at_once() {
    check(
        r#"return "nothing to do""#,
        expect![[r#"
        turn @+0
          return "nothing to do"
            2 ExecutionCompleted "nothing to do" @+0
            ends Completed
    "#]],
    );
}

#[test]
fn code_throws_at_once() {
    check(
        r#"throw "Error""#,
        expect![[r#"
        turn @+0
          throw "Error"
            2 ExecutionFailed "Error" @+0
            ends Failed
    "#]],
    );
}

#[test]
fn code_schedules_and_returns_without_a_wait() {
    check(
        r#"
        a = activity audit
        t = timer 1s
        status "done"
        return
        "#,
        expect![[r#"
            turn @+0
              #2 activity audit none
              #3 timer of 1000 ms
              status "done"
              return none
                2 ActivityScheduled audit @+0
                3 TimerCreated for @+1000 @+0
                4 ExecutionCompleted @+0
                sets status "done"
                ends Completed
        "#]],
    );
}

#[test]
fn code_throws_in_the_middle() {
    check(
        r#"
        a = activity charge
        b = activity ship
        await a
        throw it
        ---
        100 complete a "oops"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              #3 activity ship none
              wait for a
                2 ActivityScheduled charge @+0
                3 ActivityScheduled ship @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
              #2 gives "oops" @+100
              throw "oops"
                4 ActivityCompleted #2 "oops" @+100
                5 ExecutionFailed "oops" @+100
                aborts #3
                ends Failed
        "#]],
    );
}

/// The code may still run `finally` blocks. Their commands have no effect, and neither have events from outside.
#[test]
fn nothing_happens_after_the_end() {
    let script = Script::parse("await event go\nreturn it\n---\n100 event go 1\n");
    let worlds = run_fresh(&script, Budget::default()).worlds;
    let replay = worlds.last().expect("there are turns").clone().load(WHOLE).engine;
    let live = worlds[0].clone().begin().engine;
    for (mut engine, terminal_is_new) in [(live, true), (replay, false)] {
        if !terminal_is_new {
            let awaited = Awaited {
                mailboxes: vec![Mailbox::Event("go".into())],
                timers: Vec::new(),
            };
            engine.next(awaited, START_MS).expect("it fits");
        }
        engine.finish(Outcome::Completed(Some("1".into()))).expect("it fits");
        let output = engine.end_turn();
        assert_eq!(output.waiting, Waiting::Ended(Terminal::Completed));
        assert_eq!(output.events.len(), usize::from(terminal_is_new));

        let id = engine.next_event_id();
        engine.finish(Outcome::Failed(None)).expect("it has ended already");
        assert_eq!(engine.issue(Command::CreateTimer { delay_ms: 0 }), Ok(id));
        assert_eq!(engine.issue(Command::CancelOperation { scheduled: EventId(2) }), Ok(id));
        engine.set_custom_status(Some("2".into()));
        let body = MessageBody::Cancel { reason: None };
        engine.offer(Completion::Message(Message {
            seq: MessageSeq(9),
            body,
        }));
        assert!(!engine.is_runnable(i64::MAX));
        let awaited = Awaited {
            mailboxes: Vec::new(),
            timers: vec![id],
        };
        assert_eq!(engine.next(awaited, i64::MAX), Ok(Step::Wait));
        let output = engine.end_turn();
        assert!(output.is_empty() && output.effects.is_empty(), "{output:?}");
        assert_eq!(output.waiting, Waiting::Ended(Terminal::Completed));
        assert_eq!(engine.next_event_id(), id);
    }
}

/// The execution was terminated from outside while it waited: its history replays up to that wait, and nothing follows.
#[test]
fn terminated_after_every_turn() {
    let script = Script::parse(
        r"
        a = activity charge
        t = timer 1s
        await a | t
        await event go
        ---
        100 complete a
        ",
    );
    for stored in run_fresh(&script, Budget::default()).worlds {
        for page in [1, 2, 3, usize::MAX] {
            let mut world = stored.clone();
            let id = EventId(world.history.len() as u64 + 1);
            world.history.push(EventRecord::new(
                id,
                START_MS + 500,
                TerminationEvent::ExecutionTerminated {
                    reason: Some("stop".into()),
                },
            ));
            let mut run = world.load(Way { page, ..WHOLE });
            let awaits = world.replay(&mut run, page).expect("the same code fits");
            assert!(
                run.engine.is_replaying() && !run.engine.is_runnable(i64::MAX),
                "its code never runs on"
            );
            assert_eq!(run.engine.next(awaits, i64::MAX), Ok(Step::Wait));
            let output = run.engine.end_turn();
            assert!(output.is_empty() && output.effects.is_empty(), "{output:?}");
            assert_eq!(
                output.waiting,
                Waiting::Outside {
                    open_activities: 0,
                    timer_at_ms: None
                }
            );
        }
    }
}

/// Terminated before its first turn: there is nothing from which the code could differ.
#[test]
fn terminated_before_it_ran() {
    let start = ExecutionStarted {
        name: "n".into(),
        version: "1".into(),
        input: None,
        seed: 0,
        incarnation: None,
        parent: None,
        custom_status: None,
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: None,
        trace: None,
    };
    let history = vec![
        EventRecord::new(EventId(1), START_MS, start),
        EventRecord::new(
            EventId(2),
            START_MS,
            TerminationEvent::ExecutionTerminated { reason: None },
        ),
    ];
    for fresh in [true, false] {
        let start = Start {
            execution: ExecutionId::FIRST,
            history: history.clone(),
            complete: true,
            fresh,
            budget: Budget::default(),
        };
        let mut engine = Engine::new(start.clone()).expect("a sound history");
        assert_eq!(engine.issue(Command::CreateTimer { delay_ms: 5 }), Ok(EventId(2)));
        assert_eq!(engine.next(Awaited::default(), START_MS), Ok(Step::Wait));
        assert!(engine.end_turn().is_empty());

        let mut engine = Engine::new(start.clone()).expect("a sound history");
        assert_eq!(engine.finish(Outcome::Completed(None)), Ok(()));
        assert!(engine.end_turn().is_empty());

        let mut engine = Engine::new(start).expect("a sound history");
        assert_eq!(engine.next(Awaited::default(), START_MS), Ok(Step::Wait));
        engine
            .issue(Command::CreateTimer { delay_ms: 5 })
            .expect("it was terminated, so nothing is compared");
        assert!(engine.end_turn().is_empty());
    }
}
