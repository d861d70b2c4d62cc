//! The raw batched writer: prepared statements, a transaction for each batch.

use rusqlite::{Connection, Statement, params};

use super::store;
use crate::Failure;
use crate::arguments::Arguments;
use crate::chain::{Chain, Event, TIME_MS, WORKER, timed};

pub(crate) fn run(arguments: &Arguments) -> Result<String, Failure> {
    let chain = Chain::of(arguments)?;
    let connection = store::create(arguments)?;
    let mut writer = Writer::new(&connection)?;
    timed(arguments, |prefix| writer.write(&chain, prefix))
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
                "UPDATE instances SET next_event_id = ?2, turns = turns + 1, updated_at = ?3, status = 'Running'
                 WHERE key = ?1",
            )?,
            end: connection.prepare(
                "UPDATE instances SET next_event_id = ?2, turns = ?3, updated_at = ?4, completed_at = ?4,
                 status = 'Completed',
                   owner = NULL WHERE key = ?1",
            )?,
        })
    }

    fn write(&mut self, chain: &Chain, prefix: &str) -> Result<(), Failure> {
        let mut keys: Vec<i64> = Vec::new();
        let mut in_batch = 0;
        for turn in 0..chain.steps + 2 {
            for instance in 0..chain.instances {
                if in_batch == 0 {
                    self.begin.execute([])?;
                }
                if turn == 0 {
                    keys.push(self.started(chain, &format!("{prefix}-{instance}"))?);
                } else {
                    let key = keys[usize::try_from(instance)?];
                    self.turn(chain, key, turn)?;
                }
                in_batch += 1;
                if in_batch == chain.batch {
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

    fn started(&mut self, chain: &Chain, id: &str) -> Result<i64, Failure> {
        self.start.execute(params![id, chain.name(), WORKER, TIME_MS])?;
        let key = self.connection.last_insert_rowid();
        self.append(key, &chain.started())?;
        Ok(key)
    }

    fn turn(&mut self, chain: &Chain, key: i64, number: i64) -> Result<(), Failure> {
        let turn = chain.turn(number);
        if turn.ends {
            self.end
                .execute(params![key, turn.next_event, turn.number, turn.time])?;
        } else if chain.updates {
            self.hold.execute(params![key, turn.next_event, turn.time])?;
        }
        if let Some(completed) = &turn.completed {
            self.append(key, completed)?;
        }
        self.append(key, &turn.then)
    }

    fn append(&mut self, key: i64, event: &Event) -> Result<(), Failure> {
        self.append.execute(params![
            key,
            event.id,
            event.time,
            event.kind,
            event.ref_id,
            event.name,
            event.payload,
            event.meta
        ])?;
        Ok(())
    }
}
