//! Executions that grow beyond their limits.

use std::fmt::Write;

use expect_test::{Expect, expect};
use perdure_engine::{Budget, CANCEL_GRACE, Fault, Limits, Outcome};

use crate::support::script::Script;
use crate::support::transcript::event;
use crate::support::world::{Run, WHOLE, World};
use crate::support::{ways, wrapped};

const HISTORY: fn(u64) -> Limits = |history_events| Limits {
    history_events,
    ..Limits::default()
};
const PENDING: fn(usize) -> Limits = |pending_activities| Limits {
    pending_activities,
    ..Limits::default()
};

const HISTORY_BYTES: fn(u64) -> Limits = |history_bytes| Limits {
    history_bytes,
    ..Limits::default()
};
const TURN_BYTES: fn(u64) -> Limits = |turn_bytes| Limits {
    turn_bytes,
    ..Limits::default()
};

/// Runs turn after turn until one is refused or nothing is left to do.
fn run_on<'a>(world: &mut World<'a>, run: &mut Run<'a>, page: usize) -> Option<Fault> {
    loop {
        if let Err(refusal) = world.turn(run, page) {
            return Some(refusal);
        }
        if !world.wait(run) {
            return None;
        }
    }
}

/// Shows what is stored when a script is refused, and the result under limits that the script does not reach.
///
/// From each stored state it is refused again in every way, in the same place; and nothing is left to commit (E4).
#[track_caller]
fn check_limited(limits: Limits, text: &str, expect: Expect) {
    let script = Script::parse(text);
    let mut world = World::new(&script, Budget::default());
    world.limits = limits;
    let mut run = world.begin();
    let mut worlds = Vec::new();
    let refusal = loop {
        match world.turn(&mut run, usize::MAX) {
            Err(refusal) => break refusal,
            Ok(_) => worlds.push(world.clone()),
        }
        assert!(world.wait(&mut run), "it ends within its limits: {:?}", world.history);
    };
    assert_eq!(run.engine.fault(), Some(&refusal));
    assert_eq!(run.engine.finish(Outcome::Completed(None)).as_ref(), Err(&refusal));
    let output = run.engine.end_turn();
    assert!(
        output.is_empty() && output.effects.is_empty(),
        "nothing to commit (E4): {output:?}"
    );

    for stored in &worlds {
        for way in ways().filter(|way| !way.early || stored.is_next_outside()) {
            let mut again = stored.clone();
            let mut run = again.load(way);
            assert_eq!(
                run_on(&mut again, &mut run, way.page).as_ref(),
                Some(&refusal),
                "{way:?}"
            );
            assert_eq!(again.history, world.history, "{way:?}");
        }
    }

    let stored: Vec<String> = world.history.iter().map(event).collect();
    world.limits = Limits::default();
    let mut run = if worlds.is_empty() {
        world.begin()
    } else {
        world.load(WHOLE)
    };
    assert_eq!(run_on(&mut world, &mut run, usize::MAX), None);
    let mut text = String::new();
    for line in &stored {
        writeln!(text, "{line}").expect("a string takes all");
    }
    writeln!(text, "refused: {refusal}").expect("a string takes all");
    for record in &world.history[stored.len()..] {
        writeln!(text, "  {}", event(record)).expect("a string takes all");
    }
    expect.assert_eq(&wrapped(&text));
}

