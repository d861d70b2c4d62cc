//! An execution that continues as new: the next execution of its instance begins where it ends.

use expect_test::expect;
use perdure_engine::{
    Awaited, Budget, Completion, Engine, EventId, EventRecord, ExecutionId, Incarnation, Mailbox, Message, MessageBody,
    MessageSeq, Outcome, Start, Step, Terminal, Waiting,
};

use crate::support::changed::check_changed;
use crate::support::script::Script;
use crate::support::world::WHOLE;
use crate::support::{START_MS, check, run_everywhere};

#[test]
fn execution_continues_at_once() {
    check(
        "continue 2",
        expect![[r#"
        turn @+0
          continue as new with 2
            2 ExecutionContinuedAsNew 2 @+0
            ends ContinuedAsNew
    "#]],
    );
}

/// Its open operations are given up, as at any end. Messages that it has not read stay for the next execution.
#[test]
fn execution_continues_with_open_operations() {
    check(
        r#"
        a = activity audit
        t = timer 1h
        status "second"
        await event go
        continue it ; 2.0.0
        ---
        100 queue jobs 7
        200 event go 3
        "#,
        expect![[r#"
            turn @+0
              #2 activity audit none
              #3 timer of 3600000 ms
              status "second"
              wait for event go
                2 ActivityScheduled audit @+0
                3 TimerCreated for @+3600000 @+0
                sets status "second"
                starts #2 attempt 1
                waits (1 open)
            turn @+200
              event go gives 3 @+200
              continue as new with 3
                4 EventReceived go 3 @+200
                5 ExecutionContinuedAsNew 3 @+200
                consumes 2
                aborts #2
                ends ContinuedAsNew
            unread messages: 1
        "#]],
    );
}

/// The first event of the next execution, the same from a live run and from a replay.
#[test]
fn the_next_execution_starts_from_the_end_of_the_last_one() {
    let script = Script::parse("status \"waiting\"\nawait event go\ncontinue it ; 2.0.0\n---\n100 event go 3\n");
    let fresh = run_everywhere(&script, Budget::default());
    let [mut live, mut replayed] = [&fresh.worlds[0], &fresh.worlds[1]].map(Clone::clone);
    let mut run = live.load(WHOLE);
    assert!(live.wait(&mut run), "the event comes");
    let next = [(live, run), (replayed.clone(), replayed.load(WHOLE))].map(|(mut world, mut run)| {
        let turn = world.turn(&mut run, usize::MAX).expect("it fits");
        assert_eq!(turn.output.waiting, Waiting::Ended(Terminal::ContinuedAsNew));
        run.engine.next_execution().cloned().expect("it continued as new")
    });
    assert_eq!(next[0], next[1]);
    expect![[r#"
        ExecutionStarted {
            name: "order",
            version: "2.0.0",
            input: Some(
                "3",
            ),
            seed: 7191089600892374487,
            incarnation: Some(
                Incarnation(
                    165,
                ),
            ),
            parent: None,
            custom_status: Some(
                "\"waiting\"",
            ),
            state: {},
            closed_streams: {},
            time_limit: None,
            trace: None,
        }
    "#]]
    .assert_debug_eq(&next[0]);

    let again = Start {
        execution: ExecutionId(2),
        history: vec![EventRecord::new(EventId::FIRST, START_MS, next[0].clone())],
        complete: true,
        fresh: true,
        budget: Budget::default(),
    };
    let mut engine = Engine::new(again).expect("a sound history");
    assert_eq!(engine.custom_status().as_deref(), Some("\"waiting\""));
    assert_eq!((engine.version(), engine.input().as_deref()), ("2.0.0", Some("3")));
    assert_eq!(engine.incarnation(), Some(Incarnation(165)), "it is kept");
    assert_eq!(engine.history_length(), 1);
    engine.set_custom_status(Some("\"waiting\"".into()));
    assert_eq!(
        engine.end_turn().custom_status,
        None,
        "it is the status that was carried over"
    );
}

/// Nothing reaches an execution that has continued: later events are for the next execution.
#[test]
fn continued_execution_receives_nothing() {
    let script = Script::parse("await event go\ncontinue it\n---\n100 event go 1\n");
    let fresh = run_everywhere(&script, Budget::default());
    let mut world = fresh.worlds[1].clone();
    let mut engine = world.load(WHOLE).engine;
    let awaited = Awaited {
        mailboxes: vec![Mailbox::Event("go".into())],
        timers: Vec::new(),
    };
    assert!(matches!(
        engine.next(awaited.clone(), START_MS),
        Ok(Step::Deliver { .. })
    ));
    let end = Outcome::ContinuedAsNew {
        input: Some("1".into()),
        version: None,
    };
    engine.finish(end.clone()).expect("it fits");
    engine.finish(end).expect("it has ended already");
    engine.offer(Completion::Message(Message {
        seq: MessageSeq(9),
        body: MessageBody::Cancel { reason: None },
    }));
    assert!(!engine.is_runnable(i64::MAX));
    assert_eq!(engine.next(awaited, i64::MAX), Ok(Step::Wait));
    assert!(engine.end_turn().is_empty());
}

const LOOP: &str = r#"
    a = activity poll
    await a
    continue {"round":2}
    ---
    100 complete a "no"
"#;

#[test]
fn changed_input() {
    check_changed(
        LOOP,
        r#"
        a = activity poll
        await a
        continue {"round":3}
        "#,
        expect![[r#"
            after turn 1: fits
            after turn 2: the code no longer fits its history, at event 4:
              recorded:  the orchestration continues as new
              attempted: the orchestration continues as new
              input recorded:  {"round":2}
              input attempted: {"round":3}
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn changed_version() {
    check_changed(
        LOOP,
        r#"
        a = activity poll
        await a
        continue {"round":2} ; 2.0.0
        "#,
        expect![[r#"
            after turn 1: fits
            after turn 2: the code no longer fits its history, at event 4:
              recorded:  the orchestration continues as new
              attempted: the orchestration continues as new
              version recorded:  1.0.0
              version attempted: 2.0.0
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn returns_instead() {
    check_changed(
        LOOP,
        r#"
        a = activity poll
        await a
        return "done"
        "#,
        expect![[r#"
            after turn 1: fits
            after turn 2: the code no longer fits its history, at event 4:
              recorded:  the orchestration continues as new
              attempted: the orchestration returns
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn schedules_another_activity_instead() {
    check_changed(
        LOOP,
        r#"
        a = activity poll
        await a
        b = activity more
        await b
        continue {"round":2}
        "#,
        expect![[r#"
            after turn 1: fits
            after turn 2: the code no longer fits its history, at event 4:
              recorded:  the orchestration continues as new
              attempted: activity 'more' is scheduled
              The code does more here than it did when it first ran.
              Run the old code again, or register the change under a new version.
        "#]],
    );
}
