//! The raw batched writer: `instances` instances of `steps` sequential activities, as Perdure leaves them.
//!
//! An instance is `steps + 2` writes: its start; the turn that schedules the first activity; for each further one the turn
//! that records the one before and schedules it; and the turn that ends it. Writes go round the instances, `batch` of them
//! to a transaction. With `--rows appended` a turn appends its events and leaves the instance's row alone until the end.

use std::time::Instant;

use rusqlite::{Connection, Statement, params};

use crate::Failure;
use crate::arguments::Arguments;
use crate::store;

const WORKER: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const TIME_MS: i64 = 1_763_000_000_000;
const STARTED_META: &str = r#"{"version":"1.0.0","seed":"12345678901234567890"}"#;

struct Shape {
    instances: i64,
    steps: i64,
    batch: i64,
    updates: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<String, Failure> {
    let shape = Shape {
        instances: arguments.number("instances", None)?,
        steps: arguments.number("steps", None)?,
        batch: arguments.number("batch", Some(64))?,
        updates: arguments.word("rows", "all") == "all",
    };
    let connection = store::create(arguments)?;
    let mut writer = Writer::new(&connection)?;
    if arguments.number("warm", Some(0))? != 0 {
        writer.write(&shape, "warm")?;
    }
    let mut seconds = Vec::new();
    for n in 0..arguments.number("repeat", Some(1))? {
        let began = Instant::now();
        writer.write(&shape, &format!("run{n}"))?;
        seconds.push(began.elapsed().as_secs_f64().to_string());
    }
    Ok(format!(r#"{{"seconds":[{}]}}"#, seconds.join(",")))
}

struct Writer<'c> {
    connection: &'c Connection,
    begin: Statement<'c>,
    commit: Statement<'c>,
    start: Statement<'c>,
    append: Statement<'c>,
    hold: Statement<'c>,
    end: Statement<'c>,
}

impl<'c> Writer<'c> {
    fn new(connection: &'c Connection) -> Result<Self, Failure> {
        Ok(Self {
            connection,
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            start: connection.prepare(
                "INSERT INTO instances (id, name, version, execution, status, owner, epoch, next_event_id, turns,
                   custom_status_version, priority, created_at, updated_at)
                 VALUES (?1, ?2, '1.0.0', 1, 'Pending', ?3, 1, 2, 0, 0, 0, ?4, ?4)",
            )?,
            append: connection.prepare(
                "INSERT INTO history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
                 VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?,
            hold: connection.prepare(
                "UPDATE instances SET next_event_id = ?2, turns = turns + 1, updated_at = ?3, status = 'Running' WHERE key = ?1",
            )?,
            end: connection.prepare(
                "UPDATE instances SET next_event_id = ?2, turns = ?3, updated_at = ?4, completed_at = ?4, status = 'Completed',
                   owner = NULL WHERE key = ?1",
            )?,
        })
    }

    fn write(&mut self, shape: &Shape, prefix: &str) -> Result<(), Failure> {
        let mut keys: Vec<i64> = Vec::new();
        let mut in_batch = 0;
        for turn in 0..shape.steps + 2 {
            for instance in 0..shape.instances {
                if in_batch == 0 {
                    self.begin.execute([])?;
                }
                if turn == 0 {
                    keys.push(self.started(shape, &format!("{prefix}-{instance}"))?);
                } else {
                    let key = keys[usize::try_from(instance)?];
                    self.turn(shape, key, turn)?;
                }
                in_batch += 1;
                if in_batch == shape.batch {
                    self.commit.execute([])?;
                    in_batch = 0;
                }
            }
        }
        if in_batch > 0 {
            self.commit.execute([])?;
        }
        Ok(())
    }

    fn started(&mut self, shape: &Shape, id: &str) -> Result<i64, Failure> {
        let name = if shape.steps == 1 { "hello" } else { "chain" };
        self.start.execute(params![id, name, WORKER, TIME_MS])?;
        let key = self.connection.last_insert_rowid();
        let input = shape.steps.to_string();
        self.append.execute(params![
            key,
            1,
            TIME_MS,
            "ExecutionStarted",
            None::<i64>,
            name,
            input,
            STARTED_META
        ])?;
        Ok(key)
    }

    /// Turn 1 schedules the first activity, which is event 2; turn `n` records that of turn `n - 1`.
    fn turn(&mut self, shape: &Shape, key: i64, turn: i64) -> Result<(), Failure> {
        let last = turn > shape.steps;
        let mut event = 2 * turn - 1;
        let done = (turn - 1).to_string();
        let now = TIME_MS + turn;
        let events = i64::from(turn > 1) + 1;
        if turn == 1 {
            event += 1;
        }
        let next = event + events;
        if last {
            self.end.execute(params![key, next, turn, now])?;
        } else if shape.updates {
            self.hold.execute(params![key, next, now])?;
        }
        if turn > 1 {
            self.append.execute(params![
                key,
                event,
                now,
                "ActivityCompleted",
                event - 1,
                None::<&str>,
                done,
                None::<&str>
            ])?;
            event += 1;
        }
        if last {
            self.append.execute(params![
                key,
                event,
                now,
                "ExecutionCompleted",
                None::<i64>,
                None::<&str>,
                done,
                None::<&str>
            ])?;
        } else {
            self.append.execute(params![
                key,
                event,
                now,
                "ActivityScheduled",
                None::<i64>,
                "next",
                done,
                None::<&str>
            ])?;
        }
        Ok(())
    }
}
