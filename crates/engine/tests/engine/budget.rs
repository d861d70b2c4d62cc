//! The budget of a turn, after which other instances get their turns.

use expect_test::expect;
use perdure_engine::{Budget, Waiting};

use crate::support::script::Script;
use crate::support::world::{WHOLE, Way};
use crate::support::{START_MS, check_with, run_fresh};

const ONE: Budget = Budget {
    deliveries: 1,
    commands: u32::MAX,
    bytes: u64::MAX,
    replayed: u32::MAX,
};

#[test]
fn deliveries_are_cut() {
    check_with(
        Budget { deliveries: 2, ..ONE },
        r#"
        a = activity one
        b = activity two
        t = timer 100ms
        await a
        await queue q
        await b
        await t
        await queue q
        return it
        ---
        90 complete a "a"
        90 queue q 1
        90 queue q 2
        90 complete b "b"
        "#,
        expect![[r#"
            turn @+0
              #2 activity one none
              #3 activity two none
              #4 timer of 100 ms
              wait for a
                2 ActivityScheduled one @+0
                3 ActivityScheduled two @+0
                4 TimerCreated for @+100 @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+90
              #2 gives "a" @+90
              wait for queue q
              #3 gives "b" @+90
                5 ActivityCompleted #2 "a" @+90
                6 ActivityCompleted #3 "b" @+90
                has more to do
            turn @+90
              queue q gives 1 @+90
              wait for t
                7 QueueReceived q 1 @+90
                consumes 1
                waits (0 open, timer @+100)
            turn @+100
              #4 gives none @+100
              wait for queue q
              queue q gives 2 @+100
              return 2
                8 TimerFired #4 @+100
                9 QueueReceived q 2 @+100
                10 ExecutionCompleted 2 @+100
                consumes 2
                ends Completed
        "#]],
    );
}

/// Two commands in each of three rounds.
const THREE_ROUNDS: &str = r"
    repeat 3
      await queue q
      a = activity one it
      b = activity two it
    end
    await b
    ---
    100 queue q 1
    100 queue q 2
    100 queue q 3
    200 complete b
    ";

#[test]
fn commands_are_cut() {
    let budget = Budget {
        deliveries: u32::MAX,
        commands: 3,
        bytes: u64::MAX,
        replayed: u32::MAX,
    };
    check_with(
        budget,
        THREE_ROUNDS,
        expect![[r#"
            turn @+0
              wait for queue q
                waits (0 open)
            turn @+100
              queue q gives 1 @+100
              #3 activity one 1
              #4 activity two 1
              wait for queue q
              queue q gives 2 @+100
              #6 activity one 2
              #7 activity two 2
              wait for queue q
                2 QueueReceived q 1 @+100
                3 ActivityScheduled one 1 @+100
                4 ActivityScheduled two 1 @+100
                5 QueueReceived q 2 @+100
                6 ActivityScheduled one 2 @+100
                7 ActivityScheduled two 2 @+100
                consumes 1, 2
                starts #3 attempt 1
                starts #4 attempt 1
                starts #6 attempt 1
                starts #7 attempt 1
                has more to do
            turn @+100
              queue q gives 3 @+100
              #9 activity one 3
              #10 activity two 3
              wait for b
                8 QueueReceived q 3 @+100
                9 ActivityScheduled one 3 @+100
                10 ActivityScheduled two 3 @+100
                consumes 3
                starts #9 attempt 1
                starts #10 attempt 1
                waits (6 open)
            turn @+200
              #10 gives none @+200
              return none
                11 ActivityCompleted #10 @+200
                12 ExecutionCompleted @+200
                aborts #3
                aborts #4
                aborts #6
                aborts #7
                aborts #9
                ends Completed
        "#]],
    );
}

/// The budget is used up just when nothing is left to do: no empty turn follows.
#[test]
fn used_up_to_the_last() {
    check_with(
        ONE,
        r"
        await queue q
        await queue r
        ---
        100 queue q 1
        200 queue r 2
        ",
        expect![[r#"
            turn @+0
              wait for queue q
                waits (0 open)
            turn @+100
              queue q gives 1 @+100
              wait for queue r
                2 QueueReceived q 1 @+100
                consumes 1
                waits (0 open)
            turn @+200
              queue r gives 2 @+200
              return none
                3 QueueReceived r 2 @+200
                4 ExecutionCompleted @+200
                consumes 2
                ends Completed
        "#]],
    );
}

/// Failed attempts are no deliveries, but the deliveries that were cut off behind them are not lost.
#[test]
fn failures_between_the_cuts() {
    check_with(
        ONE,
        r#"
        a = activity one ; attempts=5 initial=1s
        b = activity two ; attempts=5 initial=1s
        await a
        await b
        return it
        ---
        100 fail b Error
        100 complete a "a"
        100 fail b Error
        100 complete b "b"
        "#,
        expect![[r#"
            turn @+0
              #2 activity one none
              #3 activity two none
              wait for a
                2 ActivityScheduled one with options @+0
                3 ActivityScheduled two with options @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
              #2 gives "a" @+100
              wait for b
                4 ActivityAttemptFailed #3 "Error" attempt 1, again @+1100 @+100
                5 ActivityCompleted #2 "a" @+100
                starts #3 attempt 2 not before @+1100
                has more to do
            turn @+100
              #3 gives "b" @+100
              return "b"
                6 ActivityAttemptFailed #3 "Error" attempt 2, again @+2100 @+100
                7 ActivityCompleted #3 "b" @+100
                8 ExecutionCompleted "b" @+100
                ends Completed
        "#]],
    );
}

/// Story: after a replay, an engine started the open activities when its first live turn ended. If the budget had cut
/// that turn, activities whose results it already held ran a second time, although nothing had crashed.
#[test]
fn ended_activity_is_not_started_again() {
    check_with(
        ONE,
        r#"
        a = activity one
        b = activity two ; attempts=2 initial=1s
        c = activity three
        await a
        await b
        await c
        return it
        ---
        100 complete a "a"
        100 fail b Error
        100 complete c "c"
        2000 complete b "b"
        "#,
        expect![[r#"
            turn @+0
              #2 activity one none
              #3 activity two none
              #4 activity three none
              wait for a
                2 ActivityScheduled one @+0
                3 ActivityScheduled two with options @+0
                4 ActivityScheduled three @+0
                starts #2 attempt 1
                starts #3 attempt 1
                starts #4 attempt 1
                waits (3 open)
            turn @+100
              #2 gives "a" @+100
              wait for b
                5 ActivityCompleted #2 "a" @+100
                has more to do
            turn @+100
              #4 gives "c" @+100
                6 ActivityAttemptFailed #3 "Error" attempt 1, again @+1100 @+100
                7 ActivityCompleted #4 "c" @+100
                starts #3 attempt 2 not before @+1100
                waits (1 open)
            turn @+2000
              #3 gives "b" @+2000
              return "c"
                8 ActivityCompleted #3 "b" @+2000
                9 ExecutionCompleted "c" @+2000
                ends Completed
        "#]],
    );
}

/// With a budget of zero, no turn would ever do anything.
#[test]
fn a_budget_of_nothing_is_one() {
    check_with(
        Budget {
            deliveries: 0,
            commands: 0,
            bytes: 0,
            replayed: 0,
        },
        r"
        await queue q
        a = activity one
        await a
        ---
        100 queue q 1
        200 complete a
        ",
        expect![[r#"
            turn @+0
              wait for queue q
                waits (0 open)
            turn @+100
              queue q gives 1 @+100
              #3 activity one none
              wait for a
                2 QueueReceived q 1 @+100
                3 ActivityScheduled one @+100
                consumes 1
                starts #3 attempt 1
                waits (1 open)
            turn @+200
              #3 gives none @+200
              return none
                4 ActivityCompleted #3 @+200
                5 ExecutionCompleted @+200
                ends Completed
        "#]],
    );
}

/// The clock was set back, and the timer is due by the execution's own time: that is work to do, and the cut holds.
#[test]
fn cut_while_the_clock_is_behind() {
    check_with(
        ONE,
        r#"
        t = timer 3s
        a = activity one
        b = activity two
        await a
        await b
        await t
        now
        ---
        5000 complete a
        200 complete b
        "#,
        expect![[r#"
            turn @+0
              #2 timer of 3000 ms
              #3 activity one none
              #4 activity two none
              wait for a
                2 TimerCreated for @+3000 @+0
                3 ActivityScheduled one @+0
                4 ActivityScheduled two @+0
                starts #3 attempt 1
                starts #4 attempt 1
                waits (2 open)
            turn @+5000
              #3 gives none @+5000
              wait for b
                5 ActivityCompleted #3 @+5000
                waits (1 open)
            turn @+200
              #4 gives none @+5000
              wait for t
                6 ActivityCompleted #4 @+5000
                has more to do
            turn @+200
              #2 gives none @+5000
              now @+5000
              return none
                7 TimerFired #2 @+5000
                8 ExecutionCompleted @+5000
                ends Completed
        "#]],
    );
}

/// A long history is replayed in turns of its own budget.
#[test]
fn replays_are_cut() {
    let script = Script::parse(
        "repeat 5\nawait queue q\nend\nawait event x\n---\n1 queue q\n2 queue q\n3 queue q\n4 queue q\n5 queue q",
    );
    let mut world = run_fresh(&script, Budget::default())
        .worlds
        .pop()
        .expect("there are turns");
    let mut cuts = Vec::new();
    for replayed in [1, 2, 5, 6] {
        let mut run = world.load(Way { replayed, ..WHOLE });
        let mut turns = 1;
        while run.replay_turn(START_MS) == Ok(Waiting::More) {
            turns += 1;
        }
        assert!(!run.engine.is_replaying());
        cuts.push((replayed, turns));
    }
    assert_eq!(cuts, [(1, 5), (2, 3), (5, 1), (6, 1)]);
}
