//! Code that was changed while instances were running. The change is made in seven ways and is found in the middle of
//! history and at its very end. The report must be clear to the person who made the change.

use expect_test::{Expect, expect};
use perdure_engine::{
    ActivityOptions, Awaited, Budget, Command, CommandEvent, DeliveryEvent, Engine, Event, EventId, EventRecord,
    ExecutionId, ExecutionStarted, Fault, Start, Step,
};

use crate::support::changed::check_changed;

/// The end of its history after each of its five turns is another place where a change can show.
const ORDER: &str = r#"
    a = activity charge {"total":12}
    t = timer 1h
    await a
    b = activity ship it
    c = activity notify "ada"
    await event approve | t
    u = timer 1m
    await u
    return "done"
    ---
    100 complete a "receipt"
    200 event approve
    300 complete c
"#;

#[track_caller]
fn check(changed: &str, expect: Expect) {
    check_changed(ORDER, changed, expect);
}

#[test]
fn nothing() {
    check(
        ORDER.split("---").next().expect("a program"),
        expect![[r#"
        after turns 1 to 5: fits
    "#]],
    );
}

/// The function of an inline activity belongs to the orchestration, that of another activity to the runtime.
#[test]
fn an_activity_that_has_become_inline() {
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it ; inline
        c = activity notify "ada"
        await event approve | t
        u = timer 1m
        await u
        return "done"
        "#,
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: inline activity 'ship' is scheduled
              inline recorded:  false
              inline attempted: true
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn the_name() {
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity send it
        c = activity notify "ada"
        await event approve | t
        u = timer 1m
        await u
        return "done"
        "#,
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: activity 'send' is scheduled
              name recorded:  ship
              name attempted: send
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn the_input() {
    check(
        r#"
        a = activity charge {"total":13}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event approve | t
        u = timer 1m
        await u
        return "done"
        "#,
        expect![[r#"
            after turns 1 to 5: the code no longer fits its history, at event 2:
              recorded:  activity 'charge' is scheduled
              attempted: activity 'charge' is scheduled
              input recorded:  {"total":12}
              input attempted: {"total":13}
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // The input is no longer undefined.
    check_changed(
        "a = activity charge\nawait a",
        "a = activity charge null\nawait a",
        expect![[r#"
        after turn 1: the code no longer fits its history, at event 2:
          recorded:  activity 'charge' is scheduled
          attempted: activity 'charge' is scheduled
          input recorded:  undefined
          input attempted: null
          Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
    "#]],
    );
}

#[test]
fn the_order() {
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        c = activity notify "ada"
        b = activity ship "receipt"
        await event approve | t
        u = timer 1m
        await u
        return "done"
        "#,
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: activity 'notify' is scheduled
              name recorded:  ship
              name attempted: notify
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // Two operations of different kinds in the other order.
    check(
        r#"
        t = timer 1h
        a = activity charge {"total":12}
        await a
        "#,
        expect![[r#"
            after turns 1 to 5: the code no longer fits its history, at event 2:
              recorded:  activity 'charge' is scheduled
              attempted: a timer for 2023-11-14T23:13:20.000Z is created
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn one_more() {
    // In the middle of a turn,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        x = activity audit it
        b = activity ship "receipt"
        c = activity notify "ada"
        await event approve | t
        "#,
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: activity 'audit' is scheduled
              name recorded:  ship
              name attempted: audit
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // at its end,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        x = activity audit
        await event approve | t
        "#,
        expect![[r#"
            after turn 1: fits
            after turn 2: the code no longer fits its history, at event 7:
              recorded:  the code waited here
              attempted: activity 'audit' is scheduled
              The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
            after turns 3 to 5: the code no longer fits its history, at event 7:
              recorded:  event 'approve' is received
              attempted: activity 'audit' is scheduled
              The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
        "#]],
    );
    // after all that was recorded,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event approve | t
        u = timer 1m
        await u
        x = activity audit
        await x
        "#,
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 11:
              recorded:  the orchestration returns
              attempted: activity 'audit' is scheduled
              The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
        "#]],
    );
    // and a command that gives an operation up.
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event approve | t
        cancel b
        u = timer 1m
        await u
        return "done"
        "#,
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 8:
              recorded:  a timer for 2023-11-14T22:14:20.200Z is created
              attempted: the operation of event 5 is cancelled
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn one_fewer() {
    // In the middle of a turn,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        c = activity notify "ada"
        await event approve | t
        u = timer 1m
        await u
        return "done"
        "#,
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: activity 'notify' is scheduled
              name recorded:  ship
              name attempted: notify
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // at its end,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        await event approve | t
        u = timer 1m
        await u
        return "done"
        "#,
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 6:
              recorded:  activity 'notify' is scheduled
              attempted: the code waits for event 'approve', the timer of event 3 or an activity
              The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
        "#]],
    );
    // and all commands of a turn.
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event approve | t
        return "done"
        "#,
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 8:
              recorded:  a timer for 2023-11-14T22:14:20.200Z is created
              attempted: the orchestration returns
              The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn the_timer() {
    // Another delay,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 2h
        await a
        "#,
        expect![[r#"
            after turns 1 to 5: the code no longer fits its history, at event 3:
              recorded:  a timer for 2023-11-14T23:13:20.000Z is created
              attempted: a timer for 2023-11-15T00:13:20.000Z is created
              fireAtMs recorded:  1700003600000
              fireAtMs attempted: 1700007200000
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // the last command,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event approve | t
        u = timer 2m
        await u
        return "done"
        "#,
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 8:
              recorded:  a timer for 2023-11-14T22:14:20.200Z is created
              attempted: a timer for 2023-11-14T22:15:20.200Z is created
              fireAtMs recorded:  1700000060200
              fireAtMs attempted: 1700000120200
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // an activity instead,
    check(
        r#"
        a = activity charge {"total":12}
        t = activity wait "1h"
        await a
        "#,
        expect![[r#"
            after turns 1 to 5: the code no longer fits its history, at event 3:
              recorded:  a timer for 2023-11-14T23:13:20.000Z is created
              attempted: activity 'wait' is scheduled
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // and no fiber waits for the timer any more.
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event approve | t
        u = timer 1m
        await event signed
        return "done"
        "#,
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 10:
              recorded:  the timer of event 8 fires
              attempted: the code waits for event 'signed' or an activity
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn the_event() {
    // Another name,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event accept | t
        u = timer 1m
        await u
        return "done"
        "#,
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 7:
              recorded:  event 'approve' is received
              attempted: the code waits for event 'accept', the timer of event 3 or one of 2 activities
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // a queue instead,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await queue approve
        "#,
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 7:
              recorded:  event 'approve' is received
              attempted: the code waits for a message of queue 'approve' or one of 2 activities
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // and no fiber waits for the event any more.
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await t
        "#,
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 7:
              recorded:  event 'approve' is received
              attempted: the code waits for the timer of event 3 or one of 2 activities
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn the_end() {
    // The code returns something else,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event approve | t
        u = timer 1m
        await u
        return "all done"
        "#,
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 11:
              recorded:  the orchestration returns
              attempted: the orchestration returns
              output recorded:  "done"
              output attempted: "all done"
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // throws,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event approve | t
        u = timer 1m
        await u
        throw "Error"
        "#,
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 11:
              recorded:  the orchestration returns
              attempted: the orchestration throws
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
    // goes on waiting,
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        await a
        b = activity ship it
        c = activity notify "ada"
        await event approve | t
        u = timer 1m
        await u
        await b | event signed | event sealed | queue q | queue r | queue s | t
        "#,
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 11:
              recorded:  the orchestration returns
              attempted: the code waits for event 'sealed', event 'signed', a message of queue 'q', a message of queue 'r', a message of queue 's', 1 more or an activity
              The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
        "#]],
    );
    // or ends before it did.
    check(
        r#"
        a = activity charge {"total":12}
        t = timer 1h
        return "early"
        "#,
        expect![[r#"
            after turn 1: the code no longer fits its history, at event 4:
              recorded:  the code waited here
              attempted: the orchestration returns
              The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
            after turns 2 to 5: the code no longer fits its history, at event 4:
              recorded:  activity 'charge' of event 2 completes
              attempted: the orchestration returns
              The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn what_is_given_up() {
    let text = "
        a = activity one
        b = activity two
        await event stop
        cancel a
        await event never
        ---
        100 event stop
    ";
    check_changed(
        text,
        "a = activity one\nb = activity two\nawait event stop\ncancel b\nawait event never",
        expect![[r#"
        after turn 1: fits
        after turn 2: the code no longer fits its history, at event 5:
          recorded:  the operation of event 2 is cancelled
          attempted: the operation of event 3 is cancelled
          operation recorded:  2
          operation attempted: 3
          Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
    "#]],
    );
    check_changed(
        text,
        "a = activity one\nb = activity two\nawait event stop\nawait event never",
        expect![[r#"
        after turn 1: fits
        after turn 2: the code no longer fits its history, at event 5:
          recorded:  the operation of event 2 is cancelled
          attempted: the code waits for event 'never' or one of 2 activities
          The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
    "#]],
    );
}

/// A cancellation and failed attempts are in history, and the code waits for none of them.
#[test]
fn after_a_cancellation_and_failed_attempts() {
    let text = r#"
        a = activity charge ; attempts=3
        await a
        on cancel
        b = activity refund it
        await b
        ---
        100 fail a Error
        200 cancel "stop"
        300 fail b Error
    "#;
    check_changed(
        text,
        "a = activity charge ; attempts=3\nx = activity audit\nawait a",
        expect![[r#"
        after turn 1: the code no longer fits its history, at event 3:
          recorded:  the code waited here
          attempted: activity 'audit' is scheduled
          The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
        after turn 2: the code no longer fits its history, at event 4:
          recorded:  the code waited here
          attempted: activity 'audit' is scheduled
          The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
        after turns 3 to 4: the code no longer fits its history, at event 4:
          recorded:  a cancellation is delivered
          attempted: activity 'audit' is scheduled
          The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
    "#]],
    );
    check_changed(
        text,
        "a = activity charge ; attempts=3\nreturn",
        expect![[r#"
        after turn 1: the code no longer fits its history, at event 3:
          recorded:  the code waited here
          attempted: the orchestration returns
          The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
        after turn 2: the code no longer fits its history, at event 4:
          recorded:  the code waited here
          attempted: the orchestration returns
          The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
        after turns 3 to 4: the code no longer fits its history, at event 4:
          recorded:  a cancellation is delivered
          attempted: the orchestration returns
          The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
    "#]],
    );
    check_changed(
        text,
        "a = activity charge ; attempts=3\nawait a\non cancel\nawait event x",
        expect![[r#"
        after turns 1 to 2: fits
        after turns 3 to 4: the code no longer fits its history, at event 5:
          recorded:  activity 'refund' is scheduled
          attempted: the code waits for event 'x' or an activity
          The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
    "#]],
    );
    check_changed(
        text,
        "a = activity charge ; attempts=3\nawait a",
        expect![[r#"
        after turns 1 to 2: fits
        after turns 3 to 4: the code no longer fits its history, at event 5:
          recorded:  activity 'refund' is scheduled
          attempted: the orchestration ends as cancelled
          The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.
    "#]],
    );
}

/// The completion of an activity in the place of a command.
#[test]
fn where_an_activity_settled() {
    let text = r"
        a = activity charge ; attempts=1
        await a
        b = activity ship ; attempts=1
        await b
        ---
        100 complete a
        200 fail b Error
    ";
    check_changed(
        text,
        "a = activity charge\nb = activity ship\nawait a\nawait b",
        expect![[r#"
        after turn 1: the code no longer fits its history, at event 3:
          recorded:  the code waited here
          attempted: activity 'ship' is scheduled
          The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
        after turns 2 to 3: the code no longer fits its history, at event 3:
          recorded:  activity 'charge' of event 2 completes
          attempted: activity 'ship' is scheduled
          The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
    "#]],
    );
    check_changed(
        text,
        "a = activity charge\nawait a\nb = activity ship\nc = activity ship\nawait b",
        expect![[r#"
        after turn 1: fits
        after turn 2: the code no longer fits its history, at event 5:
          recorded:  the code waited here
          attempted: activity 'ship' is scheduled
          The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
        after turn 3: the code no longer fits its history, at event 5:
          recorded:  activity 'ship' of event 4 fails
          attempted: activity 'ship' is scheduled
          The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.
    "#]],
    );
}

/// Permitted changes: options, the error that is thrown, the status, and additional waits.
#[test]
fn changes_that_are_none() {
    check_changed(
        r#"
        status 1
        a = activity charge ; attempts=5
        t = timer 1h
        await a | t
        await event go
        throw "Error at line 7"
        ---
        100 fail a Error
        200 complete a
        300 event go
        "#,
        r#"
        a = activity charge ; attempts=1 timeout=5s
        random
        t = timer at 1h
        await t | a | event other
        status 2
        await event go | queue go | t
        throw "Error at line 9"
        "#,
        expect![[r#"
            after turns 1 to 4: fits
        "#]],
    );
}

/// A report stays readable when the values are long.
#[test]
fn long_values_are_cut_to_where_they_differ() {
    let long = "ä".repeat(300);
    check_changed(
        &format!("a = activity charge \"{long}\"\nawait a"),
        &format!("a = activity charge \"{long}!\"\nawait a"),
        expect![[r#"
            after turn 1: the code no longer fits its history, at event 2:
              recorded:  activity 'charge' is scheduled
              attempted: activity 'charge' is scheduled
              input recorded:  …ääääääääääääääääääääääääääääääääääääääää" (602 bytes)
              input attempted: …ääääääääääääääääääääääääääääääääääääääää!" (603 bytes)
              Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.
        "#]],
    );
}

/// A history that no engine writes: it completes an operation that is not open (E5). This is found before the
/// completion has any effect.
#[test]
fn a_history_that_contradicts_itself() {
    let start = Event::Started(ExecutionStarted {
        name: "n".into(),
        version: "1".into(),
        input: None,
        seed: 0,
        incarnation: None,
        parent: None,
        custom_status: None,
        trace: None,
    });
    let completed = |id| {
        Event::Delivery(DeliveryEvent::ActivityCompleted {
            scheduled: EventId(id),
            output: None,
        })
    };
    let report = |events: &[Event]| {
        let options = ActivityOptions::default();
        let scheduled = Event::Command(CommandEvent::ActivityScheduled {
            name: "charge".into(),
            input: None,
            options: options.clone(),
        });
        let all = [
            start.clone(),
            scheduled,
            Event::Command(CommandEvent::TimerCreated { fire_at_ms: 5 }),
        ]
        .into_iter()
        .chain(events.iter().cloned());
        let history: Vec<EventRecord> = all
            .zip(1..)
            .map(|(event, id)| EventRecord::new(EventId(id), 0, event))
            .collect();
        let start = Start {
            execution: ExecutionId::FIRST,
            history,
            complete: true,
            fresh: false,
            budget: Budget::default(),
        };
        let mut engine = Engine::new(start).expect("it can be read");
        engine
            .issue(Command::ScheduleActivity {
                name: "charge".into(),
                input: None,
                options,
            })
            .expect("it fits");
        engine.issue(Command::CreateTimer { delay_ms: 5 }).expect("it fits");
        loop {
            match engine.next(
                Awaited {
                    mailboxes: Vec::new(),
                    timers: vec![EventId(2), EventId(3)],
                },
                0,
            ) {
                Ok(Step::Deliver { .. }) => {}
                Ok(step) => panic!("{step:?}"),
                Err(Fault::Mismatch(mismatch)) => return format!("{}: {}\n", mismatch.event_id, mismatch.recorded),
                Err(Fault::Limit(limit)) => panic!("{limit}"),
            }
        }
    };
    let fired = |id| Event::Delivery(DeliveryEvent::TimerFired { timer: EventId(id) });
    let failed = Event::Delivery(DeliveryEvent::ActivityFailed {
        scheduled: EventId(2),
        attempt: 1,
        error: None,
    });
    expect![[r#"
        5: the activity of event 2 completes
        5: the activity of event 2 completes
        4: the activity of event 3 completes
        4: the activity of event 9 completes
        5: the timer of event 3 fires
        4: the timer of event 2 fires
    "#]]
    .assert_eq(
        &[
            report(&[completed(2), completed(2)]),
            report(&[failed, completed(2)]),
            report(&[completed(3)]),
            report(&[completed(9)]),
            report(&[fired(3), fired(3)]),
            report(&[fired(2)]),
        ]
        .concat(),
    );
}
