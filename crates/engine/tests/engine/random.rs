//! Time, random numbers and UUIDs that a replay repeats.

use expect_test::expect;
use perdure_engine::{Budget, Engine, EventId, EventRecord, ExecutionId, ExecutionStarted, Start, StateValues};

use crate::support::check;

#[test]
fn drawn_between_everything_else() {
    check(
        r#"
        random
        uuid
        now
        a = activity charge
        random
        await a
        uuid
        now
        t = timer 1s
        await t
        random
        now
        ---
        100 complete a
        "#,
        expect![[r#"
            turn @+0
              random 0.764109042047738
              uuid 659d9dea-02b0-4777-aefc-a7728de27301
              now @+0
              #2 activity charge none
              random 0.3013736978309758
              wait for a
                2 ActivityScheduled charge @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              #2 gives none @+100
              uuid 831f53d8-0a27-4962-9ce2-a0d887962f56
              now @+100
              #4 timer of 1000 ms
              wait for t
                3 ActivityCompleted #2 @+100
                4 TimerCreated for @+1100 @+100
                waits (0 open, timer @+1100)
            turn @+1100
              #4 gives none @+1100
              random 0.3549265364689904
              now @+1100
              return none
                5 TimerFired #4 @+1100
                6 ExecutionCompleted @+1100
                ends Completed
        "#]],
    );
}

/// Time is that of the last delivery, not of the last command and not of a failed attempt.
#[test]
fn time_moves_with_deliveries_alone() {
    check(
        r#"
        a = activity charge ; initial=1s
        b = activity ship
        now
        await b
        now
        await a
        now
        ---
        100 fail a Error
        700 complete b
        900 fail a Error
        900 complete a
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              #3 activity ship none
              now @+0
              wait for b
                2 ActivityScheduled charge with options @+0
                3 ActivityScheduled ship @+0
                starts #2 attempt 1
                starts #3 attempt 1
                waits (2 open)
            turn @+100
                4 ActivityAttemptFailed #2 "Error" attempt 1, again @+1100 @+100
                starts #2 attempt 2 not before @+1100
                waits (2 open)
            turn @+700
              #3 gives none @+700
              now @+700
              wait for a
                5 ActivityCompleted #3 @+700
                waits (1 open)
            turn @+900
              #2 gives none @+900
              now @+900
              return none
                6 ActivityAttemptFailed #2 "Error" attempt 2, again @+2900 @+900
                7 ActivityCompleted #2 @+900
                8 ExecutionCompleted @+900
                ends Completed
        "#]],
    );
}

/// Numbers that stored executions have drawn: they must never change. Those of seed 0 are the known stream of the
/// zero key (`3e00ef2f895f40d6 7f5bb8e81f09a5a1 2c840ec3ce9a7f3b …`).
#[test]
fn the_numbers_of_a_seed_stay() {
    let engine = |seed| {
        let event = ExecutionStarted {
            name: "n".into(),
            version: "1".into(),
            input: None,
            seed,
            incarnation: None,
            parent: None,
            custom_status: None,
            state: StateValues::new(),
            closed_streams: Default::default(),
            time_limit: None,
            trace: None,
        };
        let history = vec![EventRecord::new(EventId::FIRST, 0, event)];
        Engine::new(Start {
            execution: ExecutionId::FIRST,
            history,
            complete: true,
            fresh: true,
            budget: Budget::default(),
        })
        .expect("a sound history")
    };
    let drawn = |seed| {
        let mut engine = engine(seed);
        format!(
            "{} {} {} {}\n",
            engine.random(),
            engine.random_uuid(),
            engine.random(),
            engine.random_uuid()
        )
    };
    expect![[r#"
        0.8369197568826472 7f5bb8e8-1f09-45a1-ac84-0ec3ce9a7f3b 0.11759101961149943 984ce172-b921-4f41-9f44-5367456d5619
        0.381489413238261 3e05d5ed-725b-404b-92f4-a465ee635acc 0.9161532197396027 289d04f4-3c75-48db-96eb-4433e498a123
        0.7043231858719469 bca991a0-015b-4a3b-88f0-2201e62294a6 0.41639486031500494 b895b287-a06c-4789-afa5-9740db3ec48b
    "#]]
    .assert_eq(&[0, 1, u64::MAX].map(drawn).concat());
    assert_ne!(drawn(1), drawn(2));
    // Far beyond one block of the stream.
    let mut engine = engine(7);
    let numbers: Vec<f64> = (0..10_000).map(|_| engine.random()).collect();
    assert!(numbers.iter().all(|n| (0.0..1.0).contains(n)));
    assert!((0.48..0.52).contains(&(numbers.iter().sum::<f64>() / 10_000.0)));
    expect!["0.29252546753474296"].assert_eq(&numbers[9_999].to_string());
}
