//! Shared by both benchmarks, so that they write the same rows.
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::path::PathBuf;
use std::time::Instant;

/// Instances that take their steps in turn.
pub(crate) const INSTANCES: usize = 100;
/// Steps in a transaction.
pub(crate) const BATCH: usize = 64;
/// Name of their orchestration.
pub(crate) const NAME: &str = "chain";
/// Id of their worker.
pub(crate) const OWNER: &str = "0198a7b2-1111-7222-8333-444455556666";
/// Input and output of each step.
pub(crate) const PAYLOAD: &str = "{\"n\":12345}";
/// A time, ms since 1970.
pub(crate) const START_MS: i64 = 1_763_717_000_000;

/// Command line: the file to write, and the number of steps.
pub(crate) struct Arguments {
    pub(crate) file: PathBuf,
    pub(crate) steps: usize,
}

impl Arguments {
    /// Reads the arguments. Removes the file if it exists. Each instance takes the same number of steps.
    pub(crate) fn read() -> Self {
        let mut arguments = std::env::args_os().skip(1);
        let (Some(file), Some(steps), None) = (arguments.next(), arguments.next(), arguments.next()) else {
            panic!("two arguments: a file, which is replaced, and a number of steps");
        };
        for suffix in ["", "-wal", "-shm"] {
            let mut name = file.clone();
            name.push(suffix);
            let _ = std::fs::remove_file(name);
        }
        let steps: Option<usize> = steps.to_str().and_then(|text| text.parse().ok());
        let steps = steps
            .expect("the second argument is a number of steps")
            .next_multiple_of(INSTANCES);
        Self {
            file: file.into(),
            steps,
        }
    }
}

/// Returns the duration of some work, seconds.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn seconds<E>(work: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Returns the median duration of some repetitions, ms.
pub(crate) fn median_ms<E>(repetitions: usize, mut work: impl FnMut(usize) -> Result<(), E>) -> Result<f64, E> {
    let mut times = (0..repetitions)
        .map(|n| seconds(|| work(n)))
        .collect::<Result<Vec<_>, E>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[repetitions / 2] * 1_000.0)
}
