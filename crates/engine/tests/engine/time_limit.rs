//! The time for which an instance may run.

use expect_test::expect;
use perdure_engine::{
    Budget, Delivery, Engine, Event, EventId, EventRecord, ExecutionId, ExecutionStarted, Outcome, Start, TimeLimit,
};

use crate::support::{START_MS, check, started};

/// An instance whose time is over is cancelled, and its cleanup has the time of its own grace period.
#[test]
fn instance_is_cancelled_when_its_time_is_over() {
    check(
        r#"
        limit 10s grace 2s
        a = activity work
        await a
        await event never
        on cancel
        t = grace 5m
        u = activity undo
        await u | t
        return it
        ---
        3000 complete a "done"
        "#,
        expect![[r#"
            turn @+0
              #2 activity work none
              wait for a
                2 ActivityScheduled work @+0
                starts #2 attempt 1
                waits (1 open, timer @+10000)
            turn @+3000
              #2 gives "done" @+3000
              wait for event never
                3 ActivityCompleted #2 "done" @+3000
                waits (0 open, timer @+10000)
            turn @+10000
              cancelled: timed out after 10000 ms @+10000
              #6 grace timer
              #7 activity undo none
              wait for u or t
                4 CancelRequested @+10000
                5 PatchApplied perdure.cancelGrace @+10000
                6 TimerCreated for @+12000 @+10000
                7 ActivityScheduled undo @+10000
                starts #7 attempt 1
                waits (1 open, timer @+12000)
            turn @+12000
              #6 gives none @+12000
              return none
                8 TimerFired #6 @+12000
                9 ExecutionCompleted @+12000
                aborts #7
                ends Completed
        "#]],
    );
}

/// A request that came before is the only one: the cleanup has no limit then.
#[test]
fn cancelled_instance_has_no_limit() {
    check(
        r#"
        limit 1s
        await event never
        on cancel
        u = activity undo
        await u
        return it
        ---
        500 cancel "stop"
        4000 complete u "undone"
        "#,
        expect![[r#"
            turn @+0
              wait for event never
                waits (0 open, timer @+1000)
            turn @+500
              cancelled: "stop" @+500
              #3 activity undo none
              wait for u
                2 CancelRequested "stop" @+500
                3 ActivityScheduled undo @+500
                consumes 1
                starts #3 attempt 1
                waits (1 open)
            turn @+4000
              #3 gives "undone" @+4000
              return "undone"
                4 ActivityCompleted #3 "undone" @+4000
                5 ExecutionCompleted "undone" @+4000
                ends Completed
        "#]],
    );
}

/// An instance that ends in time is not cancelled.
#[test]
fn instance_that_ends_in_time_has_ended() {
    check(
        r#"
        limit 10s
        t = timer 3s
        await t
        return "in time"
        "#,
        expect![[r#"
            turn @+0
              #2 timer of 3000 ms
              wait for t
                2 TimerCreated for @+3000 @+0
                waits (0 open, timer @+3000)
            turn @+3000
              #2 gives none @+3000
              return "in time"
                3 TimerFired #2 @+3000
                4 ExecutionCompleted "in time" @+3000
                ends Completed
        "#]],
    );
}

/// Returns the engine of a fresh execution.
fn engine(started: ExecutionStarted) -> Engine {
    let start = Start {
        execution: ExecutionId::FIRST,
        history: vec![EventRecord::new(EventId::FIRST, START_MS, started)],
        complete: true,
        fresh: true,
        budget: Budget::default(),
    };
    Engine::new(start).expect("a sound history")
}

/// The time goes on over executions, and also comes to code that never waits.
#[test]
fn executions_share_one_limit() {
    let Ok(Event::Started(mut started)) = started().into_event() else {
        panic!("it is the first event");
    };
    started.time_limit = Some(TimeLimit {
        timeout_ms: 10_000,
        grace_ms: None,
        deadline_ms: None,
    });
    let mut first = engine(started);
    // The first turn comes 5 s after the start.
    first.begin_turn(START_MS + 5_000);
    assert_eq!(first.interrupt(START_MS + 14_999), None);
    let continued = Outcome::ContinuedAsNew {
        input: None,
        version: None,
    };
    first.finish(continued).expect("it is live");
    let next = first.next_execution().expect("it continued").clone();
    assert_eq!(
        next.time_limit.as_ref().and_then(|limit| limit.deadline_ms),
        Some(START_MS + 15_000)
    );
    let mut second = engine(next);
    second.begin_turn(START_MS + 12_000);
    assert_eq!(second.interrupt(START_MS + 14_999), None);
    let over = Delivery::Cancel {
        reason: None,
        timeout_ms: Some(10_000),
    };
    let over = (over, START_MS + 15_000);
    assert_eq!(second.interrupt(START_MS + 15_000), Some(over));
    assert_eq!(second.interrupt(START_MS + 20_000), None);
}
