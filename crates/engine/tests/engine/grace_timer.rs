//! The timer that limits how long an execution may go on once it is cancelled.

use expect_test::expect;

use crate::support::changed::check_deployed;
use crate::support::check;

const GRACE: &str = r#"
    await event never
    return it
    on cancel
    t = grace 5s
    a = activity undo
    await a | t
    return it
    ---
    100 cancel
    9000 complete a "undone"
"#;

#[test]
fn grace_timer_is_recorded_behind_its_patch() {
    check(
        GRACE,
        expect![[r#"
        turn @+0
          wait for event never
            waits (0 open)
        turn @+100
          cancelled: none @+100
          #4 grace timer
          #5 activity undo none
          wait for a or t
            2 CancelRequested @+100
            3 PatchApplied perdure.cancelGrace @+100
            4 TimerCreated for @+5100 @+100
            5 ActivityScheduled undo @+100
            consumes 1
            starts #5 attempt 1
            waits (1 open, timer @+5100)
        turn @+5100
          #4 gives none @+5100
          return none
            6 TimerFired #4 @+5100
            7 ExecutionCompleted @+5100
            aborts #5
            ends Completed
    "#]],
    );
}

/// Returns the program of [`GRACE`] with another limit.
fn with_grace(limit: &str) -> String {
    let (program, _) = GRACE.split_once("---").expect("what happens outside follows");
    program.replace("grace 5s", limit)
}

/// Other code takes the timer as it is, with another limit and without one.
#[test]
fn grace_timer_of_history_is_taken() {
    check_deployed(
        GRACE,
        &with_grace("grace 1h"),
        expect![[r#"
        deployed after turn 1:
          | wait for event never
            cancelled: none @+100
            #4 grace timer
            #5 activity undo none
            wait for a or t
            #5 gives "undone" @+9000
            return "undone"
        deployed after turn 2:
          | wait for event never
          | cancelled: none @+100
          | #4 grace timer
          | #5 activity undo none
          | wait for a or t
            #4 gives none @+5100
            return none
    "#]],
    );
    check_deployed(
        GRACE,
        &with_grace("grace none"),
        expect![[r#"
        deployed after turn 1:
          | wait for event never
            cancelled: none @+100
            no grace timer
            #3 activity undo none
            wait for a or t
            #3 gives "undone" @+9000
            return "undone"
        deployed after turn 2:
          | wait for event never
          | cancelled: none @+100
          | #4 grace timer
          | #5 activity undo none
          | wait for a or t
            #4 gives none @+5100
            return none
    "#]],
    );
}

#[test]
fn cancellation_without_a_limit_gets_no_grace_timer() {
    let without = GRACE.replace("grace 5s", "grace none");
    check_deployed(
        &without,
        &with_grace("grace 5s"),
        expect![[r#"
        deployed after turn 1:
          | wait for event never
            cancelled: none @+100
            #4 grace timer
            #5 activity undo none
            wait for a or t
            #4 gives none @+5100
            return none
        deployed after turn 2:
          | wait for event never
          | cancelled: none @+100
          | no grace timer
          | #3 activity undo none
          | wait for a or t
            #3 gives "undone" @+9000
            return "undone"
    "#]],
    );
}
