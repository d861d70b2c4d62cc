//! Activities that are scheduled, awaited, given up and left alone.

use expect_test::expect;

use crate::support::{check, outcomes_of_all_orders};

#[test]
fn one_after_the_other() {
    check(
        r#"
        a = activity charge {"total":12}
        await a
        b = activity ship it
        await b
        return it
        ---
        100 complete a "receipt"
        250 complete b "parcel"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge {"total":12}
              wait for a
                2 ActivityScheduled charge {"total":12} @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              #2 gives "receipt" @+100
              #4 activity ship "receipt"
              wait for b
                3 ActivityCompleted #2 "receipt" @+100
                4 ActivityScheduled ship "receipt" @+100
                starts #4 attempt 1
                waits (1 open)
            turn @+250
              #4 gives "parcel" @+250
              return "parcel"
                5 ActivityCompleted #4 "parcel" @+250
                6 ExecutionCompleted "parcel" @+250
                ends Completed
        "#]],
    );
}

#[test]
fn side_by_side_and_settled_in_the_other_order() {
    check(
        r#"
        a = activity charge 1
        b = activity charge 2
        await a
        await b
        return it
        ---
        100 complete b "two"
        200 complete a "one"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge 1
              #3 activity charge 2
              wait for a
                2 ActivityScheduled charge 1 @+0
                3 ActivityScheduled charge 2 @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
              #3 gives "two" @+100
                4 ActivityCompleted #3 "two" @+100
                waits (1 open)
            turn @+200
              #2 gives "one" @+200
              return "two"
                5 ActivityCompleted #2 "one" @+200
                6 ExecutionCompleted "two" @+200
                ends Completed
        "#]],
    );
}

#[test]
fn settled_at_once_they_come_one_by_one() {
    check(
        r#"
        a = activity charge 1
        b = activity charge 2
        await a
        c = activity audit it
        await b
        await c
        return it
        ---
        100 complete a "one"
        100 complete b "two"
        150 complete c "audited"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge 1
              #3 activity charge 2
              wait for a
                2 ActivityScheduled charge 1 @+0
                3 ActivityScheduled charge 2 @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
              #2 gives "one" @+100
              #5 activity audit "one"
              wait for b
              #3 gives "two" @+100
              wait for c
                4 ActivityCompleted #2 "one" @+100
                5 ActivityScheduled audit "one" @+100
                6 ActivityCompleted #3 "two" @+100
                starts #5 attempt 1
                waits (1 open)
            turn @+150
              #5 gives "audited" @+150
              return "audited"
                7 ActivityCompleted #5 "audited" @+150
                8 ExecutionCompleted "audited" @+150
                ends Completed
        "#]],
    );
}

/// No fiber waits for the activity yet: its result is recorded when it comes, and is there when the code awaits it.
#[test]
fn a_result_that_comes_before_it_is_awaited() {
    check(
        r#"
        a = activity charge 1
        b = activity charge 2
        await b
        status "b"
        await a
        return it
        ---
        100 complete a "one"
        200 complete b "two"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge 1
              #3 activity charge 2
              wait for b
                2 ActivityScheduled charge 1 @+0
                3 ActivityScheduled charge 2 @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
              #2 gives "one" @+100
                4 ActivityCompleted #2 "one" @+100
                waits (1 open)
            turn @+200
              #3 gives "two" @+200
              status "b"
              return "one"
                5 ActivityCompleted #3 "two" @+200
                6 ExecutionCompleted "one" @+200
                sets status "b"
                ends Completed
        "#]],
    );
}

