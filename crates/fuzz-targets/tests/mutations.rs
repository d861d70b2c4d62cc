//! Fuzzing with a stable compiler: valid inputs with small changes, in a fixed order and for a few seconds. libFuzzer
//! does the same with the same functions for as long as it runs (`fuzz/`).

use perdure_fuzz_targets::{TARGETS, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Number of inputs of each target.
const INPUTS: u32 = 8_000;

/// Words on which numbers, lengths and names most often go wrong, and the separators of the formats.
const WORDS: &[&str] = &[
    "",
    "-",
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "4294967296",
    "NaN",
    "null",
    "true",
    "{}",
    "[]",
    "\"",
    "\\",
    "\\ud800",
    "\u{0}",
    "\u{1f}",
    "\u{1e}",
    "\u{1f}-\u{1f}",
    "😀",
    "\u{feff}",
    "__proto__",
    "%",
    "%00",
    "%GG",
    "@",
    ":",
    "/",
    "?",
    "&",
    "=",
    "#",
    "[::1]",
    ",",
    ".",
    "{\"retry\":",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
    "ExecutionStarted",
    "TimerFired",
    "Attempted",
    "Refused",
    "mailboxFull ",
    "sslmode=",
    "sslrootcert=",
    "require_auth=",
    "port=",
    "host=",
    "password=",
];

/// One change of an input.
#[derive(Clone, Debug)]
enum Change {
    Replace(Index, u8),
    Insert(Index, usize),
    Remove(Index, usize),
    /// Copies a part to another place.
    Copy(Index, usize, Index),
    /// Goes on as another seed does.
    Splice(Index, Index, Index),
    Repeat(Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(place, byte)| Change::Replace(place, byte)),
        (at(), 0..WORDS.len()).prop_map(|(place, word)| Change::Insert(place, word)),
        (at(), 1..40_usize).prop_map(|(place, length)| Change::Remove(place, length)),
        (at(), 1..80_usize, at()).prop_map(|(from, length, to)| Change::Copy(from, length, to)),
        (at(), at(), at()).prop_map(|(place, seed, from)| Change::Splice(place, seed, from)),
        (at(), 1..300_usize).prop_map(|(place, times)| Change::Repeat(place, times)),
    ]
}

fn apply(change: &Change, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let length = input.len();
    let at = |index: &Index| index.index(length + 1);
    let part = |from: usize, length: usize| from..(from + length).min(input.len());
    match change {
        Change::Replace(place, byte) => {
            if let Some(found) = input.get_mut(at(place)) {
                *found = *byte;
            }
        }
        Change::Insert(place, word) => drop(input.splice(at(place)..at(place), WORDS[*word].bytes())),
        Change::Remove(place, length) => drop(input.drain(part(at(place), *length))),
        Change::Copy(from, length, to) => {
            let copied = input[part(at(from), *length)].to_vec();
            drop(input.splice(at(to)..at(to), copied));
        }
        Change::Splice(place, seed, from) => {
            let other = seed.get(seeds);
            input.truncate(at(place));
            input.extend(&other[from.index(other.len() + 1)..]);
        }
        Change::Repeat(place, times) => {
            let repeated = input[part(at(place), 8)].repeat(*times);
            drop(input.splice(at(place)..at(place), repeated));
        }
    }
}

fn fuzz(target: &Target) {
    let seeds = (target.seeds)();
    for seed in &seeds {
        (target.run)(seed);
    }
    let config = Config {
        cases: INPUTS,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let changed = (any::<Index>(), vec(change(), 1..8)).prop_map(|(seed, changes)| {
        let mut input = seed.get(&seeds).clone();
        for change in &changes {
            apply(change, &mut input, &seeds);
        }
        input
    });
    TestRunner::new_with_rng(config, random)
        .run(&changed, |input| {
            (target.run)(&input);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{}: {failure}", target.name));
}

fn target(name: &str) {
    fuzz(
        TARGETS
            .iter()
            .find(|target| target.name == name)
            .expect("there is one of that name"),
    );
}

#[test]
fn history() {
    target("history");
}

#[test]
fn message() {
    target("message");
}

#[test]
fn options() {
    target("options");
}

#[test]
fn url() {
    target("url");
}

/// A target that only libFuzzer or only the tests have would be forgotten.
#[test]
fn libfuzzer_has_the_same_targets() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let mut found: Vec<String> = files
        .map(|file| file.expect("it can be read").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    found.sort();
    assert_eq!(found, TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
}
