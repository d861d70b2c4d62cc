//! The custom status.

use expect_test::expect;

use crate::support::check;

#[test]
fn set_read_and_reset() {
    check(
        r#"
        status?
        status "begun"
        status?
        a = activity charge
        await a
        status?
        status {"step":2}
        await event go
        status none
        status?
        await event end
        ---
        100 complete a
        200 event go
        300 event end
        "#,
        expect![[r#"
            turn @+0
              status is none
              status "begun"
              status is "begun"
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge @+0
                sets status "begun"
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              #2 gives none @+100
              status is "begun"
              status {"step":2}
              wait for event go
                3 ActivityCompleted #2 @+100
                sets status {"step":2}
                waits (0 open)
            turn @+200
              event go gives none @+200
              status none
              status is none
              wait for event end
                4 EventReceived go @+200
                consumes 1
                sets status none
                waits (0 open)
            turn @+300
              event end gives none @+300
              return none
                5 EventReceived end @+300
                6 ExecutionCompleted @+300
                consumes 2
                ends Completed
        "#]],
    );
}

/// A status that equals the stored one is no change.
#[test]
fn only_the_last_of_a_turn_is_stored() {
    check(
        r#"
        status 1
        status 2
        a = activity charge
        status 3
        await a
        status 4
        status 3
        ---
        100 complete a
        "#,
        expect![[r#"
            turn @+0
              status 1
              status 2
              #2 activity charge none
              status 3
              wait for a
                2 ActivityScheduled charge @+0
                sets status 3
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              #2 gives none @+100
              status 4
              status 3
              return none
                3 ActivityCompleted #2 @+100
                4 ExecutionCompleted @+100
                ends Completed
        "#]],
    );
}

#[test]
fn the_same_again_is_no_change() {
    check(
        r#"
        status none
        a = activity charge
        await a
        status "same"
        b = activity ship
        await b
        status "same"
        c = activity bill
        await c
        ---
        100 complete a
        200 complete b
        300 complete c
        "#,
        expect![[r#"
            turn @+0
              status none
              #2 activity charge none
              wait for a
                2 ActivityScheduled charge @+0
                starts #2 attempt 1
                waits (1 open)
            turn @+100
              #2 gives none @+100
              status "same"
              #4 activity ship none
              wait for b
                3 ActivityCompleted #2 @+100
                4 ActivityScheduled ship @+100
                sets status "same"
                starts #4 attempt 1
                waits (1 open)
            turn @+200
              #4 gives none @+200
              status "same"
              #6 activity bill none
              wait for c
                5 ActivityCompleted #4 @+200
                6 ActivityScheduled bill @+200
                starts #6 attempt 1
                waits (1 open)
            turn @+300
              #6 gives none @+300
              return none
                7 ActivityCompleted #6 @+300
                8 ExecutionCompleted @+300
                ends Completed
        "#]],
    );
}

/// The turn records no event, and its status is stored all the same.
#[test]
fn the_first_turn_does_nothing_else() {
    check(
        r#"
        status "waiting"
        await event go
        status?
        status none
        ---
        100 event go
        "#,
        expect![[r#"
            turn @+0
              status "waiting"
              wait for event go
                sets status "waiting"
                waits (0 open)
            turn @+100
              event go gives none @+100
              status is "waiting"
              status none
              return none
                2 EventReceived go @+100
                3 ExecutionCompleted @+100
                consumes 1
                sets status none
                ends Completed
        "#]],
    );
}
