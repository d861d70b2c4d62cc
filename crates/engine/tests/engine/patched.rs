//! Code that asks if its execution has a patch of it.

use expect_test::expect;
use perdure_engine::Budget;

use crate::support::changed::{check_changed, check_deployed};
use crate::support::script::Script;
use crate::support::{check, check_with, run_everywhere};

#[test]
fn new_execution_has_the_patch_and_records_it_once() {
    check(
        r#"
        repeat 2
        patched one
        a = activity charge
        await a
        end
        patched two
        patched one
        return it
        ---
        100 complete a
        200 complete a "paid"
        "#,
        expect![[r#"
            turn @+0
              patched one: true
              #3 activity charge none
              wait for a
                2 PatchApplied one @+0
                3 ActivityScheduled charge @+0
                starts #3 attempt 1
                waits (1 open)
            turn @+100
              #3 gives none @+100
              patched one: true
              #5 activity charge none
              wait for a
                4 ActivityCompleted #3 @+100
                5 ActivityScheduled charge @+100
                starts #5 attempt 1
                waits (1 open)
            turn @+200
              #5 gives "paid" @+200
              patched two: true
              patched one: true
              return "paid"
                6 ActivityCompleted #5 "paid" @+200
                7 PatchApplied two @+200
                8 ExecutionCompleted "paid" @+200
                ends Completed
        "#]],
    );
}

/// No event is recorded before the patch, and no command follows it until the code waits.
#[test]
fn patch_is_asked_for_before_each_kind_of_wait() {
    check(
        r#"
        patched one
        await event x
        patched two
        t = timer 1s
        await t
        patched three
        await event x | t
        patched four
        ---
        100 event x 1
        2000 event x 2
        "#,
        expect![[r#"
            turn @+0
              patched one: true
              wait for event x
                2 PatchApplied one @+0
                waits (0 open)
            turn @+100
              event x gives 1 @+100
              patched two: true
              #5 timer of 1000 ms
              wait for t
                3 EventReceived x 1 @+100
                4 PatchApplied two @+100
                5 TimerCreated for @+1100 @+100
                consumes 1
                waits (0 open, timer @+1100)
            turn @+1100
              #5 gives none @+1100
              patched three: true
              patched four: true
              return none
                6 TimerFired #5 @+1100
                7 PatchApplied three @+1100
                8 PatchApplied four @+1100
                9 ExecutionCompleted @+1100
                ends Completed
        "#]],
    );
}

#[test]
fn patch_is_asked_for_beside_failed_attempts_and_in_short_turns() {
    let budget = Budget {
        deliveries: 1,
        commands: 1,
        bytes: u64::MAX,
        replayed: 1,
    };
    check_with(
        budget,
        r#"
        a = activity charge ; attempts=3 initial=1s
        patched one
        await event x
        patched two
        patched one
        await a
        patched three
        return it
        ---
        100 fail a TypeError
        200 event x 1
        300 event x 2
        5000 complete a "paid"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              patched one: true
              wait for event x
                2 ActivityScheduled charge with options @+0
                3 PatchApplied one @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
                4 ActivityAttemptFailed #2 "TypeError" attempt 1, again @+1100 @+100
                starts #2 attempt 2 not before @+1100
                waits (1 open)
            turn @+200
              event x gives 1 @+200
              patched two: true
              patched one: true
              wait for a
                5 EventReceived x 1 @+200
                6 PatchApplied two @+200
                consumes 1
                waits (1 open)
            turn @+5000
              #2 gives "paid" @+5000
              patched three: true
              return "paid"
                7 ActivityCompleted #2 "paid" @+5000
                8 PatchApplied three @+5000
                9 ExecutionCompleted "paid" @+5000
                ends Completed
            unread messages: 2
        "#]],
    );
}

#[test]
fn patch_is_asked_for_during_a_cancellation() {
    check(
        r#"
        patched one
        await event never
        on cancel
        patched one
        patched two
        if patched
        a = activity refund it
        await a
        end
        return it
        ---
        100 cancel "stop"
        200 complete a "refunded"
        "#,
        expect![[r#"
            turn @+0
              patched one: true
              wait for event never
                2 PatchApplied one @+0
                waits (0 open)
            turn @+100
              cancelled: "stop" @+100
              patched one: true
              patched two: true
              #5 activity refund "stop"
              wait for a
                3 CancelRequested "stop" @+100
                4 PatchApplied two @+100
                5 ActivityScheduled refund "stop" @+100
                consumes 1
                starts #5 attempt 1
                waits (1 open)
            turn @+200
              #5 gives "refunded" @+200
              return "refunded"
                6 ActivityCompleted #5 "refunded" @+200
                7 ExecutionCompleted "refunded" @+200
                ends Completed
        "#]],
    );
}

const OLD: &str = r#"
    a = activity charge
    await a
    await event go
    b = activity ship
    await b
    return it
    ---
    100 complete a
    200 event go
    300 complete b "done"
"#;

/// The code asks before the first command, before the first wait, and after a wait.
const ASKS_EVERYWHERE: &str = r#"
    patched one
    if patched
    f = activity check
    await f
    end
    a = activity charge
    patched two
    await a
    patched three
    if patched
    status "charged"
    end
    await event go
    patched one
    patched three
    b = activity ship
    await b
    return it
    "#;

#[test]
fn execution_beyond_the_question_has_no_patch() {
    check_deployed(
        OLD,
        ASKS_EVERYWHERE,
        expect![[r#"
            deployed after turn 1:
              | patched one: false
              | #2 activity charge none
              | patched two: false
              | wait for a
                #2 gives none @+100
                patched three: true
                status "charged"
                wait for event go
                event go gives none @+200
                patched one: false
                patched three: true
                #6 activity ship none
                wait for b
                #6 gives "done" @+300
                return "done"
            deployed after turn 2:
              | patched one: false
              | #2 activity charge none
              | patched two: false
              | wait for a
              | #2 gives none @+100
              | patched three: false
              | wait for event go
                event go gives none @+200
                patched one: false
                patched three: false
                #5 activity ship none
                wait for b
                #5 gives "done" @+300
                return "done"
            deployed after turn 3:
              | patched one: false
              | #2 activity charge none
              | patched two: false
              | wait for a
              | #2 gives none @+100
              | patched three: false
              | wait for event go
              | event go gives none @+200
              | patched one: false
              | patched three: false
              | #5 activity ship none
              | wait for b
                #5 gives "done" @+300
                return "done"
        "#]],
    );
}

/// Recorded history ends where the code waits, so the code has already passed a question right before that wait.
#[test]
fn question_at_the_end_of_history_was_passed_before() {
    check_deployed(
        r#"
        await event go
        await event go
        a = activity ship
        await a
        return it
        ---
        100 event go 1
        200 event go 2
        300 complete a "done"
        "#,
        r#"
        patched one
        await event go
        patched two
        await event go
        patched three
        a = activity ship
        await a
        return it
        "#,
        expect![[r#"
            deployed after turn 1:
              | patched one: false
              | wait for event go
                event go gives 1 @+100
                patched two: true
                wait for event go
                event go gives 2 @+200
                patched three: true
                #6 activity ship none
                wait for a
                #6 gives "done" @+300
                return "done"
            deployed after turn 2:
              | patched one: false
              | wait for event go
              | event go gives 1 @+100
              | patched two: false
              | wait for event go
                event go gives 2 @+200
                patched three: true
                #5 activity ship none
                wait for a
                #5 gives "done" @+300
                return "done"
            deployed after turn 3:
              | patched one: false
              | wait for event go
              | event go gives 1 @+100
              | patched two: false
              | wait for event go
              | event go gives 2 @+200
              | patched three: false
              | #4 activity ship none
              | wait for a
                #4 gives "done" @+300
                return "done"
        "#]],
    );
}

/// The worker was gone when the instance was asked to cancel, and another worker has other code.
#[test]
fn execution_cancelled_after_the_deployment_has_new_patches() {
    check_deployed(
        r#"
        await event go
        await event never
        ---
        100 event go
        200 cancel "stop"
        "#,
        r#"
        patched one
        await event go
        await event never
        on cancel
        patched one
        patched two
        throw it
        "#,
        expect![[r#"
            deployed after turn 1:
              | patched one: false
              | wait for event go
                event go gives none @+100
                wait for event never
                cancelled: "stop" @+200
                patched one: false
                patched two: true
                throw "stop"
            deployed after turn 2:
              | patched one: false
              | wait for event go
              | event go gives none @+100
              | wait for event never
                cancelled: "stop" @+200
                patched one: false
                patched two: true
                throw "stop"
        "#]],
    );
}

const PATCHED: &str = r#"
    patched one
    a = activity charge
    patched two
    patched three
    await a
    patched four
    return it
    ---
    100 complete a "paid"
"#;

/// The recorded patch is bookkeeping, not a command: once no execution of the old code remains, the code may drop the
/// question and keep only the new branch.
#[test]
fn code_without_the_question_fits() {
    check_changed(
        PATCHED,
        r#"
        a = activity charge
        await a
        return it
        "#,
        expect![[r#"
            after turns 1 to 2: fits
        "#]],
    );
    // The code asks only for the second of two patches in a row.
    check_changed(
        PATCHED,
        r#"
        a = activity charge
        patched three
        await a
        return it
        "#,
        expect![[r#"
            after turns 1 to 2: fits
        "#]],
    );
}

/// Rolled back: the code knows no patch, and its other commands are found.
#[test]
fn old_code_does_not_fit_an_execution_with_the_patch() {
    check_changed(
        r#"
        patched one
        f = activity check
        await f
        a = activity charge
        await a
        return it
        ---
        100 complete f
        200 complete a "paid"
        "#,
        r#"
        a = activity charge
        await a
        return it
        "#,
        expect![[r#"
            after turns 1 to 3: the code no longer fits its history, at event 3:
              recorded:  activity 'check' is scheduled
              attempted: activity 'charge' is scheduled
              name recorded:  check
              name attempted: charge
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

/// The same id at a second place, before the one where it is recorded: the execution does not have the patch there, and
/// has it here.
#[test]
fn history_decides_where_the_patch_begins() {
    let script = r#"
        a = activity charge
        await a
        patched one
        b = activity ship
        await b
        return it
        ---
        100 complete a
        200 complete b "shipped"
    "#;
    run_everywhere(&Script::parse(script), Budget::default());
    check_deployed(
        script,
        r#"
        patched one
        a = activity charge
        await a
        patched one
        b = activity ship
        await b
        return it
        "#,
        expect![[r#"
            deployed after turn 1:
              | patched one: false
              | #2 activity charge none
              | wait for a
                #2 gives none @+100
                patched one: false
                #4 activity ship none
                wait for b
                #4 gives "shipped" @+200
                return "shipped"
            deployed after turn 2:
              | patched one: false
              | #2 activity charge none
              | wait for a
              | #2 gives none @+100
              | patched one: true
              | #5 activity ship none
              | wait for b
                #5 gives "shipped" @+200
                return "shipped"
        "#]],
    );
}
