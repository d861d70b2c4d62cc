//! `perdure-simulator --seeds A..B`: runs seeds and prints their results.

mod arguments;
mod planted;
mod totals;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use perdure_simulator::{Place, Report, Run, run, shrink};

use crate::arguments::{Arguments, HELP, arguments};
use crate::planted::planted;
use crate::totals::Totals;

fn main() -> ExitCode {
    let Arguments {
        seeds,
        without,
        log,
        places,
        threads,
        planted: plants,
        bug,
    } = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if plants {
        return planted(seeds, &bug);
    }
    let of_seed = |seed| Run {
        seed,
        without: without.clone(),
        keeps_log: log,
        places: places.clone(),
    };
    let begin = now();
    let (next, totals) = (AtomicU64::new(seeds.start), Mutex::new(Totals::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let report = run(&of_seed(seed));
            let mut totals = totals.lock().expect("no other thread panicked");
            if log {
                let lines = report.programs.iter().chain(&report.acts).chain(&report.log);
                lines.for_each(|line| println!("{line}"));
            }
            totals.add(seed, &report);
            if !report.violations.is_empty() {
                println!("seed {seed} fails:");
                print_violations(&report);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let totals = totals.into_inner().expect("no thread panicked");
    totals.print(&seeds, begin.elapsed().as_secs_f64());
    match totals.failed.iter().min() {
        None => ExitCode::SUCCESS,
        Some(first) => {
            print_smaller(&of_seed(*first));
            ExitCode::FAILURE
        }
    }
}

/// Prints the first 10 violations.
fn print_violations(report: &Report) {
    let violations = report.violations.iter().take(10);
    violations.for_each(|violation| println!("  {violation}"));
}

/// Prints a failing run, shrunk to few acts of its plan, and the command that runs it again.
fn print_smaller(failing: &Run) {
    let smaller = Run {
        without: shrink(failing),
        keeps_log: false,
        ..failing.clone()
    };
    let report = run(&smaller);
    println!("\nseed {}, made smaller:", smaller.seed);
    report.acts.iter().for_each(|act| println!("  {act}"));
    print_violations(&report);
    let without: Vec<String> = smaller.without.iter().map(usize::to_string).collect();
    let places: Vec<String> = smaller.places.iter().map(Place::to_string).collect();
    let on = if places.is_empty() {
        String::new()
    } else {
        format!(" --on {}", places.join(","))
    };
    println!(
        "again: cargo run --bin perdure-simulator -- --seed {} --without {}{on} --log",
        smaller.seed,
        without.join(",")
    );
}

#[expect(clippy::disallowed_methods, reason = "how fast it is, not what it does")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
