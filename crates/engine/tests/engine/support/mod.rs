//! Engine tests as data: a script is run against the engine in several ways, all of which must have the same result.
//!
//! - fresh: live from nothing;
//! - from every middle: at the end of each turn another engine is built from what is stored, and goes on live;
//! - complete: all that is stored is replayed, its terminal event included.
//!
//! The last two are done in pages of 1, 2, 3 and all events, and with the replay in one turn and in many. Activities
//! still run, or went down with their worker. The next event from outside arrives before the replay, or in the middle
//! of it.

pub(crate) mod changed;
pub(crate) mod code;
pub(crate) mod draw;
pub(crate) mod script;
pub(crate) mod transcript;
pub(crate) mod world;

use std::collections::BTreeMap;

use expect_test::Expect;
use perdure_engine::{Budget, EventId, EventRecord, ExecutionStarted, Message, Payload, StateValues, Waiting};

use code::Line;
use script::Script;
use world::{Turn, Way, World};

/// Start time of every script, ms since 1970.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// Returns the first event of an execution.
pub(crate) fn started() -> EventRecord {
    let start = ExecutionStarted {
        name: "order".into(),
        version: "1.0.0".into(),
        input: None,
        seed: 1,
        incarnation: None,
        parent: None,
        custom_status: None,
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: None,
        trace: None,
    };
    EventRecord::new(EventId::FIRST, START_MS, start)
}

pub(crate) fn since_start(time_ms: i64) -> String {
    format!("@{:+}", time_ms - START_MS)
}

/// Runs a script in every way, and compares its fresh run with the expected text.
#[track_caller]
pub(crate) fn check(text: &str, expect: Expect) {
    check_with(Budget::default(), text, expect);
}

/// [`check`] with a given budget.
#[track_caller]
pub(crate) fn check_with(budget: Budget, text: &str, expect: Expect) {
    let script = Script::parse(text);
    let fresh = run_everywhere(&script, budget);
    expect.assert_eq(&transcript::render(&fresh));
}

/// Wraps long lines for a snapshot, before a space or after a comma. The rest of a line is indented.
pub(crate) fn wrapped(text: &str) -> String {
    text.split('\n').map(wrapped_line).collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str) -> String {
    /// With the indent of a snapshot in an argument, a source has 120 characters.
    const MAX: usize = 108;
    let Some((end, _)) = line.char_indices().nth(MAX) else {
        return line.to_owned();
    };
    let Some(at) = line[..end].rfind([' ', ',']).filter(|at| *at > 4) else {
        return line.to_owned();
    };
    let (head, rest) = line.split_at(if line[at..].starts_with(',') { at + 1 } else { at });
    format!("{head}\n{}", wrapped_line(&format!("   {rest}")))
}

/// A fresh run, turn by turn, with the state of the store after each turn.
pub(crate) struct Fresh<'a> {
    pub(crate) turns: Vec<Turn>,
    pub(crate) worlds: Vec<World<'a>>,
}

pub(crate) fn run_fresh(script: &Script, budget: Budget) -> Fresh<'_> {
    let mut world = World::new(script, budget);
    let mut run = world.begin();
    let (mut turns, mut worlds) = (Vec::new(), Vec::new());
    loop {
        let turn = world
            .turn(&mut run, usize::MAX)
            .expect("a fresh run has no history to differ from");
        assert!(
            turn.lines.iter().all(|line| !line.replaying),
            "a fresh run is live throughout (E3)"
        );
        turns.push(turn);
        worlds.push(world.clone());
        if !world.wait(&mut run) {
            return Fresh { turns, worlds };
        }
    }
}

/// Runs a script in every way. All runs must agree with the fresh run, which is returned.
pub(crate) fn run_everywhere(script: &Script, budget: Budget) -> Fresh<'_> {
    let fresh = run_fresh(script, budget);
    for boundary in 0..fresh.turns.len() {
        ways().for_each(|way| go_on(&fresh, boundary, way));
    }
    fresh
}

/// [`run_everywhere`] for large numbers of scripts: from every middle in some of the ways, of which all come up over
/// the salts.
pub(crate) fn run_somehow(script: &Script, budget: Budget, salt: usize) -> Fresh<'_> {
    let fresh = run_fresh(script, budget);
    for boundary in 0..fresh.turns.len() {
        ways()
            .skip((salt + boundary) % 11)
            .step_by(11)
            .for_each(|way| go_on(&fresh, boundary, way));
    }
    fresh
}

