//! Children, detached starts and messages to other instances.

use expect_test::expect;

use crate::support::changed::check_changed;
use crate::support::check;

#[test]
fn a_child_is_started_with_the_turn_and_its_result_is_delivered() {
    check(
        r#"
        c = child order x1 12
        await c
        return it
        ---
        100 child c "receipt"
        "#,
        expect![[r#"
            turn @+0
              #2 child order x1 12
              wait for c
                2 ChildScheduled order 12 @+0
                starts child x1 for #2
                waits (0 open)
            turn @+100
              #2 gives "receipt" @+100
              return "receipt"
                3 ChildCompleted #2 "receipt" @+100
                4 ExecutionCompleted "receipt" @+100
                consumes 1
                ends Completed
        "#]],
    );
}

#[test]
fn a_child_can_end_in_every_way() {
    check(
        r#"
        a = child order x1 1
        b = child order x2 2
        c = child order x3 3
        d = child order x4 4
        await a
        await b
        await c
        await d
        ---
        100 child b failed "Error"
        100 child a cancelled "CancelledError"
        200 child c terminated "why"
        200 refuse d instanceExists
        "#,
        expect![[r#"
            turn @+0
              #2 child order x1 1
              #3 child order x2 2
              #4 child order x3 3
              #5 child order x4 4
              wait for a
                2 ChildScheduled order 1 @+0
                3 ChildScheduled order 2 @+0
                4 ChildScheduled order 3 @+0
                5 ChildScheduled order 4 @+0
                starts child x1 for #2
                starts child x2 for #3
                starts child x3 for #4
                starts child x4 for #5
                waits (0 open)
            turn @+100
              #3 ends as Failed: "Error" @+100
              #2 ends as Cancelled: "CancelledError" @+100
              wait for c
                6 ChildFailed #3 "Error" @+100
                7 ChildFailed #2 "CancelledError" @+100
                consumes 1, 2
                waits (0 open)
            turn @+200
              #4 ends as Terminated: "why" @+200
              wait for d
              #5 is refused: instanceExists @+200
              return none
                8 ChildFailed #4 "why" @+200
                9 OperationRefused #5 @+200
                10 ExecutionCompleted @+200
                consumes 3, 4
                ends Completed
        "#]],
    );
}

/// A child that was never started needs no cancellation; a started child is cancelled.
#[test]
fn a_child_that_is_given_up() {
    check(
        r#"
        a = child order x1
        b = child order x2
        cancel b
        t = timer 1s
        await t
        cancel a
        await event go
        ---
        2000 child a cancelled "late"
        2000 child a "later"
        3000 event go
        "#,
        expect![[r#"
            turn @+0
              #2 child order x1 none
              #3 child order x2 none
              #4 cancel #3
              #5 timer of 1000 ms
              wait for t
                2 ChildScheduled order @+0
                3 ChildScheduled order @+0
                4 OperationCancelled #3 @+0
                5 TimerCreated for @+1000 @+0
                starts child x1 for #2
                waits (0 open, timer @+1000)
            turn @+1000
              #5 gives none @+1000
              #7 cancel #2
              wait for event go
                6 TimerFired #5 @+1000
                7 OperationCancelled #2 @+1000
                cancels the child of #2
                waits (0 open)
            turn @+2000
                consumes 1, 2
                waits (0 open)
            turn @+3000
              event go gives none @+3000
              return none
                8 EventReceived go @+3000
                9 ExecutionCompleted @+3000
                consumes 3
                ends Completed
        "#]],
    );
}

/// The children that it leaves open are cancelled with its last turn; detached starts and messages go out.
#[test]
fn the_end_of_an_execution_cancels_its_children() {
    check(
        r#"
        a = child order x1
        d = start audit y1
        t = timer 1s
        await t
        b = child order x2
        e = start audit y2
        m = send y1 event go 5
        return "done"
        "#,
        expect![[r#"
            turn @+0
              #2 child order x1 none
              #3 start audit y1 none
              #4 timer of 1000 ms
              wait for t
                2 ChildScheduled order @+0
                3 InstanceStarted audit @+0
                4 TimerCreated for @+1000 @+0
                starts child x1 for #2
                starts instance y1 for #3
                waits (0 open, timer @+1000)
            turn @+1000
              #4 gives none @+1000
              #6 child order x2 none
              #7 start audit y2 none
              #8 send y1 event go 5
              return "done"
                5 TimerFired #4 @+1000
                6 ChildScheduled order @+1000
                7 InstanceStarted audit @+1000
                8 EventSent go 5 @+1000
                9 ExecutionCompleted "done" @+1000
                starts instance y2 for #7
                sends event go to y1 for #8
                cancels the child of #2
                ends Completed
        "#]],
    );
}

#[test]
fn continuing_as_new_cancels_its_children() {
    check(
        "a = child order x1\nt = timer 1s\nawait t\ncontinue 2\n",
        expect![[r#"
            turn @+0
              #2 child order x1 none
              #3 timer of 1000 ms
              wait for t
                2 ChildScheduled order @+0
                3 TimerCreated for @+1000 @+0
                starts child x1 for #2
                waits (0 open, timer @+1000)
            turn @+1000
              #3 gives none @+1000
              continue as new with 2
                4 TimerFired #3 @+1000
                5 ExecutionContinuedAsNew 2 @+1000
                cancels the child of #2
                ends ContinuedAsNew
        "#]],
    );
}

/// A confirmation is delivered when the turn of its operation is durable, and only if the operation is awaited.
#[test]
fn a_start_and_a_message_are_confirmed_when_they_are_durable() {
    check(
        r#"
        d = start audit y1 1
        m = send y1 queue jobs 5
        n = send y1 queue jobs 6
        await d
        await m
        t = timer 1s
        await t
        "#,
        expect![[r#"
            turn @+0
              #2 start audit y1 1
              #3 send y1 queue jobs 5
              #4 send y1 queue jobs 6
              wait for d
                2 InstanceStarted audit 1 @+0
                3 QueueSent jobs 5 @+0
                4 QueueSent jobs 6 @+0
                starts instance y1 for #2
                sends queue jobs to y1 for #3
                sends queue jobs to y1 for #4
                waits (0 open)
            turn @+0
              #2 gives none @+0
              wait for m
              #3 gives none @+0
              #7 timer of 1000 ms
              wait for t
                5 OperationConfirmed #2 @+0
                6 OperationConfirmed #3 @+0
                7 TimerCreated for @+1000 @+0
                waits (0 open, timer @+1000)
            turn @+1000
              #7 gives none @+1000
              return none
                8 TimerFired #7 @+1000
                9 ExecutionCompleted @+1000
                ends Completed
        "#]],
    );
}

#[test]
fn a_start_and_a_message_can_be_refused() {
    check(
        r#"
        d = start audit y1
        m = send y2 event go
        n = send y3 event go
        t = timer 10ms
        await event x
        await d
        await m
        await n
        ---
        0 refuse d instanceExists
        0 refuse m instanceNotFound
        5 refuse n instanceEnded
        6 event x
        "#,
        expect![[r#"
            turn @+0
              #2 start audit y1 none
              #3 send y2 event go none
              #4 send y3 event go none
              #5 timer of 10 ms
              wait for event x
                2 InstanceStarted audit @+0
                3 EventSent go @+0
                4 EventSent go @+0
                5 TimerCreated for @+10 @+0
                starts instance y1 for #2
                sends event go to y2 for #3
                sends event go to y3 for #4
                waits (0 open)
            turn @+0
              #2 is refused: instanceExists @+0
              #3 is refused: instanceNotFound @+0
                6 OperationRefused #2 @+0
                7 OperationRefused #3 @+0
                consumes 1, 2
                waits (0 open)
            turn @+5
              #4 is refused: instanceEnded @+5
                8 OperationRefused #4 @+5
                consumes 3
                waits (0 open)
            turn @+6
              event x gives none @+6
              return none
                9 EventReceived x @+6
                10 ExecutionCompleted @+6
                consumes 4
                ends Completed
        "#]],
    );
}

/// The operation was given up, and is durable: nothing is delivered for it any more.
#[test]
fn cancelled_send_is_neither_confirmed_nor_refused() {
    check(
        r#"
        d = start audit y1
        cancel d
        m = send y1 event go
        t = timer 10ms
        await t
        cancel m
        await event x
        ---
        20 refuse m instanceEnded
        20 refuse d instanceExists
        30 event x
        "#,
        expect![[r#"
            turn @+0
              #2 start audit y1 none
              #3 cancel #2
              #4 send y1 event go none
              #5 timer of 10 ms
              wait for t
                2 InstanceStarted audit @+0
                3 OperationCancelled #2 @+0
                4 EventSent go @+0
                5 TimerCreated for @+10 @+0
                starts instance y1 for #2
                sends event go to y1 for #4
                waits (0 open, timer @+10)
            turn @+10
              #5 gives none @+10
              #7 cancel #4
              wait for event x
                6 TimerFired #5 @+10
                7 OperationCancelled #4 @+10
                waits (0 open)
            turn @+20
                consumes 1, 2
                waits (0 open)
            turn @+30
              event x gives none @+30
              return none
                8 EventReceived x @+30
                9 ExecutionCompleted @+30
                consumes 3
                ends Completed
        "#]],
    );
}

/// The report is consumed and dropped: the execution that it was for is over.
#[test]
fn child_of_a_former_execution_does_not_report() {
    check(
        r#"
        c = child order x1
        await c
        ---
        100 former c "old"
        200 child c "new"
        200 repeat the last
        "#,
        expect![[r#"
            turn @+0
              #2 child order x1 none
              wait for c
                2 ChildScheduled order @+0
                starts child x1 for #2
                waits (0 open)
            turn @+100
                consumes 1
                waits (0 open)
            turn @+200
              #2 gives "new" @+200
              return none
                3 ChildCompleted #2 "new" @+200
                4 ExecutionCompleted @+200
                consumes 2
                ends Completed
        "#]],
    );
}

#[test]
fn a_child_races_with_everything() {
    check(
        r#"
        c = child order x1
        a = activity charge
        t = timer 50ms
        await c | a | t | event go
        if t
          cancel c
          await a
        end
        ---
        60 child c "late"
        60 complete a 1
        70 event go
        "#,
        expect![[r#"
            turn @+0
              #2 child order x1 none
              #3 activity charge none
              #4 timer of 50 ms
              wait for c or a or t or event go
                2 ChildScheduled order @+0
                3 ActivityScheduled charge @+0
                4 TimerCreated for @+50 @+0
                starts child x1 for #2
                starts #3 attempt 1
                waits (1 open, timer @+50)
            turn @+50
              #4 gives none @+50
              #6 cancel #2
              wait for a
                5 TimerFired #4 @+50
                6 OperationCancelled #2 @+50
                cancels the child of #2
                waits (1 open)
            turn @+60
              #3 gives 1 @+60
              return none
                7 ActivityCompleted #3 1 @+60
                8 ExecutionCompleted @+60
                ends Completed
            unread messages: 1
        "#]],
    );
}

#[test]
fn a_cancellation_can_be_caught_while_a_child_runs() {
    check(
        r#"
        c = child order x1
        await c
        on cancel
        cancel c
        m = send x2 event undo
        await m
        throw "cancelled"
        ---
        100 cancel "enough"
        "#,
        expect![[r#"
            turn @+0
              #2 child order x1 none
              wait for c
                2 ChildScheduled order @+0
                starts child x1 for #2
                waits (0 open)
            turn @+100
              cancelled: "enough" @+100
              #4 cancel #2
              #5 send x2 event undo none
              wait for m
                3 CancelRequested "enough" @+100
                4 OperationCancelled #2 @+100
                5 EventSent undo @+100
                consumes 1
                sends event undo to x2 for #5
                cancels the child of #2
                waits (0 open)
            turn @+100
              #5 gives none @+100
              throw "cancelled"
                6 OperationConfirmed #5 @+100
                7 ExecutionFailed "cancelled" @+100
                ends Failed
        "#]],
    );
}

const PARENT: &str = r#"
    c = child order x1 12
    d = start audit y1 1
    m = send y1 event go 5
    await d
    await c
    return it
    ---
    100 child c "receipt"
"#;

#[test]
fn a_child_of_another_id() {
    check_changed(
        PARENT,
        "c = child order x2 12\nd = start audit y1 1\nm = send y1 event go 5\nawait d\nawait c\nreturn it\n",
        expect![[r#"
            after turns 1 to 3: the code no longer fits its history, at event 2:
              recorded:  child 'x1' (order) is scheduled
              attempted: child 'x2' (order) is scheduled
              id recorded:  x1
              id attempted: x2
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn a_start_with_another_input() {
    check_changed(
        PARENT,
        "c = child order x1 12\nd = start audit y1 2\nm = send y1 event go 5\nawait d\nawait c\nreturn it\n",
        expect![[r#"
            after turns 1 to 3: the code no longer fits its history, at event 3:
              recorded:  instance 'y1' (audit) is started
              attempted: instance 'y1' (audit) is started
              input recorded:  1
              input attempted: 2
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn a_message_to_another_mailbox() {
    check_changed(
        PARENT,
        "c = child order x1 12\nd = start audit y1 1\nm = send y1 queue go 5\nawait d\nawait c\nreturn it\n",
        expect![[r#"
            after turns 1 to 3: the code no longer fits its history, at event 4:
              recorded:  event 'go' is sent to instance 'y1'
              attempted: a message of queue 'go' is sent to instance 'y1'
              mailbox recorded:  event 'go'
              mailbox attempted: a message of queue 'go'
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn a_wait_that_is_left_out() {
    check_changed(
        PARENT,
        "c = child order x1 12\nd = start audit y1 1\nm = send y1 event go 5\nawait m\nawait c\nreturn it\n",
        expect![[r#"
            after turn 1: fits
            after turns 2 to 3: the code no longer fits its history, at event 5:
              recorded:  the message of event 3 is confirmed
              attempted: the code waits for the message of event 4 or a child
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}

#[test]
fn an_activity_in_place_of_a_child() {
    check_changed(
        PARENT,
        "c = activity order 12\nd = start audit y1 1\nm = send y1 event go 5\nawait d\nawait c\nreturn it\n",
        expect![[r#"
            after turns 1 to 3: the code no longer fits its history, at event 2:
              recorded:  child 'x1' (order) is scheduled
              attempted: activity 'order' is scheduled
              Was the orchestration changed while instances were running?
              Run the old code again, or register the change under a new version.
        "#]],
    );
}
