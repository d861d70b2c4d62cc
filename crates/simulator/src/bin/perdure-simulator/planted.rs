//! `--planted`: plants each bug, and says after how many seeds it is found.

use std::ops::Range;
use std::process::ExitCode;

#[cfg(feature = "planted")]
use perdure_simulator::{Run, run};

/// Plants each bug whose description contains `bug`, and says after how many seeds it is found.
#[cfg(feature = "planted")]
pub(crate) fn planted(seeds: Range<u64>, bug: &str) -> ExitCode {
    let (mut caught, mut missed) = (0, 0);
    for bug in perdure_engine::Bug::ALL
        .iter()
        .filter(|one| one.description().contains(bug))
    {
        perdure_engine::plant(Some(*bug));
        let found = seeds.clone().find_map(|seed| {
            let report = run(&Run { seed, ..Run::default() });
            report
                .violations
                .first()
                .map(|violation| (seed + 1 - seeds.start, violation.clone()))
        });
        perdure_engine::plant(None);
        match found {
            Some((seeds, violation)) => {
                caught += 1;
                let violation: String = violation.chars().take(100).collect();
                println!("found after {seeds:>5} seeds: {} {violation}", bug.description());
            }
            None => {
                missed += 1;
                println!("MISSED in {:>5} seeds: {}", seeds.end - seeds.start, bug.description());
            }
        }
    }
    println!("{caught} found, {missed} missed");
    ExitCode::from(u8::from(missed > 0))
}

/// Fails, because the feature is off.
#[cfg(not(feature = "planted"))]
pub(crate) fn planted(_seeds: Range<u64>, _bug: &str) -> ExitCode {
    eprintln!(
        "--planted needs the feature: cargo run -p perdure-simulator --features planted -- \
         --planted"
    );
    ExitCode::from(2)
}
