//! Code that was changed while instances were running. The change is made in seven ways and is found in the middle of
//! history and at its very end. The report must be clear to the person who made the change.

use crate::support::changed::check_changed;
use expect_test::{Expect, expect};

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

/// Checks a change of the program: `edit` replaces `lines`.
#[track_caller]
fn check(lines: &str, edit: &str, expect: Expect) {
    let (program, _) = ORDER.split_once("---").expect("the events from outside follow");
    let program: Vec<&str> = program.lines().map(str::trim).collect();
    let program = program.join("\n");
    assert_eq!(program.matches(lines).count(), 1, "{lines}");
    check_changed(ORDER, &program.replace(lines, edit), expect);
}

#[test]
fn unchanged_code_fits() {
    check(
        "await a",
        "await a",
        expect![[r#"
        after turns 1 to 5: fits
    "#]],
    );
}

/// The function of an inline activity belongs to the orchestration, that of another activity to the runtime.
#[test]
fn activity_that_has_become_inline_is_found() {
    check(
        "b = activity ship it",
        "b = activity ship it ; inline",
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: inline activity 'ship' is scheduled
              inline recorded:  false
              inline attempted: true
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn name_of_an_activity_is_compared() {
    check(
        "b = activity ship it",
        "b = activity send it",
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: activity 'send' is scheduled
              name recorded:  ship
              name attempted: send
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn input_of_an_activity_is_compared() {
    check(
        r#"a = activity charge {"total":12}"#,
        r#"a = activity charge {"total":13}"#,
        expect![[r#"
            after turns 1 to 5: the code no longer fits its history, at event 2:
              recorded:  activity 'charge' is scheduled
              attempted: activity 'charge' is scheduled
              input recorded:  {"total":12}
              input attempted: {"total":13}
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
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
          Was the orchestration changed while instances were running?
          Run the old code again, or register the change under a new version.
    "#]],
    );
}

#[test]
fn order_of_commands_is_compared() {
    check(
        "b = activity ship it\nc = activity notify \"ada\"",
        "c = activity notify \"ada\"\nb = activity ship \"receipt\"",
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: activity 'notify' is scheduled
              name recorded:  ship
              name attempted: notify
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // Two operations of different kinds in the other order.
    check(
        "a = activity charge {\"total\":12}\nt = timer 1h",
        "t = timer 1h\na = activity charge {\"total\":12}",
        expect![[r#"
            after turns 1 to 5: the code no longer fits its history, at event 2:
              recorded:  activity 'charge' is scheduled
              attempted: a timer for 2023-11-14T23:13:20.000Z is created
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn additional_command_is_found() {
    // In the middle of a turn,
    check(
        "b = activity ship it",
        "x = activity audit it\nb = activity ship \"receipt\"",
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: activity 'audit' is scheduled
              name recorded:  ship
              name attempted: audit
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // at its end,
    check(
        r#"c = activity notify "ada""#,
        "c = activity notify \"ada\"\nx = activity audit",
        expect![[r#"
            after turn 1: fits
            after turn 2: the code no longer fits its history, at event 7:
              recorded:  the code waited here
              attempted: activity 'audit' is scheduled
              The code does more here than it did when it first ran.
              Run the old code again, or register the change under a new version.
            after turns 3 to 5: the code no longer fits its history, at event 7:
              recorded:  event 'approve' is received
              attempted: activity 'audit' is scheduled
              The code does more here than it did when it first ran.
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // after all that was recorded,
    check(
        r#"return "done""#,
        "x = activity audit\nawait x",
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 11:
              recorded:  the orchestration returns
              attempted: activity 'audit' is scheduled
              The code does more here than it did when it first ran.
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // and a command that gives an operation up.
    check(
        "await event approve | t",
        "await event approve | t\ncancel b",
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 8:
              recorded:  a timer for 2023-11-14T22:14:20.200Z is created
              attempted: the operation of event 5 is cancelled
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn missing_command_is_found() {
    // In the middle of a turn,
    check(
        "b = activity ship it",
        "",
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 5:
              recorded:  activity 'ship' is scheduled
              attempted: activity 'notify' is scheduled
              name recorded:  ship
              name attempted: notify
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // at its end,
    check(
        r#"c = activity notify "ada""#,
        "",
        expect![[r#"
            after turn 1: fits
            after turns 2 to 5: the code no longer fits its history, at event 6:
              recorded:  activity 'notify' is scheduled
              attempted: the code waits for event 'approve', the timer of event 3 or an activity
              The code does less here than it did when it first ran.
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // and all commands of a turn.
    check(
        "u = timer 1m\nawait u",
        "",
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 8:
              recorded:  a timer for 2023-11-14T22:14:20.200Z is created
              attempted: the orchestration returns
              The code does less here than it did when it first ran.
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn timer_is_compared() {
    // Another delay,
    check(
        "t = timer 1h",
        "t = timer 2h",
        expect![[r#"
            after turns 1 to 5: the code no longer fits its history, at event 3:
              recorded:  a timer for 2023-11-14T23:13:20.000Z is created
              attempted: a timer for 2023-11-15T00:13:20.000Z is created
              fireAtMs recorded:  1700003600000
              fireAtMs attempted: 1700007200000
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // the last command,
    check(
        "u = timer 1m",
        "u = timer 2m",
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 8:
              recorded:  a timer for 2023-11-14T22:14:20.200Z is created
              attempted: a timer for 2023-11-14T22:15:20.200Z is created
              fireAtMs recorded:  1700000060200
              fireAtMs attempted: 1700000120200
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // an activity instead,
    check(
        "t = timer 1h",
        r#"t = activity wait "1h""#,
        expect![[r#"
            after turns 1 to 5: the code no longer fits its history, at event 3:
              recorded:  a timer for 2023-11-14T23:13:20.000Z is created
              attempted: activity 'wait' is scheduled
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // and no fiber waits for the timer any more.
    check(
        "await u",
        "await event signed",
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 10:
              recorded:  the timer of event 8 fires
              attempted: the code waits for event 'signed' or an activity
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn awaited_event_is_compared() {
    // Another name,
    check(
        "await event approve | t",
        "await event accept | t",
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 7:
              recorded:  event 'approve' is received
              attempted: the code waits for event 'accept', the timer of event 3 or one of 2 activities
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // a queue instead,
    check(
        "await event approve | t",
        "await queue approve",
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 7:
              recorded:  event 'approve' is received
              attempted: the code waits for a message of queue 'approve' or one of 2 activities
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // and no fiber waits for the event any more.
    check(
        "await event approve | t",
        "await t",
        expect![[r#"
            after turns 1 to 2: fits
            after turns 3 to 5: the code no longer fits its history, at event 7:
              recorded:  event 'approve' is received
              attempted: the code waits for the timer of event 3 or one of 2 activities
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn end_of_the_code_is_compared() {
    // The code returns something else,
    check(
        r#"return "done""#,
        r#"return "all done""#,
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 11:
              recorded:  the orchestration returns
              attempted: the orchestration returns
              output recorded:  "done"
              output attempted: "all done"
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // throws,
    check(
        r#"return "done""#,
        r#"throw "Error""#,
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 11:
              recorded:  the orchestration returns
              attempted: the orchestration throws
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // goes on waiting,
    check(
        r#"return "done""#,
        "await b | event signed | event sealed | queue q | queue r | queue s | t",
        expect![[r#"
            after turns 1 to 4: fits
            after turn 5: the code no longer fits its history, at event 11:
              recorded:  the orchestration returns
              attempted: the code waits for event 'sealed', event 'signed', a message of queue 'q', a message of queue
                'r', a message of queue 's', 1 more or an activity
              The code does more here than it did when it first ran.
              Run the old code again, or register the change under a new version.
        "#]],
    );
    // or ends before it did.
    check(
        "await a",
        r#"return "early""#,
        expect![[r#"
            after turn 1: the code no longer fits its history, at event 4:
              recorded:  the code waited here
              attempted: the orchestration returns
              The code does less here than it did when it first ran.
              Run the old code again, or register the change under a new version.
            after turns 2 to 5: the code no longer fits its history, at event 4:
              recorded:  activity 'charge' of event 2 completes
              attempted: the orchestration returns
              The code does less here than it did when it first ran.
              Run the old code again, or register the change under a new version.
        "#]],
    );
}
