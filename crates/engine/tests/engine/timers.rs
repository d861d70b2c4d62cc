//! Durable timers.

use expect_test::expect;

use crate::support::check;

#[test]
fn a_timer_fires_when_it_is_due() {
    check(
        r"
        now
        t = timer 1s
        await t
        now
        t = timer 1s
        await t
        now
        ",
        expect![[r#"
            turn @+0
              now @+0
              #2 timer of 1000 ms
              wait for t
                2 TimerCreated for @+1000 @+0
                waits (0 open, timer @+1000)
            turn @+1000
              #2 gives none @+1000
              now @+1000
              #4 timer of 1000 ms
              wait for t
                3 TimerFired #2 @+1000
                4 TimerCreated for @+2000 @+1000
                waits (0 open, timer @+2000)
            turn @+2000
              #4 gives none @+2000
              now @+2000
              return none
                5 TimerFired #4 @+2000
                6 ExecutionCompleted @+2000
                ends Completed
        "#]],
    );
}

#[test]
fn earlier_time_does_not_fire_a_timer() {
    check(
        r"
        t = timer 1s
        await t
        now
        ---
        500 look
        999 look
        ",
        expect![[r#"
            turn @+0
              #2 timer of 1000 ms
              wait for t
                2 TimerCreated for @+1000 @+0
                waits (0 open, timer @+1000)
            turn @+1000
              #2 gives none @+1000
              now @+1000
              return none
                3 TimerFired #2 @+1000
                4 ExecutionCompleted @+1000
                ends Completed
        "#]],
    );
}

/// The due time is fixed when the timer is created: an earlier wait does not shift it.
#[test]
fn timers_run_side_by_side() {
    check(
        r#"
        long = timer 5s
        short = timer 1s
        a = activity charge
        await a
        now
        await short
        now
        await long
        now
        ---
        3000 complete a "paid"
        "#,
        expect![[r#"
            turn @+0
              #2 timer of 5000 ms
              #3 timer of 1000 ms
              #4 activity charge none
              wait for a
                2 TimerCreated for @+5000 @+0
                3 TimerCreated for @+1000 @+0
                4 ActivityScheduled charge @+0
                starts #4 attempt 1
                waits (1 open)
            turn @+3000
              #4 gives "paid" @+3000
              now @+3000
              wait for short
              #3 gives none @+3000
              now @+3000
              wait for long
                5 ActivityCompleted #4 "paid" @+3000
                6 TimerFired #3 @+3000
                waits (0 open, timer @+5000)
            turn @+5000
              #2 gives none @+5000
              now @+5000
              return none
                7 TimerFired #2 @+5000
                8 ExecutionCompleted @+5000
                ends Completed
        "#]],
    );
}

#[test]
fn timers_of_one_moment_fire_in_order_of_creation() {
    check(
        r"
        a = timer 1s
        b = timer at 1s
        await b | a
        now
        await b
        now
        ",
        expect![[r#"
            turn @+0
              #2 timer of 1000 ms
              #3 timer at +1000
              wait for b or a
                2 TimerCreated for @+1000 @+0
                3 TimerCreated for @+1000 @+0
                waits (0 open, timer @+1000)
            turn @+1000
              #2 gives none @+1000
              now @+1000
              wait for b
              #3 gives none @+1000
              now @+1000
              return none
                4 TimerFired #2 @+1000
                5 TimerFired #3 @+1000
                6 ExecutionCompleted @+1000
                ends Completed
        "#]],
    );
}

/// The first of all awaited timers wakes the code.
#[test]
fn a_race_of_timers() {
    check(
        r"
        long = timer 5s
        short = timer 1s
        await long | short
        now
        await short | long
        await long
        now
        ",
        expect![[r#"
            turn @+0
              #2 timer of 5000 ms
              #3 timer of 1000 ms
              wait for long or short
                2 TimerCreated for @+5000 @+0
                3 TimerCreated for @+1000 @+0
                waits (0 open, timer @+1000)
            turn @+1000
              #3 gives none @+1000
              now @+1000
              wait for long
                4 TimerFired #3 @+1000
                waits (0 open, timer @+5000)
            turn @+5000
              #2 gives none @+5000
              now @+5000
              return none
                5 TimerFired #2 @+5000
                6 ExecutionCompleted @+5000
                ends Completed
        "#]],
    );
}

#[test]
fn a_time_that_has_passed() {
    check(
        r"
        a = timer 0
        await a
        b = timer at 0
        await b
        now
        ",
        expect![[r#"
            turn @+0
              #2 timer of 0 ms
              wait for a
              #2 gives none @+0
              #4 timer at +0
              wait for b
              #4 gives none @+0
              now @+0
              return none
                2 TimerCreated for @+0 @+0
                3 TimerFired #2 @+0
                4 TimerCreated for @+0 @+0
                5 TimerFired #4 @+0
                6 ExecutionCompleted @+0
                ends Completed
        "#]],
    );
}

/// No fiber waits for the timer: it wakes no fiber, and it has fired when a fiber awaits it.
#[test]
fn unawaited_timer_wakes_no_fiber() {
    check(
        r#"
        t = timer 1s
        await event go
        now
        await t
        now
        ---
        5000 event go
        "#,
        expect![[r#"
            turn @+0
              #2 timer of 1000 ms
              wait for event go
                2 TimerCreated for @+1000 @+0
                waits (0 open)
            turn @+5000
              event go gives none @+5000
              now @+5000
              wait for t
              #2 gives none @+5000
              now @+5000
              return none
                3 EventReceived go @+5000
                4 TimerFired #2 @+5000
                5 ExecutionCompleted @+5000
                consumes 1
                ends Completed
        "#]],
    );
}

#[test]
fn an_unawaited_timer_is_forgotten_at_the_end() {
    check(
        r#"
        t = timer 1h
        await event go
        return it
        ---
        100 event go "gone"
        "#,
        expect![[r#"
            turn @+0
              #2 timer of 3600000 ms
              wait for event go
                2 TimerCreated for @+3600000 @+0
                waits (0 open)
            turn @+100
              event go gives "gone" @+100
              return "gone"
                3 EventReceived go "gone" @+100
                4 ExecutionCompleted "gone" @+100
                consumes 1
                ends Completed
        "#]],
    );
}

#[test]
fn a_timer_that_lost_a_race_and_one_that_was_given_up() {
    check(
        r#"
        t = timer 1s
        await event go | t
        u = timer 1s
        cancel u
        cancel t
        v = timer 3s
        await v
        now
        ---
        500 event go
        "#,
        expect![[r#"
            turn @+0
              #2 timer of 1000 ms
              wait for event go or t
                2 TimerCreated for @+1000 @+0
                waits (0 open, timer @+1000)
            turn @+500
              event go gives none @+500
              #4 timer of 1000 ms
              #4 cancel #4
              #2 cancel #2
              #5 timer of 3000 ms
              wait for v
                3 EventReceived go @+500
                4 TimerCreated for @+1500 @+500
                5 TimerCreated for @+3500 @+500
                consumes 1
                waits (0 open, timer @+3500)
            turn @+3500
              #5 gives none @+3500
              now @+3500
              return none
                6 TimerFired #5 @+3500
                7 ExecutionCompleted @+3500
                ends Completed
        "#]],
    );
}

#[test]
fn a_race_that_the_timer_wins() {
    check(
        r#"
        t = timer 1s
        await event go | t
        if t
          return "too late"
        end
        return it
        ---
        2000 event go "in vain"
        "#,
        expect![[r#"
            turn @+0
              #2 timer of 1000 ms
              wait for event go or t
                2 TimerCreated for @+1000 @+0
                waits (0 open, timer @+1000)
            turn @+1000
              #2 gives none @+1000
              return "too late"
                3 TimerFired #2 @+1000
                4 ExecutionCompleted "too late" @+1000
                ends Completed
        "#]],
    );
}

/// The clock of the worker was set back: time stands still inside the execution until the clock has caught up.
#[test]
fn a_clock_that_goes_backwards() {
    check(
        r#"
        a = activity one
        b = activity two
        await a
        now
        t = timer 1s
        await b
        now
        await t
        now
        ---
        5000 complete a "a"
        200 complete b "b"
        300 look
        "#,
        expect![[r#"
            turn @+0
              #2 activity one none
              #3 activity two none
              wait for a
                2 ActivityScheduled one @+0
                3 ActivityScheduled two @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+5000
              #2 gives "a" @+5000
              now @+5000
              #5 timer of 1000 ms
              wait for b
                4 ActivityCompleted #2 "a" @+5000
                5 TimerCreated for @+6000 @+5000
                waits (1 open)
            turn @+200
              #3 gives "b" @+5000
              now @+5000
              wait for t
                6 ActivityCompleted #3 "b" @+5000
                waits (0 open, timer @+6000)
            turn @+6000
              #5 gives none @+6000
              now @+6000
              return none
                7 TimerFired #5 @+6000
                8 ExecutionCompleted @+6000
                ends Completed
        "#]],
    );
}

/// The engine had reached a later time than the clock shows now: the timer is due by the execution's own time.
#[test]
fn a_clock_that_is_behind_the_execution() {
    check(
        r#"
        t = timer 3s
        a = activity one
        await a
        await t
        now
        ---
        5000 complete a "a"
        "#,
        expect![[r#"
            turn @+0
              #2 timer of 3000 ms
              #3 activity one none
              wait for a
                2 TimerCreated for @+3000 @+0
                3 ActivityScheduled one @+0
                starts #3 attempt 1
                waits (1 open)
            turn @+5000
              #3 gives "a" @+5000
              wait for t
              #2 gives none @+5000
              now @+5000
              return none
                4 ActivityCompleted #3 "a" @+5000
                5 TimerFired #2 @+5000
                6 ExecutionCompleted @+5000
                ends Completed
        "#]],
    );
}
