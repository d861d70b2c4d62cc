//! `--planted`: plant each bug, and say after how many seeds it is found.

use std::process::ExitCode;

#[cfg(feature = "planted")]
use perdure_simulator::{Run, run};

/// Plant each bug, and say after how many seeds it is found.
#[cfg(feature = "planted")]
pub(crate) fn planted(seeds: u64) -> ExitCode {
    let mut missed = 0;
    for bug in perdure_engine::Bug::ALL {
        perdure_engine::plant(Some(*bug));
        let found = (0..seeds).find_map(|seed| {
            let report = run(&Run { seed, ..Run::default() });
            report.violations.first().map(|violation| (seed + 1, violation.clone()))
        });
        perdure_engine::plant(None);
        match found {
            Some((seeds, violation)) => {
                let violation: String = violation.chars().take(100).collect();
                println!("found after {seeds:>5} seeds: {} {violation}", bug.what());
            }
            None => {
                missed += 1;
                println!("MISSED in {seeds:>5} seeds: {}", bug.what());
            }
        }
    }
    println!("{} found, {missed} missed", perdure_engine::Bug::ALL.len() - missed);
    ExitCode::from(u8::from(missed > 0))
}

/// See above.
#[cfg(not(feature = "planted"))]
pub(crate) fn planted(_seeds: u64) -> ExitCode {
    eprintln!(
        "--planted needs the feature: cargo run --profile simulation -p perdure-simulator --features planted -- --planted"
    );
    ExitCode::from(2)
}
