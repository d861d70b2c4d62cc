//! Requests to cancel an instance.

use expect_test::expect;

use crate::support::{check, outcomes_of_all_orders};

#[test]
fn code_that_does_not_catch_it_ends_as_cancelled() {
    check(
        r#"
        a = activity charge
        t = timer 1h
        await a | t
        return it
        ---
        100 cancel "changed my mind"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              #3 timer of 3600000 ms
              wait for a or t
                2 ActivityScheduled charge @+0
                3 TimerCreated for @+3600000 @+0
                starts #2 attempt 1
                waits (1 open, timer @+3600000)
            turn @+100
              cancelled: "changed my mind" @+100
                4 CancelRequested "changed my mind" @+100
                5 ExecutionCancelled "changed my mind" @+100
                consumes 1
                aborts #2
                ends Cancelled
        "#]],
    );
}

#[test]
fn code_that_cleans_up() {
    check(
        r#"
        a = activity charge
        await a
        b = activity ship
        await b
        return it
        on cancel
        cancel b
        c = activity refund it
        await c
        throw "cancelled"
        ---
        100 complete a "paid"
        200 cancel "stop"
        300 complete c "refunded"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              #2 gives "paid" @+100
              #4 activity ship none
              wait for b
                3 ActivityCompleted #2 "paid" @+100
                4 ActivityScheduled ship @+100
                starts #4 attempt 1
                waits (1 open)
            turn @+200
              cancelled: "stop" @+200
              #6 cancel #4
              #7 activity refund "stop"
              wait for c
                5 CancelRequested "stop" @+200
                6 OperationCancelled #4 @+200
                7 ActivityScheduled refund "stop" @+200
                consumes 1
                aborts #4
                starts #7 attempt 1
                waits (1 open)
            turn @+300
              #7 gives "refunded" @+300
              throw "cancelled"
                8 ActivityCompleted #7 "refunded" @+300
                9 ExecutionFailed "cancelled" @+300
                ends Failed
        "#]],
    );
}

#[test]
fn code_that_returns_all_the_same() {
    check(
        r#"
        await event never
        on cancel
        return "done anyway"
        ---
        100 cancel
        "#,
        expect![[r#"
            turn @+0
              wait for event never
                waits (0 open)
            turn @+100
              cancelled: none @+100
              return "done anyway"
                2 CancelRequested @+100
                3 ExecutionCompleted "done anyway" @+100
                consumes 1
                ends Completed
        "#]],
    );
}

/// A request to cancel outranks completions that came before it but were not delivered yet.
#[test]
fn cancellation_goes_before_other_deliveries() {
    check(
        r#"
        a = activity charge
        await a | event x
        return it
        on cancel
        await event x
        return it
        ---
        100 event y "unawaited"
        100 complete a "paid"
        100 event x "message"
        100 cancel "stop"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a or event x
                2 ActivityScheduled charge @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              cancelled: "stop" @+100
              wait for event x
              #2 gives "paid" @+100
              event x gives "message" @+100
              return "message"
                3 CancelRequested "stop" @+100
                4 ActivityCompleted #2 "paid" @+100
                5 EventReceived x "message" @+100
                6 ExecutionCompleted "message" @+100
                consumes 3, 2
                ends Completed
            unread messages: 1
        "#]],
    );
}

#[test]
fn every_request_is_delivered() {
    check(
        r#"
        await event never
        on cancel
        a = activity refund
        await a
        return it
        ---
        100 cancel "first"
        200 cancel "second"
        "#,
        expect![[r#"
            turn @+0
              wait for event never
                waits (0 open)
            turn @+100
              cancelled: "first" @+100
              #3 activity refund none
              wait for a
                2 CancelRequested "first" @+100
                3 ActivityScheduled refund @+100
                consumes 1
                starts #3 attempt 1
                waits (1 open)
            turn @+200
              cancelled: "second" @+200
                4 CancelRequested "second" @+200
                5 ExecutionCancelled "second" @+200
                consumes 2
                aborts #3
                ends Cancelled
        "#]],
    );
}

#[test]
fn two_requests_at_once_come_in_order() {
    check(
        r#"
        await event never
        on cancel
        await event never
        ---
        100 cancel "first"
        100 repeat
        100 cancel "second"
        "#,
        expect![[r#"
            turn @+0
              wait for event never
                waits (0 open)
            turn @+100
              cancelled: "first" @+100
              wait for event never
              cancelled: "second" @+100
                2 CancelRequested "first" @+100
                3 CancelRequested "second" @+100
                4 ExecutionCancelled "second" @+100
                consumes 1, 2
                ends Cancelled
        "#]],
    );
}

#[test]
fn every_order_of_cancel_and_the_rest() {
    let outcomes = outcomes_of_all_orders(
        r#"
        a = activity one
        await a
        await event x
        return "ended"
        on cancel
        await event x | a
        return "cleaned up"
        "#,
        &["cancel \"stop\"", "complete a \"a\"", "event x 1", "event x 2"],
    );
    assert_eq!(
        outcomes,
        [r#"ExecutionCompleted "cleaned up""#, r#"ExecutionCompleted "ended""#]
    );
}