pub(crate) fn ways() -> impl Iterator<Item = Way> {
    let pages = [1, 2, 3, usize::MAX].into_iter();
    let cut = pages.flat_map(|page| [1, 2, u32::MAX].map(|replayed| (page, replayed)));
    cut.flat_map(|(page, replayed)| {
        [(false, false), (false, true), (true, false), (true, true)].map(|(early, crashed)| Way {
            page,
            replayed,
            early,
            crashed,
        })
    })
}

/// The result of a stored turn, besides its history.
#[derive(Debug, PartialEq)]
struct Left<'w> {
    status: &'w Payload,
    messages: &'w [Message],
    waiting: &'w Waiting,
    attempts: Vec<(u64, u32, i64)>,
}

impl<'w> Left<'w> {
    fn by(world: &'w World<'_>, has_unknown_attempts: bool) -> Self {
        let attempts = world.attempts.iter().map(|(id, (attempt, at))| (id.0, *attempt, *at));
        let is_open = has_unknown_attempts && world.waiting == Waiting::More;
        let attempts = attempts.filter(|_| !is_open).collect();
        Self {
            status: &world.status,
            messages: &world.messages,
            waiting: &world.waiting,
            attempts,
        }
    }
}

/// Builds another engine from what is stored after a turn, goes on with it to the end, and compares the results.
fn go_on(fresh: &Fresh<'_>, boundary: usize, way: Way) {
    if way.early && !fresh.worlds[boundary].is_next_outside() {
        return;
    }
    let context = || format!("from turn {} of {}, {way:?}", boundary + 1, fresh.turns.len());
    let mut world = fresh.worlds[boundary].clone();
    let mut run = world.load(way);
    let mut worlds = Vec::new();
    let mut lines = Vec::new();
    loop {
        let turn = world
            .turn(&mut run, way.page)
            .unwrap_or_else(|e| panic!("{}: {e}", context()));
        lines.extend(turn.lines);
        worlds.push(world.clone());
        if !world.wait(&mut run) {
            break;
        }
    }
    let replayed: usize = fresh.turns[..=boundary].iter().map(|turn| turn.lines.len()).sum();
    let expected: Vec<Line> = fresh
        .turns
        .iter()
        .flat_map(|turn| &turn.lines)
        .enumerate()
        .map(|(place, line)| Line {
            text: line.text.clone(),
            replaying: place < replayed,
        })
        .collect();
    assert_eq!(
        lines,
        expected,
        "{}: other commands, deliveries, times or numbers, or isReplaying is wrong (E3)",
        context()
    );

    let last = fresh.worlds.last().expect("there is a first turn");
    assert_eq!(world.history, last.history, "{}: another history", context());
    let by_length = |worlds: &[World<'_>]| -> BTreeMap<usize, String> {
        worlds
            .iter()
            .map(|world| {
                (
                    world.history.len(),
                    format!("{:?}", Left::by(world, last.has_unknown_attempts)),
                )
            })
            .collect()
    };
    let (mut left, mut expected) = (by_length(&worlds), by_length(&fresh.worlds[boundary..]));
    let stored = &fresh.worlds[boundary];
    if way.early || stored.is_ready || stored.waiting == Waiting::More {
        // The replay ends in a turn that does more, or sees more.
        let length = stored.history.len();
        left.remove(&length);
        expected.remove(&length);
    }
    assert_eq!(left, expected, "{}: another state between turns", context());
}

/// Returns all orders of some items.
pub(crate) fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    (0..items.len())
        .flat_map(|place| {
            let mut others = items.to_vec();
            let first = others.remove(place);
            permutations(&others).into_iter().map(move |mut order| {
                order.insert(0, first.clone());
                order
            })
        })
        .collect()
}

/// Runs a program with events from outside in every order, one after the other and all at once. Returns the outputs, in
/// order and without repetition.
pub(crate) fn outcomes_of_all_orders(program: &str, outside: &[&str]) -> Vec<String> {
    let mut outcomes = Vec::new();
    for (salt, order) in permutations(outside).into_iter().enumerate() {
        for gap in [100, 0] {
            let outside: Vec<String> = order
                .iter()
                .enumerate()
                .map(|(n, what)| format!("{} {what}", 100 + n * gap))
                .collect();
            let script = Script::parse(&format!("{program}\n---\n{}", outside.join("\n")));
            let fresh = run_somehow(&script, Budget::default(), salt);
            let last = fresh
                .worlds
                .last()
                .and_then(|world| world.history.last())
                .expect("a history has a start");
            outcomes.push(format!("{} {}", last.kind, code::shown(&last.payload)));
        }
    }
    outcomes.sort();
    outcomes.dedup();
    outcomes
}