#[test]
fn an_activity_that_is_never_awaited_is_aborted_at_the_end() {
    check(
        r#"
        a = activity audit
        b = activity charge
        await b
        return it
        ---
        100 complete b "paid"
        "#,
        expect![[r#"
            turn @+0
              #2 activity audit none
              #3 activity charge none
              wait for b
                2 ActivityScheduled audit @+0
                3 ActivityScheduled charge @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
              #3 gives "paid" @+100
              return "paid"
                4 ActivityCompleted #3 "paid" @+100
                5 ExecutionCompleted "paid" @+100
                aborts #2
                ends Completed
        "#]],
    );
}

/// The result comes for an operation that is closed (E5).
#[test]
fn completion_of_a_closed_activity_is_dropped() {
    check(
        r#"
        a = activity charge 1
        b = activity charge 2
        await a | b
        cancel b
        await event go
        return it
        ---
        100 complete a "one"
        150 complete a "one again"
        150 complete b "two"
        150 fail b Error
        160 complete #99 "of another execution"
        200 repeat the last
        300 event go "now"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge 1
              #3 activity charge 2
              wait for a or b
                2 ActivityScheduled charge 1 @+0
                3 ActivityScheduled charge 2 @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
              #2 gives "one" @+100
              #5 cancel #3
              wait for event go
                4 ActivityCompleted #2 "one" @+100
                5 OperationCancelled #3 @+100
                aborts #3
                waits (0 open)
            turn @+150
                waits (0 open)
            turn @+160
                waits (0 open)
            turn @+200
                waits (0 open)
            turn @+300
              event go gives "now" @+300
              return "now"
                6 EventReceived go "now" @+300
                7 ExecutionCompleted "now" @+300
                consumes 1
                ends Completed
        "#]],
    );
}

#[test]
fn the_same_result_twice_in_one_turn() {
    check(
        r#"
        a = activity charge
        await a
        await event go
        return it
        ---
        100 complete a "one"
        100 repeat
        100 event go "now"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              #2 gives "one" @+100
              wait for event go
              event go gives "now" @+100
              return "now"
                3 ActivityCompleted #2 "one" @+100
                4 EventReceived go "now" @+100
                5 ExecutionCompleted "now" @+100
                consumes 1
                ends Completed
        "#]],
    );
}

#[test]
fn given_up_in_the_turn_that_scheduled_it_it_never_starts() {
    check(
        r#"
        a = activity charge
        cancel a
        b = activity ship
        await b
        return it
        ---
        100 complete b "sent"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              #3 cancel #2
              #4 activity ship none
              wait for b
                2 ActivityScheduled charge @+0
                3 OperationCancelled #2 @+0
                4 ActivityScheduled ship @+0
                starts #4 attempt 1
                waits (1 open)
            turn @+100
              #4 gives "sent" @+100
              return "sent"
                5 ActivityCompleted #4 "sent" @+100
                6 ExecutionCompleted "sent" @+100
                ends Completed
        "#]],
    );
}

#[test]
fn given_up_while_it_runs_it_is_aborted() {
    check(
        r#"
        a = activity charge
        await a | event stop
        if event stop
          cancel a
        end
        await a | event done
        return it
        ---
        100 event stop
        200 event done "in time"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a or event stop
                2 ActivityScheduled charge @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              event stop gives none @+100
              #4 cancel #2
              return given up
                3 EventReceived stop @+100
                4 OperationCancelled #2 @+100
                5 ExecutionCompleted given up @+100
                consumes 1
                aborts #2
                ends Completed
        "#]],
    );
}

/// Story: after a replay, an engine took an open activity for one that was never started. A cancellation in its first
/// live turn therefore did not abort the attempt that ran on in the same process.
#[test]
fn given_up_in_the_first_live_turn_after_a_replay() {
    check(
        r#"
        a = activity long
        await event stop
        cancel a
        await event done
        return
        ---
        100 event stop
        200 event done
        "#,
        expect![[r#"
            turn @+0
              #2 activity long none
              wait for event stop
                2 ActivityScheduled long @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              event stop gives none @+100
              #4 cancel #2
              wait for event done
                3 EventReceived stop @+100
                4 OperationCancelled #2 @+100
                consumes 1
                aborts #2
                waits (0 open)
            turn @+200
              event done gives none @+200
              return none
                5 EventReceived done @+200
                6 ExecutionCompleted @+200
                consumes 2
                ends Completed
        "#]],
    );
}

#[test]
fn a_loop_of_activities() {
    check(
        r#"
        repeat 3
          a = activity step it
          await a
        end
        return it
        ---
        10 complete a 1
        20 complete a 2
        30 complete a 3
        "#,
        expect![[r#"
            turn @+0
              #2 activity step none
              wait for a
                2 ActivityScheduled step @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+10
              #2 gives 1 @+10
              #4 activity step 1
              wait for a
                3 ActivityCompleted #2 1 @+10
                4 ActivityScheduled step 1 @+10
                starts #4 attempt 1
                waits (1 open)
            turn @+20
              #4 gives 2 @+20
              #6 activity step 2
              wait for a
                5 ActivityCompleted #4 2 @+20
                6 ActivityScheduled step 2 @+20
                starts #6 attempt 1
                waits (1 open)
            turn @+30
              #6 gives 3 @+30
              return 3
                7 ActivityCompleted #6 3 @+30
                8 ExecutionCompleted 3 @+30
                ends Completed
        "#]],
    );
}

#[test]
fn every_order_of_three_results() {
    let outcomes = outcomes_of_all_orders(
        r#"
        a = activity one
        b = activity two
        c = activity three
        await a | b | c
        x = activity after it
        await b
        await c
        await a
        return it
        "#,
        &["complete a \"a\"", "complete b \"b\"", "complete c \"c\""],
    );
    assert_eq!(outcomes, [r#"ExecutionCompleted "a""#]);
}

#[test]
fn every_order_of_the_first_of_three() {
    let outcomes = outcomes_of_all_orders(
        r"
        a = activity one
        b = activity two
        t = timer 350ms
        await a | b | t | event x
        return it
        ",
        &["complete a \"a\"", "complete b \"b\"", "event x \"x\"", "event y \"y\""],
    );
    assert_eq!(
        outcomes,
        [
            r#"ExecutionCompleted "a""#,
            r#"ExecutionCompleted "b""#,
            r#"ExecutionCompleted "x""#
        ]
    );
}

/// Attempts that another worker runs: their ends come as messages, are consumed with the turn, and count like those of
/// any other attempt.
#[test]
fn attempts_that_run_elsewhere() {
    check(
        r#"
        a = activity render ; attempts=3 initial=1s
        b = activity ship
        await a
        return it
        ---
        100 elsewhere a 1 failed "oops"
        100 elsewhere a 1 "of an attempt that is over"
        200 elsewhere b 2 "of an attempt that never was"
        1500 elsewhere a 2 "done"
        1500 elsewhere a 2 "again"
        "#,
        expect![[r#"
            turn @+0
              #2 activity render none
              #3 activity ship none
              wait for a
                2 ActivityScheduled render with options @+0
                3 ActivityScheduled ship @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
                4 ActivityAttemptFailed #2 "oops" attempt 1, again @+1100 @+100
                consumes 1, 2
                starts #2 attempt 2 not before @+1100
                waits (2 open)
            turn @+200
                consumes 3
                waits (2 open)
            turn @+1500
              #2 gives "done" @+1500
              return "done"
                5 ActivityCompleted #2 "done" @+1500
                6 ExecutionCompleted "done" @+1500
                consumes 4
                aborts #3
                ends Completed
            unread messages: 5
        "#]],
    );
}
