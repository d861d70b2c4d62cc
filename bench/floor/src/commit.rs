//! One durable commit: `BEGIN IMMEDIATE`, one row, `COMMIT`, again and again.

use std::time::Instant;

use rusqlite::{Connection, params};

use crate::Failure;
use crate::arguments::Arguments;
use crate::store;

pub(crate) fn run(arguments: &Arguments) -> Result<String, Failure> {
    let count: i64 = arguments.number("count", None)?;
    let connection = store::create(arguments)?;
    let warm = arguments.number("warm", Some(0))?;
    commits(&connection, 0, warm)?;
    let times = commits(&connection, warm, count)?;
    let singles: Vec<String> = times.iter().map(|ms| format!("{ms:.6}")).collect();
    Ok(format!(r#"{{"commitMs":[{}]}}"#, singles.join(",")))
}

/// How long each of them took, ms.
fn commits(connection: &Connection, first: i64, count: i64) -> Result<Vec<f64>, Failure> {
    let mut begin = connection.prepare("BEGIN IMMEDIATE")?;
    let mut commit = connection.prepare("COMMIT")?;
    let mut append = connection.prepare(
        "INSERT INTO history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
         VALUES (1, 1, ?1, 1763000000000, 'ActivityCompleted', ?2, NULL, ?3, NULL)",
    )?;
    let mut times = Vec::new();
    for event in first + 1..=first + count {
        let payload = event.to_string();
        let began = Instant::now();
        begin.execute([])?;
        append.execute(params![event, event - 1, payload])?;
        commit.execute([])?;
        times.push(began.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(times)
}
