//! Failed attempts, and the time of the next one.

use expect_test::expect;

use crate::support::{check, outcomes_of_all_orders};

#[test]
fn attempts_fail_until_one_succeeds() {
    check(
        r#"
        a = activity charge ; attempts=4 initial=1s backoff=3 max=5s
        await a
        return it
        ---
        100 fail a Error
        1100 fail a Error
        4100 fail a Error
        9100 complete a "paid"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
                3 ActivityAttemptFailed #2 "Error" attempt 1, again @+1100 @+100
                starts #2 attempt 2 not before @+1100
                waits (1 open)
            turn @+1100
                4 ActivityAttemptFailed #2 "Error" attempt 2, again @+4100 @+1100
                starts #2 attempt 3 not before @+4100
                waits (1 open)
            turn @+4100
                5 ActivityAttemptFailed #2 "Error" attempt 3, again @+9100 @+4100
                starts #2 attempt 4 not before @+9100
                waits (1 open)
            turn @+9100
              #2 gives "paid" @+9100
              return "paid"
                6 ActivityCompleted #2 "paid" @+9100
                7 ExecutionCompleted "paid" @+9100
                ends Completed
        "#]],
    );
}

#[test]
fn linear_delays_grow_by_the_first_one() {
    check(
        r#"
        a = activity charge ; attempts=4 initial=1s backoff=linear
        await a
        return it
        ---
        100 fail a Error
        1100 fail a Error
        3100 complete a "paid"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
                3 ActivityAttemptFailed #2 "Error" attempt 1, again @+1100 @+100
                starts #2 attempt 2 not before @+1100
                waits (1 open)
            turn @+1100
                4 ActivityAttemptFailed #2 "Error" attempt 2, again @+3100 @+1100
                starts #2 attempt 3 not before @+3100
                waits (1 open)
            turn @+3100
              #2 gives "paid" @+3100
              return "paid"
                5 ActivityCompleted #2 "paid" @+3100
                6 ExecutionCompleted "paid" @+3100
                ends Completed
        "#]],
    );
}

#[test]
fn the_last_attempt_fails() {
    check(
        r#"
        a = activity charge ; attempts=2
        await a
        if failed
          throw it
        end
        return it
        ---
        100 fail a First
        300 fail a Second
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
                3 ActivityAttemptFailed #2 "First" attempt 1, again @+300 @+100
                starts #2 attempt 2 not before @+300
                waits (1 open)
            turn @+300
              #2 fails for good: "Second" (attempt 2) @+300
              throw "Second"
                4 ActivityFailed #2 "Second" attempt 2 @+300
                5 ExecutionFailed "Second" @+300
                ends Failed
        "#]],
    );
}

/// The name of the error and each of its codes are compared with both lists.
#[test]
fn errors_are_retried_by_name_or_code() {
    check(
        r#"
        a = activity charge ; attempts=9 initial=1s only=ECONNRESET only=Busy never=ENOENT
        await a
        return it
        ---
        100 fail a TypeError code=ECONNRESET
        1100 fail a Busy
        3100 fail a Busy code=EIO code=ENOENT
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
                3 ActivityAttemptFailed #2 "TypeError" attempt 1, again @+1100 @+100
                starts #2 attempt 2 not before @+1100
                waits (1 open)
            turn @+1100
                4 ActivityAttemptFailed #2 "Busy" attempt 2, again @+3100 @+1100
                starts #2 attempt 3 not before @+3100
                waits (1 open)
            turn @+3100
              #2 fails for good: "Busy" (attempt 3) @+3100
              return "Busy"
                5 ActivityFailed #2 "Busy" attempt 3 @+3100
                6 ExecutionCompleted "Busy" @+3100
                ends Completed
        "#]],
    );
    check(
        r#"
        a = activity charge ; attempts=9 only=ECONNRESET
        await a
        return it
        ---
        100 fail a TypeError code=ENOENT
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              #2 fails for good: "TypeError" (attempt 1) @+100
              return "TypeError"
                3 ActivityFailed #2 "TypeError" attempt 1 @+100
                4 ExecutionCompleted "TypeError" @+100
                ends Completed
        "#]],
    );
}

#[test]
fn errors_that_are_not_repeated() {
    check(
        r#"
        a = activity charge ; attempts=9 never=CardDeclined
        await a
        b = activity charge ; attempts=9
        await b
        c = activity charge ; attempts=1
        await c
        return it
        ---
        100 fail a CardDeclined
        200 fail b Error fatal
        300 fail c Error
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              #2 fails for good: "CardDeclined" (attempt 1) @+100
              #4 activity charge none
              wait for b
                3 ActivityFailed #2 "CardDeclined" attempt 1 @+100
                4 ActivityScheduled charge with options @+100
                starts #4 attempt 1
                waits (1 open)
            turn @+200
              #4 fails for good: "Error" (attempt 1) @+200
              #6 activity charge none
              wait for c
                5 ActivityFailed #4 "Error" attempt 1 @+200
                6 ActivityScheduled charge with options @+200
                starts #6 attempt 1
                waits (1 open)
            turn @+300
              #6 fails for good: "Error" (attempt 1) @+300
              return "Error"
                7 ActivityFailed #6 "Error" attempt 1 @+300
                8 ExecutionCompleted "Error" @+300
                ends Completed
        "#]],
    );
}

