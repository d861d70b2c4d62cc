//! Code that was changed while instances were running: histories with cancellations, failed attempts and settled
//! activities, changes that are permitted, and a history that no engine writes.

use expect_test::expect;
use perdure_engine::{
    ActivityOptions, Awaited, Budget, Command, CommandEvent, DeliveryEvent, Engine, Event, EventId, EventRecord,
    ExecutionId, ExecutionStarted, Fault, Start, StateValues, Step,
};

use crate::support::changed::check_changed;

#[test]
fn cancelled_operation_is_compared() {
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
          Was the orchestration changed while instances were running?
          Run the old code again, or register the change under a new version.
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
          The code does less here than it did when it first ran.
          Run the old code again, or register the change under a new version.
    "#]],
    );
}

const CANCELLED: &str = r#"
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

/// A cancellation and failed attempts are in history, and the code waits for none of them.
#[test]
fn changes_after_a_cancellation_and_failed_attempts_are_found() {
    check_changed(
        CANCELLED,
        "a = activity charge ; attempts=3\nx = activity audit\nawait a",
        expect![[r#"
        after turn 1: the code no longer fits its history, at event 3:
          recorded:  the code waited here
          attempted: activity 'audit' is scheduled
          The code does more here than it did when it first ran.
          Run the old code again, or register the change under a new version.
        after turn 2: the code no longer fits its history, at event 4:
          recorded:  the code waited here
          attempted: activity 'audit' is scheduled
          The code does more here than it did when it first ran.
          Run the old code again, or register the change under a new version.
        after turns 3 to 4: the code no longer fits its history, at event 4:
          recorded:  a cancellation is delivered
          attempted: activity 'audit' is scheduled
          The code does more here than it did when it first ran.
          Run the old code again, or register the change under a new version.
    "#]],
    );
    check_changed(
        CANCELLED,
        "a = activity charge ; attempts=3\nreturn",
        expect![[r#"
        after turn 1: the code no longer fits its history, at event 3:
          recorded:  the code waited here
          attempted: the orchestration returns
          The code does less here than it did when it first ran.
          Run the old code again, or register the change under a new version.
        after turn 2: the code no longer fits its history, at event 4:
          recorded:  the code waited here
          attempted: the orchestration returns
          The code does less here than it did when it first ran.
          Run the old code again, or register the change under a new version.
        after turns 3 to 4: the code no longer fits its history, at event 4:
          recorded:  a cancellation is delivered
          attempted: the orchestration returns
          The code does less here than it did when it first ran.
          Run the old code again, or register the change under a new version.
    "#]],
    );
    check_changed(
        CANCELLED,
        "a = activity charge ; attempts=3\nawait a\non cancel\nawait event x",
        expect![[r#"
        after turns 1 to 2: fits
        after turns 3 to 4: the code no longer fits its history, at event 5:
          recorded:  activity 'refund' is scheduled
          attempted: the code waits for event 'x' or an activity
          The code does less here than it did when it first ran.
          Run the old code again, or register the change under a new version.
    "#]],
    );
    check_changed(
        CANCELLED,
        "a = activity charge ; attempts=3\nawait a",
        expect![[r#"
        after turns 1 to 2: fits
        after turns 3 to 4: the code no longer fits its history, at event 5:
          recorded:  activity 'refund' is scheduled
          attempted: the orchestration ends as cancelled
          The code does less here than it did when it first ran.
          Run the old code again, or register the change under a new version.
    "#]],
    );
}

/// The completion of an activity in the place of a command.
#[test]
fn changes_where_an_activity_settled_are_found() {
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
          The code does more here than it did when it first ran.
          Run the old code again, or register the change under a new version.
        after turns 2 to 3: the code no longer fits its history, at event 3:
          recorded:  activity 'charge' of event 2 completes
          attempted: activity 'ship' is scheduled
          The code does more here than it did when it first ran.
          Run the old code again, or register the change under a new version.
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
          The code does more here than it did when it first ran.
          Run the old code again, or register the change under a new version.
        after turn 3: the code no longer fits its history, at event 5:
          recorded:  activity 'ship' of event 4 fails
          attempted: activity 'ship' is scheduled
          The code does more here than it did when it first ran.
          Run the old code again, or register the change under a new version.
    "#]],
    );
}

/// Permitted changes: options, the error that is thrown, the status, and additional waits.
#[test]
fn permitted_changes_fit() {
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
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

/// A history that no engine writes: it completes an operation that is not open (E5). This is found before the
/// completion has any effect.
#[test]
fn contradictory_history_is_a_mismatch() {
    let completed = |id| {
        Event::Delivery(DeliveryEvent::ActivityCompleted {
            scheduled: EventId(id),
            output: None,
        })
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

/// Replays an activity and a timer, with these events after them. Returns the event at which a mismatch is found.
fn report(events: &[Event]) -> String {
    let start = Event::Started(ExecutionStarted {
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
    });
    let options = ActivityOptions::default();
    let scheduled = Event::Command(CommandEvent::ActivityScheduled {
        name: "charge".into(),
        input: None,
        options: options.clone(),
    });
    let all = [
        start,
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
}
