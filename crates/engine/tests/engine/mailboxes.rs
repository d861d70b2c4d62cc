//! Events and queues: which messages a wait consumes, and in which order.

use expect_test::expect;

use crate::support::{check, outcomes_of_all_orders};

#[test]
fn an_event_is_awaited_and_comes() {
    check(
        r#"
        await event approve
        return it
        ---
        100 event approve {"by":"ada"}
        "#,
        expect![[r#"
            turn @+0
              wait for event approve
                waits (0 open)
            turn @+100
              event approve gives {"by":"ada"} @+100
              return {"by":"ada"}
                2 EventReceived approve {"by":"ada"} @+100
                3 ExecutionCompleted {"by":"ada"} @+100
                consumes 1
                ends Completed
        "#]],
    );
}

#[test]
fn an_event_comes_early() {
    check(
        r#"
        a = activity charge
        await a
        await event approve
        return it
        ---
        100 event approve "early"
        200 complete a "paid"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+200
              #2 gives "paid" @+200
              wait for event approve
              event approve gives "early" @+200
              return "early"
                3 ActivityCompleted #2 "paid" @+200
                4 EventReceived approve "early" @+200
                5 ExecutionCompleted "early" @+200
                consumes 1
                ends Completed
        "#]],
    );
}

/// Waiting is demand-driven: a message that no fiber waits for stays in its mailbox and wakes no fiber.
#[test]
fn unawaited_message_stays() {
    check(
        r#"
        await event approve
        return it
        ---
        100 event other 1
        150 queue approve 2
        200 event approve 3
        250 event approve 4
        "#,
        expect![[r#"
            turn @+0
              wait for event approve
                waits (0 open)
            turn @+200
              event approve gives 3 @+200
              return 3
                2 EventReceived approve 3 @+200
                3 ExecutionCompleted 3 @+200
                consumes 3
                ends Completed
            unread messages: 1, 2
        "#]],
    );
}

#[test]
fn a_queue_gives_its_messages_in_order() {
    check(
        r#"
        repeat 3
          await queue jobs
          a = activity work it
          await a
        end
        return
        ---
        100 queue jobs 1
        100 queue jobs 2
        200 complete a "one"
        300 complete a "two"
        400 queue jobs 3
        400 queue jobs 4
        500 complete a "three"
        "#,
        expect![[r#"
            turn @+0
              wait for queue jobs
                waits (0 open)
            turn @+100
              queue jobs gives 1 @+100
              #3 activity work 1
              wait for a
                2 QueueReceived jobs 1 @+100
                3 ActivityScheduled work 1 @+100
                consumes 1
                starts #3 attempt 1
                waits (1 open)
            turn @+200
              #3 gives "one" @+200
              wait for queue jobs
              queue jobs gives 2 @+200
              #6 activity work 2
              wait for a
                4 ActivityCompleted #3 "one" @+200
                5 QueueReceived jobs 2 @+200
                6 ActivityScheduled work 2 @+200
                consumes 2
                starts #6 attempt 1
                waits (1 open)
            turn @+300
              #6 gives "two" @+300
              wait for queue jobs
                7 ActivityCompleted #6 "two" @+300
                waits (0 open)
            turn @+400
              queue jobs gives 3 @+400
              #9 activity work 3
              wait for a
                8 QueueReceived jobs 3 @+400
                9 ActivityScheduled work 3 @+400
                consumes 3
                starts #9 attempt 1
                waits (1 open)
            turn @+500
              #9 gives "three" @+500
              return none
                10 ActivityCompleted #9 "three" @+500
                11 ExecutionCompleted @+500
                ends Completed
            unread messages: 4
        "#]],
    );
}

#[test]
fn the_oldest_of_all_awaited_mailboxes_comes_first() {
    check(
        r#"
        a = activity charge
        await a
        repeat 4
          await event x | queue q | event y
        end
        ---
        100 event y 1
        110 event x 2
        120 event z 3
        130 queue q 4
        140 event y 5
        200 complete a
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+200
              #2 gives none @+200
              wait for event x or queue q or event y
              event y gives 1 @+200
              wait for event x or queue q or event y
              event x gives 2 @+200
              wait for event x or queue q or event y
              queue q gives 4 @+200
              wait for event x or queue q or event y
              event y gives 5 @+200
              return none
                3 ActivityCompleted #2 @+200
                4 EventReceived y 1 @+200
                5 EventReceived x 2 @+200
                6 QueueReceived q 4 @+200
                7 EventReceived y 5 @+200
                8 ExecutionCompleted @+200
                consumes 1, 2, 4, 5
                ends Completed
            unread messages: 3
        "#]],
    );
}

/// A wait that lost a race consumes nothing: the message is still there for the next wait.
#[test]
fn wait_that_lost_a_race_takes_no_message() {
    check(
        r#"
        t = timer 1s
        await queue jobs | t
        u = timer 1h
        await queue jobs | u
        return it
        ---
        1000 queue jobs "kept"
        "#,
        expect![[r#"
            turn @+0
              #2 timer of 1000 ms
              wait for queue jobs or t
                2 TimerCreated for @+1000 @+0
                waits (0 open, timer @+1000)
            turn @+1000
              #2 gives none @+1000
              #4 timer of 3600000 ms
              wait for queue jobs or u
                3 TimerFired #2 @+1000
                4 TimerCreated for @+3601000 @+1000
                waits (0 open, timer @+3601000)
            turn @+1000
              queue jobs gives "kept" @+1000
              return "kept"
                5 QueueReceived jobs "kept" @+1000
                6 ExecutionCompleted "kept" @+1000
                consumes 1
                ends Completed
        "#]],
    );
}

#[test]
fn a_message_that_is_offered_twice_is_taken_once() {
    check(
        r#"
        a = activity charge
        await a
        await queue jobs
        await queue jobs
        return it
        ---
        100 queue jobs "first"
        100 repeat
        150 repeat
        200 complete a
        300 queue jobs "second"
        "#,
        expect![[r#"
            turn @+0
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+200
              #2 gives none @+200
              wait for queue jobs
              queue jobs gives "first" @+200
              wait for queue jobs
                3 ActivityCompleted #2 @+200
                4 QueueReceived jobs "first" @+200
                consumes 1
                waits (0 open)
            turn @+300
              queue jobs gives "second" @+300
              return "second"
                5 QueueReceived jobs "second" @+300
                6 ExecutionCompleted "second" @+300
                consumes 2
                ends Completed
        "#]],
    );
}

#[test]
fn events_and_queues_of_one_name_are_apart() {
    check(
        r#"
        await event x
        await queue x
        return it
        ---
        100 queue x "of the queue"
        200 event x "of the event"
        "#,
        expect![[r#"
            turn @+0
              wait for event x
                waits (0 open)
            turn @+200
              event x gives "of the event" @+200
              wait for queue x
              queue x gives "of the queue" @+200
              return "of the queue"
                2 EventReceived x "of the event" @+200
                3 QueueReceived x "of the queue" @+200
                4 ExecutionCompleted "of the queue" @+200
                consumes 2, 1
                ends Completed
        "#]],
    );
}

#[test]
fn messages_without_a_value_and_with_unusual_values() {
    check(
        "
        repeat 3
          await queue q
        end
        return it
        ---
        100 queue q none
        200 queue q \"\\u0000 \u{1F600} __proto__\"
        300 queue q null
        ",
        expect![[r#"
            turn @+0
              wait for queue q
                waits (0 open)
            turn @+100
              queue q gives none @+100
              wait for queue q
                2 QueueReceived q @+100
                consumes 1
                waits (0 open)
            turn @+200
              queue q gives "\u0000 😀 __proto__" @+200
              wait for queue q
                3 QueueReceived q "\u0000 😀 __proto__" @+200
                consumes 2
                waits (0 open)
            turn @+300
              queue q gives null @+300
              return null
                4 QueueReceived q null @+300
                5 ExecutionCompleted null @+300
                consumes 3
                ends Completed
        "#]],
    );
}

#[test]
fn every_order_of_messages_and_a_result() {
    let outcomes = outcomes_of_all_orders(
        r"
        a = activity one
        await queue q | event x
        await a | event x
        await queue q | event y
        return it
        ",
        &["queue q 1", "queue q 2", "event x 3", "complete a \"a\"", "event y 4"],
    );
    assert_eq!(
        outcomes,
        ["ExecutionCompleted 1", "ExecutionCompleted 2", "ExecutionCompleted 4"],
        "all of them end, and none takes what belongs to another mailbox"
    );
}