/// `RetryAfterError`: the error sets the time of the next attempt. It does not add attempts.
#[test]
fn the_error_says_when() {
    check(
        r#"
        a = activity charge ; attempts=3 initial=1s
        await a
        return it
        ---
        100 fail a Busy after=7s
        7100 fail a Busy after=0
        7200 fail a Busy after=7s
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
                3 ActivityAttemptFailed #2 "Busy" attempt 1, again @+7100 @+100
                starts #2 attempt 2 not before @+7100
                waits (1 open)
            turn @+7100
                4 ActivityAttemptFailed #2 "Busy" attempt 2, again @+7100 @+7100
                starts #2 attempt 3 not before @+7100
                waits (1 open)
            turn @+7200
              #2 fails for good: "Busy" (attempt 3) @+7200
              return "Busy"
                5 ActivityFailed #2 "Busy" attempt 3 @+7200
                6 ExecutionCompleted "Busy" @+7200
                ends Completed
        "#]],
    );
}

/// The jitter is the same in every process: it depends on the execution's seed, the schedule and the attempt alone.
#[test]
fn jitter_repeats() {
    check(
        r#"
        a = activity charge ; attempts=4 initial=1s backoff=1 jitter=0.5
        b = activity charge ; attempts=4 initial=1s backoff=1 jitter=0.5
        await a
        return it
        ---
        100 fail a Error
        100 fail b Error
        2000 fail a Error
        4000 complete a "paid"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              #3 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                3 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
                4 ActivityAttemptFailed #2 "Error" attempt 1, again @+1566 @+100
                5 ActivityAttemptFailed #3 "Error" attempt 1, again @+1100 @+100
                starts #2 attempt 2 not before @+1566
                starts #3 attempt 2 not before @+1100
                waits (2 open)
            turn @+2000
                6 ActivityAttemptFailed #2 "Error" attempt 2, again @+3448 @+2000
                starts #2 attempt 3 not before @+3448
                waits (2 open)
            turn @+4000
              #2 gives "paid" @+4000
              return "paid"
                7 ActivityCompleted #2 "paid" @+4000
                8 ExecutionCompleted "paid" @+4000
                aborts #3
                ends Completed
        "#]],
    );
}

/// The next attempt was decided but not started when the activity is given up.
#[test]
fn given_up_between_two_attempts() {
    check(
        r#"
        a = activity charge ; attempts=5 initial=10s
        await a | event stop
        cancel a
        await event done
        return it
        ---
        100 fail a Error
        200 event stop
        300 complete a "too late"
        400 event done "done"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a or event stop
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
                3 ActivityAttemptFailed #2 "Error" attempt 1, again @+10100 @+100
                starts #2 attempt 2 not before @+10100
                waits (1 open)
            turn @+200
              event stop gives none @+200
              #5 cancel #2
              wait for event done
                4 EventReceived stop @+200
                5 OperationCancelled #2 @+200
                consumes 1
                aborts #2
                waits (0 open)
            turn @+300
                waits (0 open)
            turn @+400
              event done gives "done" @+400
              return "done"
                6 EventReceived done "done" @+400
                7 ExecutionCompleted "done" @+400
                consumes 2
                ends Completed
        "#]],
    );
}

/// All in one turn: the failure is recorded, and then the activity is given up before its next attempt was announced.
#[test]
fn failed_and_given_up_in_one_turn() {
    check(
        r#"
        a = activity charge ; attempts=5 initial=10s
        await event stop
        cancel a
        await event done
        return it
        ---
        100 fail a Error
        100 event stop
        200 event done "done"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for event stop
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              event stop gives none @+100
              #5 cancel #2
              wait for event done
                3 ActivityAttemptFailed #2 "Error" attempt 1, again @+10100 @+100
                4 EventReceived stop @+100
                5 OperationCancelled #2 @+100
                consumes 1
                aborts #2
                waits (0 open)
            turn @+200
              event done gives "done" @+200
              return "done"
                6 EventReceived done "done" @+200
                7 ExecutionCompleted "done" @+200
                consumes 2
                ends Completed
        "#]],
    );
}

