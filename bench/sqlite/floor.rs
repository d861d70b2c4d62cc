//! The floor that benchmarks compare with: the rows of sequential steps, written by a bare SQLite loop.
//!
//! Not the provider: no queue, no thread, no answer. The same tables and the same statements, 100 instances in turn,
//! one update and two history rows for each step, 64 steps in a transaction, WAL and `synchronous=FULL`. It prints one
//! line of JSON: steps per second, and the median of a commit of one row in ms.
//!
//! ```sh
//! cargo run --release -p perdure-provider-sqlite --example floor -- floor.db 50000
//! ```

mod common;

use std::path::Path;

use common::{Arguments, BATCH, INSTANCES, NAME, OWNER, PAYLOAD, START_MS, median_ms, seconds};
use rusqlite::{Connection, params};

/// Commits of one row for the median.
const COMMITS: usize = 500;

fn main() -> rusqlite::Result<()> {
    let Arguments { file, steps } = Arguments::read();
    let connection = open(&file)?;
    let taken = seconds(|| write_steps(&connection, steps))?;
    let commit_ms = median_ms(COMMITS, |n| write_row(&connection, n))?;
    println!(
        "{{\"floorStepsPerSecond\":{:.0},\"floorCommitMs\":{commit_ms:.3}}}",
        steps as f64 / taken
    );
    Ok(())
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.execute_batch(
        "PRAGMA journal_mode = wal; PRAGMA synchronous = full; PRAGMA foreign_keys = off; PRAGMA temp_store = memory;
         PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -16384",
    )?;
    let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
    assert_eq!(synchronous, 2, "a floor without durability is none");
    connection.execute_batch(include_str!(
        "../../crates/provider-sqlite/src/migrations/0001_first.sql"
    ))?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for n in 0..INSTANCES {
        connection.execute(
            "INSERT INTO instances (id, name, version, execution, status, owner, epoch, next_event_id, turns,
               custom_status_version, priority, created_at, updated_at)
             VALUES (?1, ?2, '1.0.0', 1, 'Running', ?3, 1, 2, 0, 0, 0, ?4, ?4)",
            params![format!("chain-{n}"), NAME, OWNER, START_MS],
        )?;
    }
    connection.execute_batch("COMMIT")?;
    Ok(connection)
}

fn write_steps(connection: &Connection, steps: usize) -> rusqlite::Result<()> {
    let mut update = connection.prepare(
        "UPDATE instances SET next_event_id = ?6, turns = turns + 1, updated_at = ?7, status = 'Running'
         WHERE key = ?1 AND owner = ?2 AND epoch = ?3 AND execution = ?4 AND next_event_id = ?5",
    )?;
    let mut insert = connection.prepare(
        "INSERT INTO history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let none = None::<&str>;
    for step in 0..steps {
        if step % BATCH == 0 {
            connection.execute_batch("BEGIN IMMEDIATE")?;
        }
        let (key, event) = ((step % INSTANCES) as i64 + 1, (step / INSTANCES) as i64 * 2 + 2);
        let time = START_MS + step as i64;
        let changed = update.execute(params![key, OWNER, 1, 1, event, event + 2, time])?;
        assert_eq!(changed, 1, "the fence holds");
        insert.execute(params![
            key,
            1,
            event,
            time,
            "ActivityCompleted",
            event - 1,
            none,
            PAYLOAD,
            none
        ])?;
        insert.execute(params![
            key,
            1,
            event + 1,
            time,
            "ActivityScheduled",
            None::<i64>,
            "step",
            PAYLOAD,
            none
        ])?;
        if step % BATCH == BATCH - 1 || step == steps - 1 {
            connection.execute_batch("COMMIT")?;
        }
    }
    Ok(())
}

fn write_row(connection: &Connection, n: usize) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO history (instance_key, execution, event_id, time, kind, payload)
         VALUES (0, 1, ?1, ?2, 'ActivityCompleted', ?3)",
        params![n as i64, START_MS, PAYLOAD],
    )?;
    Ok(())
}
