//! Texts that code has drawn, and that its history records.

use expect_test::expect;

use crate::support::changed::check_deployed;
use crate::support::check;

/// The text is recorded once, and the code gets it from then on, also if it draws another one.
#[test]
fn text_is_the_recorded_one() {
    check(
        r#"
        drawn x
        drawn y
        await event go
        drawn z
        return 1
        ---
        100 event go 1
        "#,
        expect![[r#"
            turn @+0
              drawn Some("x")
              drawn Some("x")
              wait for event go
                2 PatchApplied key/x @+0
                waits (0 open)
            turn @+100
              event go gives 1 @+100
              drawn Some("x")
              return 1
                3 EventReceived go 1 @+100
                4 ExecutionCompleted 1 @+100
                consumes 1
                ends Completed
        "#]],
    );
}

/// A replay gets the recorded text.
#[test]
fn text_of_changed_code() {
    check_deployed(
        r#"
        drawn x
        await event go
        await event go
        return 1
        ---
        100 event go 1
        200 event go 2
        "#,
        r#"
        drawn other
        await event go
        drawn another
        await event go
        return 1
        "#,
        expect![[r#"
            deployed after turn 1:
              | drawn Some("x")
              | wait for event go
                event go gives 1 @+100
                drawn Some("x")
                wait for event go
                event go gives 2 @+200
                return 1
            deployed after turn 2:
              | drawn Some("x")
              | wait for event go
              | event go gives 1 @+100
              | drawn Some("x")
              | wait for event go
                event go gives 2 @+200
                return 1
        "#]],
    );
}

/// A replay of a history without it gets none.
#[test]
fn text_of_added_code() {
    check_deployed(
        r#"
        await event go
        await event go
        return 1
        ---
        100 event go 1
        200 event go 2
        "#,
        r#"
        drawn x
        await event go
        drawn x
        await event go
        return 1
        "#,
        expect![[r#"
            deployed after turn 1:
              | drawn None
              | wait for event go
                event go gives 1 @+100
                drawn Some("x")
                wait for event go
                event go gives 2 @+200
                return 1
            deployed after turn 2:
              | drawn None
              | wait for event go
              | event go gives 1 @+100
              | drawn None
              | wait for event go
                event go gives 2 @+200
                return 1
        "#]],
    );
}