/// A failed attempt is no delivery: it stands between two commands of the code, and the code does not see it.
#[test]
fn failed_attempts_between_the_commands() {
    check(
        r#"
        a = activity one ; attempts=9 initial=1s
        b = activity two ; attempts=9 initial=1s
        await b
        c = activity three it
        await c
        now
        await a
        return it
        ---
        100 fail a Error
        200 fail b Error
        200 fail a Error
        200 repeat
        300 complete b "b"
        400 fail a Error
        400 complete c "c"
        400 fail a Error
        500 complete a "a"
        "#,
        expect![[r#"
            turn @+0
              #2 activity one none
              #3 activity two none
              wait for b
                2 ActivityScheduled one with options @+0
                3 ActivityScheduled two with options @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
                4 ActivityAttemptFailed #2 "Error" attempt 1, again @+1100 @+100
                starts #2 attempt 2 not before @+1100
                waits (2 open)
            turn @+200
                5 ActivityAttemptFailed #3 "Error" attempt 1, again @+1200 @+200
                6 ActivityAttemptFailed #2 "Error" attempt 2, again @+2200 @+200
                7 ActivityAttemptFailed #2 "Error" attempt 3, again @+4200 @+200
                starts #3 attempt 2 not before @+1200
                starts #2 attempt 4 not before @+4200
                waits (2 open)
            turn @+300
              #3 gives "b" @+300
              #9 activity three "b"
              wait for c
                8 ActivityCompleted #3 "b" @+300
                9 ActivityScheduled three "b" @+300
                starts #9 attempt 1
                waits (2 open)
            turn @+400
              #9 gives "c" @+400
              now @+400
              wait for a
                10 ActivityAttemptFailed #2 "Error" attempt 4, again @+8400 @+400
                11 ActivityCompleted #9 "c" @+400
                12 ActivityAttemptFailed #2 "Error" attempt 5, again @+16400 @+400
                starts #2 attempt 6 not before @+16400
                waits (1 open)
            turn @+500
              #2 gives "a" @+500
              return "a"
                13 ActivityCompleted #2 "a" @+500
                14 ExecutionCompleted "a" @+500
                ends Completed
        "#]],
    );
}

#[test]
fn a_failed_attempt_is_the_last_thing_recorded() {
    check(
        r"
        a = activity charge ; attempts=2 initial=1h
        await a
        ---
        100 fail a Error
        ",
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
                3 ActivityAttemptFailed #2 "Error" attempt 1, again @+60100 @+100
                starts #2 attempt 2 not before @+60100
                waits (1 open)
        "#]],
    );
}

/// `totalTimeout` counts from when the activity was scheduled, in a replay as well. An attempt that can begin in time
/// is made; the error is that of the last attempt.
#[test]
fn no_attempt_begins_after_the_total_timeout() {
    check(
        r"
        await event go
        a = activity charge ; attempts=9 initial=1s backoff=1 total=2500ms
        await a
        return it
        ---
        5000 event go
        5600 fail a First
        6600 fail a Second
        ",
        expect![[r#"
            turn @+0
              wait for event go
                waits (0 open)
            turn @+5000
              event go gives none @+5000
              #3 activity charge none
              wait for a
                2 EventReceived go @+5000
                3 ActivityScheduled charge with options @+5000
                consumes 1
                starts #3 attempt 1
                waits (1 open)
            turn @+5600
                4 ActivityAttemptFailed #3 "First" attempt 1, again @+6600 @+5600
                starts #3 attempt 2 not before @+6600
                waits (1 open)
            turn @+6600
              #3 fails for good: "Second" (attempt 2) @+6600
              return "Second"
                5 ActivityFailed #3 "Second" attempt 2 @+6600
                6 ExecutionCompleted "Second" @+6600
                ends Completed
        "#]],
    );
}

/// Neither the policy nor the error itself can make an attempt begin at that time or later.
#[test]
fn an_error_cannot_say_when_after_the_total_timeout() {
    check(
        r"
        a = activity charge ; attempts=9 initial=1ms total=1s
        await a
        return it
        ---
        300 fail a Busy after=699
        999 fail a Busy after=1
        ",
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge with options @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+300
                3 ActivityAttemptFailed #2 "Busy" attempt 1, again @+999 @+300
                starts #2 attempt 2 not before @+999
                waits (1 open)
            turn @+999
              #2 fails for good: "Busy" (attempt 2) @+999
              return "Busy"
                4 ActivityFailed #2 "Busy" attempt 2 @+999
                5 ExecutionCompleted "Busy" @+999
                ends Completed
        "#]],
    );
}

#[test]
fn every_order_of_failures_and_results() {
    let outcomes = outcomes_of_all_orders(
        r"
        a = activity one ; attempts=3
        b = activity two ; attempts=2
        await a
        await b
        return it
        ",
        &[
            "fail a Error",
            "fail a Error",
            "complete a \"a\"",
            "fail b Error",
            "complete b \"b\"",
        ],
    );
    assert_eq!(outcomes, [r#"ExecutionCompleted "b""#]);
}
