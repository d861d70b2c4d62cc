//! Single durable commits, the same for every store: one row, again and again.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::arguments::Arguments;

/// The row that a commit writes.
pub(crate) const APPEND: &str =
    "INSERT INTO history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
   VALUES (1, 1, $1, 1763000000000, 'ActivityCompleted', $2, NULL, $3, NULL)";

/// Calls `commit` with the number of the event, `--warm` times and then `--count` times. Returns the times of the
/// latter, ms. With `--pause` the process sleeps for so many ms before each pair of these.
pub(crate) fn timed(
    arguments: &Arguments,
    mut commit: impl FnMut(i64, &str) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let warm: i64 = arguments.number("warm", Some(0))?;
    let count: i64 = arguments.number("count", None)?;
    let pause = Duration::from_millis(arguments.number("pause", Some(0))?);
    let mut singles = Vec::new();
    for event in 1..=warm + count {
        let payload = event.to_string();
        if event > warm && (event - warm) % 2 == 1 {
            sleep(pause);
        }
        let began = Instant::now();
        commit(event, &payload)?;
        if event > warm {
            singles.push(format!("{:.6}", began.elapsed().as_secs_f64() * 1_000.0));
        }
    }
    Ok(format!(r#"{{"commitMs":[{}]}}"#, singles.join(",")))
}