#[test]
fn a_command_that_makes_the_history_too_long() {
    check_limited(
        HISTORY(5),
        r#"
        a = activity one
        await a
        b = activity two
        c = activity three
        await b
        return it
        ---
        100 complete a
        200 complete b "done"
        "#,
        expect![[r#"
            1 ExecutionStarted order {"total":12} @+0
            2 ActivityScheduled one @+0
            3 ActivityCompleted #2 @+100
            4 ActivityScheduled two @+100
            5 ActivityScheduled three @+100
            refused: the history of this execution has reached its limit of 5 events (limits.historyEvents). Let the
                code go on with ctx.continueAsNew before its history is so long, or raise the limit; then call
                client.resume(id)
              6 ActivityCompleted #4 "done" @+200
              7 ExecutionCompleted "done" @+200
        "#]],
    );
}

#[test]
fn a_delivery_that_makes_the_history_too_long() {
    check_limited(
        HISTORY(3),
        r#"
        repeat 3
        await event x
        end
        return it
        ---
        100 event x 1
        200 event x 2
        300 event x 3
        "#,
        expect![[r#"
            1 ExecutionStarted order {"total":12} @+0
            2 EventReceived x 1 @+100
            3 EventReceived x 2 @+200
            refused: the history of this execution has reached its limit of 3 events (limits.historyEvents). Let the
                code go on with ctx.continueAsNew before its history is so long, or raise the limit; then call
                client.resume(id)
              4 EventReceived x 3 @+300
              5 ExecutionCompleted 3 @+300
        "#]],
    );
}

#[test]
fn attempts_that_fail_for_ever() {
    check_limited(
        HISTORY(4),
        r#"
        a = activity one ; attempts=9
        await a
        return it
        ---
        100 fail a Error
        200 fail a Error
        300 fail a Error
        900 complete a
        "#,
        expect![[r#"
            1 ExecutionStarted order {"total":12} @+0
            2 ActivityScheduled one with options @+0
            3 ActivityAttemptFailed #2 "Error" attempt 1, again @+300 @+100
            4 ActivityAttemptFailed #2 "Error" attempt 2, again @+600 @+200
            refused: the history of this execution has reached its limit of 4 events (limits.historyEvents). Let the
                code go on with ctx.continueAsNew before its history is so long, or raise the limit; then call
                client.resume(id)
              5 ActivityAttemptFailed #2 "Error" attempt 3, again @+1100 @+300
              6 ActivityCompleted #2 @+900
              7 ExecutionCompleted @+900
        "#]],
    );
}

/// The terminal event is never too much.
#[test]
fn a_history_that_is_full_can_end() {
    let script = Script::parse("a = activity one\nawait a\nreturn it\n---\n100 complete a");
    let mut world = World::new(&script, Budget::default());
    world.limits = HISTORY(3);
    let mut run = world.begin();
    assert_eq!(run_on(&mut world, &mut run, usize::MAX), None);
    assert!(world.has_ended());
    assert_eq!(world.history.len(), 4);
}

#[test]
fn activities_that_are_too_many_at_once() {
    check_limited(
        PENDING(2),
        r#"
        a = activity one
        await a
        b = activity two
        c = activity three
        await event go
        d = activity four
        await d
        return it
        ---
        100 complete a
        200 event go
        300 complete d
        "#,
        expect![[r#"
            1 ExecutionStarted order {"total":12} @+0
            2 ActivityScheduled one @+0
            3 ActivityCompleted #2 @+100
            4 ActivityScheduled two @+100
            5 ActivityScheduled three @+100
            refused: this execution has reached its limit of 2 pending activities (limits.pendingActivities). Let the
                code schedule fewer at once, for instance by fibers that receive their work from a ctx.channel, or
                raise the limit; then call client.resume(id)
              6 EventReceived go @+200
              7 ActivityScheduled four @+200
              8 ActivityCompleted #7 @+300
              9 ExecutionCompleted @+300
        "#]],
    );
}

#[test]
fn activities_that_are_too_many_in_the_first_turn() {
    check_limited(
        PENDING(1),
        r#"
        a = activity one
        b = activity two
        await b
        return it
        ---
        100 complete b
        "#,
        expect![[r#"
            1 ExecutionStarted order {"total":12} @+0
            refused: this execution has reached its limit of 1 pending activities (limits.pendingActivities). Let the
                code schedule fewer at once, for instance by fibers that receive their work from a ctx.channel, or
                raise the limit; then call client.resume(id)
              2 ActivityScheduled one @+0
              3 ActivityScheduled two @+0
              4 ActivityCompleted #3 @+100
              5 ExecutionCompleted @+100
        "#]],
    );
}

/// Activities that run one after the other, or are given up, are never too many at once.
#[test]
fn activities_that_settle_make_room() {
    let text = "a = activity one\nawait a\nb = activity two\ncancel b\nc = activity three\nawait c\nreturn it\n\
                ---\n100 complete a\n200 complete c";
    let script = Script::parse(text);
    let mut world = World::new(&script, Budget::default());
    world.limits = PENDING(1);
    let mut run = world.begin();
    assert_eq!(run_on(&mut world, &mut run, usize::MAX), None);
    assert!(world.has_ended());
}

/// A replay under lowered limits comes through, and the pending activities beyond the limit settle.
#[test]
fn recorded_events_are_not_refused() {
    let text = "a = activity one\nb = activity two\nc = activity three\nawait a\nawait b\nawait c\nreturn it\n\
                ---\n100 complete a\n200 complete b\n300 complete c";
    let script = Script::parse(text);
    let mut world = World::new(&script, Budget::default());
    let mut run = world.begin();
    world.turn(&mut run, usize::MAX).expect("the limits are large");
    for way in ways() {
        let mut world = world.clone();
        world.limits = PENDING(1);
        let mut run = world.load(way);
        assert_eq!(run_on(&mut world, &mut run, way.page), None);
        assert!(world.has_ended());
    }
}

/// An instance is cancelled after it was refused: the request comes first, and the code cleans up beyond the limit.
#[test]
fn a_request_to_cancel_comes_through_and_the_code_cleans_up() {
    for (limits, text) in [
        (
            HISTORY(2),
            "await event go\nawait event go\non cancel\nc = activity refund\nawait c\nthrow it\n\
             ---\n100 event go\n200 event go\n300 cancel \"stop\"\n400 complete c \"refunded\"",
        ),
        (
            PENDING(1),
            "a = activity one\nawait event go\nb = activity two\nawait b\non cancel\n\
             cancel a\nc = activity refund\nd = activity notify\nawait c\nthrow it\n\
             ---\n100 event go\n300 cancel \"stop\"\n400 complete c \"refunded\"",
        ),
        // In its first turn the request comes only after the commands that are too many.
        (
            PENDING(1),
            "a = activity one\nb = activity two\nawait b\non cancel\ncancel a\ncancel b\nc = activity refund\n\
             await c\nthrow it\n\
             ---\n300 cancel \"stop\"\n400 complete c \"refunded\"",
        ),
    ] {
        let script = Script::parse(text);
        let mut world = World::new(&script, Budget::default());
        world.limits = limits;
        let mut run = world.begin();
        let mut has_turns = false;
        let refusal = loop {
            if let Err(refusal) = world.turn(&mut run, usize::MAX) {
                break refusal;
            }
            has_turns = true;
            world.wait(&mut run);
        };
        assert!(matches!(refusal, Fault::Limit(_)));
        // The instance was resumed.
        let mut run = if has_turns { world.load(WHOLE) } else { world.begin() };
        world.offer_all_at(300, &mut run.engine);
        assert_eq!(run_on(&mut world, &mut run, usize::MAX), None, "{text}");
        let last = world.history.last().expect("it has a start");
        assert_eq!(
            event(last).split_once(' ').expect("a number").1,
            "ExecutionFailed \"refunded\" @+400"
        );
    }
}

/// Code whose cleanup does not end is refused, too.
#[test]
fn code_that_cancels_for_ever_is_refused() {
    let script =
        Script::parse("await event never\non cancel\nrepeat 1000000\na = activity one\ncancel a\nend\n---\n100 cancel");
    let mut world = World::new(&script, Budget::default());
    world.limits = HISTORY(100);
    let mut run = world.begin();
    let refusal = run_on(&mut world, &mut run, usize::MAX).expect("it is refused");
    assert!(refusal.to_string().contains("limit of 100 events"), "{refusal}");
    assert_eq!(run.engine.next_event_id().0, 100 + CANCEL_GRACE as u64 + 1);
}

/// The input of the execution, 12 bytes, is a part of the history.
#[test]
fn a_result_that_makes_the_history_too_large() {
    check_limited(
        HISTORY_BYTES(12 + 10),
        r#"
        a = activity one
        b = activity two
        await a
        await b
        return it
        ---
        100 complete a "12345678"
        200 complete b "9"
        "#,
        expect![[r#"
            1 ExecutionStarted order {"total":12} @+0
            2 ActivityScheduled one @+0
            3 ActivityScheduled two @+0
            4 ActivityCompleted #2 "12345678" @+100
            refused: the values in the history of this execution have reached their limit of 22 bytes
                (limits.historyBytes). Let the code go on with ctx.continueAsNew before its history is so large, store
                large values elsewhere and hand over where they are, or raise the limit; then call client.resume(id)
              5 ActivityCompleted #3 "9" @+200
              6 ExecutionCompleted "9" @+200
        "#]],
    );
}

/// A single value always passes, however large it is, and so does the end.
#[test]
fn a_turn_that_records_too_much() {
    check_limited(
        TURN_BYTES(8),
        r#"
        a = activity one "123456789"
        await a
        b = activity two "1234"
        c = activity three "567"
        await c
        return it
        ---
        100 complete a
        200 complete b "done"
        300 complete c "the end of it all"
        "#,
        expect![[r#"
            1 ExecutionStarted order {"total":12} @+0
            2 ActivityScheduled one "123456789" @+0
            refused: one turn of this execution has reached its limit of 8 bytes (limits.turnBytes): what the code asks
                for before it waits is stored in one transaction. Let the code wait in between, for instance by
                scheduling fewer activities at once, store large values elsewhere and hand over where they are, or
                raise the limit; then call client.resume(id)
              3 ActivityCompleted #2 @+100
              4 ActivityScheduled two "1234" @+100
              5 ActivityScheduled three "567" @+100
              6 ActivityCompleted #4 "done" @+200
              7 ActivityCompleted #5 "the end of it all" @+300
              8 ExecutionCompleted "the end of it all" @+300
        "#]],
    );
}
