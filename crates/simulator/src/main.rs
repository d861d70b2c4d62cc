//! `perdure-simulator --seeds A..B`: run seeds and say what came of them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use perdure_simulator::{Figures, Report, Run, run, shrink};

const HELP: &str = "Usage: perdure-simulator [--seeds A..B] [--seed N [--without a,b,c] [--log]] [--threads N]

  --seeds A..B     run the seeds from A up to B, without B (0..1000)
  --seed N         run one seed
  --without a,b    leave out these acts of its plan
  --log            print the programs, the plan, and what happens, line by line
  --planted        plant each bug on purpose, and say after how many of the seeds 0..B it is found (feature planted)
  --threads N      seeds that run at once (as many as there are cores)

Exit code: 0 all is well, 1 a seed has failed, 2 the arguments are wrong.";

struct Arguments {
    seeds: std::ops::Range<u64>,
    without: BTreeSet<usize>,
    log: bool,
    threads: usize,
    planted: bool,
}

fn arguments() -> Result<Arguments, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parsed = Arguments {
        seeds: 0..1_000,
        without: BTreeSet::new(),
        log: false,
        threads: cores,
        planted: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--planted" {
            parsed.planted = true;
            continue;
        }
        if name == "--log" {
            parsed.log = true;
            continue;
        }
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} is unknown or needs a value"))?;
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("{name}: '{text}' is no number"))
        };
        match name.as_str() {
            "--seeds" => {
                let (from, to) = value
                    .split_once("..")
                    .ok_or_else(|| format!("--seeds: '{value}' is not like 0..1000"))?;
                parsed.seeds = number(from)?..number(to)?;
            }
            "--seed" => parsed.seeds = number(&value)?..number(&value)? + 1,
            "--without" => {
                let places = value.split(',').map(|place| number(place).map(|place| place as usize));
                parsed.without = places.collect::<Result<_, _>>()?;
            }
            "--threads" => parsed.threads = number(&value)?.max(1) as usize,
            _ => return Err(format!("{name} is unknown")),
        }
    }
    Ok(parsed)
}

#[derive(Default)]
struct Totals {
    fired: BTreeMap<&'static str, u64>,
    virtual_ms: u64,
    instances: u64,
    figures: Figures,
    failed: Vec<u64>,
}

impl Totals {
    fn add(&mut self, seed: u64, report: &Report) {
        for (fault, times) in &report.fired {
            *self.fired.entry(fault).or_default() += times;
        }
        self.virtual_ms += report.virtual_ms;
        self.instances += report.instances;
        self.figures += report.figures;
        if !report.violations.is_empty() {
            self.failed.push(seed);
        }
    }
}

/// Plant each bug, and say after how many seeds it is found.
#[cfg(feature = "planted")]
fn planted(seeds: u64) -> ExitCode {
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

#[cfg(not(feature = "planted"))]
fn planted(_seeds: u64) -> ExitCode {
    eprintln!(
        "--planted needs the feature: cargo run --profile simulation -p perdure-simulator --features planted -- --planted"
    );
    ExitCode::from(2)
}

fn main() -> ExitCode {
    let Arguments {
        seeds,
        without,
        log,
        threads,
        planted: plants,
    } = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if plants {
        return planted(seeds.end);
    }
    let begin = now();
    let (next, totals) = (AtomicU64::new(seeds.start), Mutex::new(Totals::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let this = Run {
                seed,
                without: without.clone(),
                keeps_log: log,
            };
            let report = run(&this);
            let mut totals = totals.lock().expect("no other thread panicked");
            report
                .programs
                .iter()
                .chain(&report.acts)
                .filter(|_| log)
                .for_each(|line| println!("{line}"));
            report.log.iter().for_each(|line| println!("{line}"));
            totals.add(seed, &report);
            if !report.violations.is_empty() {
                println!("seed {seed} fails:");
                report
                    .violations
                    .iter()
                    .take(10)
                    .for_each(|violation| println!("  {violation}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let totals = totals.into_inner().expect("no thread panicked");
    print(&totals, seeds.end - seeds.start, begin.elapsed().as_secs_f64());
    let Some(first) = totals.failed.iter().min() else {
        return ExitCode::SUCCESS;
    };
    let smaller = shrink(&Run {
        seed: *first,
        without,
        keeps_log: false,
    });
    let report = run(&Run {
        seed: *first,
        without: smaller.clone(),
        keeps_log: false,
    });
    println!("\nseed {first}, made smaller:");
    report.acts.iter().for_each(|act| println!("  {act}"));
    report.violations.iter().for_each(|violation| println!("  {violation}"));
    let without: Vec<String> = smaller.iter().map(usize::to_string).collect();
    println!(
        "again: cargo run -p perdure-simulator -- --seed {first} --without {} --log",
        without.join(",")
    );
    ExitCode::FAILURE
}

#[expect(clippy::disallowed_methods, reason = "how fast it is, not what it does")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

fn print(totals: &Totals, seeds: u64, seconds: f64) {
    let hours = totals.virtual_ms as f64 / 3_600_000.0;
    println!(
        "{seeds} seeds in {seconds:.1} s, {:.1} seeds a second, {hours:.1} simulated hours",
        seeds as f64 / seconds
    );
    let instances = totals.instances;
    let Figures {
        turns,
        events,
        attempts,
        repeated,
        stale,
        unaware,
    } = totals.figures;
    println!(
        "{instances} instances, {turns} turns, {events} events, {attempts} attempts ({repeated} again, {unaware} unaware), {stale} stale writes rejected"
    );
    for (fault, times) in &totals.fired {
        println!("{times:>9} x {fault}");
    }
    println!(
        "{} passed, {} failed",
        seeds - totals.failed.len() as u64,
        totals.failed.len()
    );
}
