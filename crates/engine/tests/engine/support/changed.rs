//! Code that was changed while an instance was running.

use std::fmt::Write;

use expect_test::Expect;
use perdure_engine::{
    Awaited, Budget, Command, Completion, EventId, Fault, Mailbox, Message, MessageBody, MessageSeq, Outcome, Waiting,
};

use super::script::{Program, Script};
use super::world::{Run, WHOLE, Way};
use super::{run_everywhere, run_fresh, ways, wrapped};

/// Runs a script, then replays what is stored after each turn with another program.
///
/// Every replay must have the same result with pages of any size. A replay that finds a mismatch leaves an engine that
/// stays broken and has nothing to commit (E4). From the first turn at whose end the change shows, it must show at the
/// end of every later turn. The old program must fit afterwards as it did before.
#[track_caller]
pub(crate) fn check_changed(text: &str, changed: &str, expect: Expect) {
    let old = Script::parse(text);
    run_everywhere(&old, Budget::default());
    let fresh = run_fresh(&old, Budget::default());
    let new = Script {
        time_limit: old.time_limit.clone(),
        program: Program::parse(changed),
        outside: Vec::new(),
    };

    let mut reports: Vec<(usize, usize, String)> = Vec::new();
    for (turn, stored) in fresh.worlds.iter().enumerate() {
        let of_all_pages: Vec<Option<Fault>> = [1, 2, 3, usize::MAX]
            .into_iter()
            .map(|page| {
                let mut world = stored.clone();
                world.replace_script(&new);
                let mut run = world.load(Way { page, ..WHOLE });
                let found = world.replay(&mut run, page).err();
                if let Some(refusal) = &found {
                    assert_broken(&mut run, refusal);
                }
                found
            })
            .collect();
        assert!(
            of_all_pages.windows(2).all(|two| two[0] == two[1]),
            "pages make no difference: {of_all_pages:#?}"
        );
        let report = of_all_pages[0]
            .as_ref()
            .map_or_else(|| "fits".into(), ToString::to_string);
        match reports.last_mut() {
            Some((_, last, same)) if *same == report => *last = turn + 1,
            _ => reports.push((turn + 1, turn + 1, report)),
        }
    }
    let is_found = |report: &(usize, usize, String)| report.2 != "fits";
    assert!(
        reports.iter().skip_while(|r| !is_found(r)).all(is_found),
        "what was found once is found ever after: {reports:#?}"
    );

    let mut text = String::new();
    for (first, last, report) in reports {
        let turns = if first == last {
            format!("after turn {first}")
        } else {
            format!("after turns {first} to {last}")
        };
        writeln!(text, "{turns}: {report}").expect("a string takes all");
    }
    expect.assert_eq(&wrapped(&text));
}

/// Asserts E4.
fn assert_broken(run: &mut Run<'_>, refusal: &Fault) {
    let engine = &mut run.engine;
    assert_eq!(engine.fault(), Some(refusal));
    for _ in 0..2 {
        let message = |seq, body| {
            Completion::Message(Message {
                seq: MessageSeq(seq),
                body,
            })
        };
        engine.offer(Completion::ActivityCompleted {
            scheduled: EventId(2),
            output: None,
        });
        engine.offer(message(1, MessageBody::Cancel { reason: None }));
        engine.offer(message(
            2,
            MessageBody::Mail {
                mailbox: Mailbox::Event("x".into()),
                payload: None,
            },
        ));
        engine.set_custom_status(Some("\"changed\"".into()));
        assert_eq!(engine.extend_history(Vec::new(), true), Ok(()));
        assert_eq!(engine.needs_history(), None);
        assert!(!engine.is_runnable(i64::MAX));
        assert_eq!(
            engine.issue(Command::CreateTimer { delay_ms: 0 }).as_ref(),
            Err(refusal)
        );
        assert_eq!(
            engine
                .issue(Command::CancelOperation { scheduled: EventId(2) })
                .as_ref(),
            Err(refusal)
        );
        let awaited = Awaited {
            mailboxes: vec![Mailbox::Event("x".into())],
            timers: vec![EventId(2), EventId(3)],
        };
        assert_eq!(engine.next(awaited, i64::MAX).as_ref(), Err(refusal));
        assert_eq!(engine.finish(Outcome::Completed(None)).as_ref(), Err(refusal));
        let output = engine.end_turn();
        assert!(
            output.is_empty() && output.effects.is_empty(),
            "nothing to commit (E4): {output:?}"
        );
        assert_eq!(
            output.waiting,
            Waiting::Outside {
                open_activities: 0,
                timer_at_ms: None
            }
        );
        assert_eq!(engine.fault(), Some(refusal));
    }
}

/// Runs a script. From what is stored after each of its turns, another program then goes on to the end, in every way.
/// The expected text holds the lines of that program: first the replayed ones (`|`), then the new ones.
#[track_caller]
pub(crate) fn check_deployed(text: &str, changed: &str, expect: Expect) {
    let old = Script::parse(text);
    let new = Script {
        time_limit: old.time_limit.clone(),
        program: Program::parse(changed),
        outside: old.outside.clone(),
    };
    let fresh = run_fresh(&old, Budget::default());
    let mut text = String::new();
    for (turn, stored) in fresh.worlds.iter().enumerate().filter(|(_, world)| !world.has_ended()) {
        let mut of_all_ways: Vec<String> = Vec::new();
        for way in ways().filter(|way| !way.early || stored.is_next_outside()) {
            let mut world = stored.clone();
            world.replace_script(&new);
            let mut run = world.load(way);
            let mut lines = String::new();
            loop {
                let done = world
                    .turn(&mut run, way.page)
                    .unwrap_or_else(|e| panic!("{way:?}: {e}"));
                for line in done.lines {
                    let mark = if line.replaying { '|' } else { ' ' };
                    writeln!(lines, "  {mark} {}", line.text).expect("a string takes all");
                }
                if !world.wait(&mut run) {
                    break;
                }
            }
            of_all_ways.push(lines);
        }
        assert!(of_all_ways.windows(2).all(|two| two[0] == two[1]), "{of_all_ways:#?}");
        writeln!(text, "deployed after turn {}:\n{}", turn + 1, of_all_ways[0].trim_end()).expect("a string takes all");
    }
    expect.assert_eq(&text);
}
