//! The raw batched writer. Each batch is a transaction of at most four prepared statements, which get their rows as
//! arrays.

use postgres::{Client, Statement, Transaction};

use super::store;
use crate::Failure;
use crate::arguments::Arguments;
use crate::chain::{Chain, Event, TIME_MS, Turn, WORKER, timed};

pub(crate) fn run(arguments: &Arguments) -> Result<String, Failure> {
    let chain = Chain::of(arguments)?;
    if chain.batch > chain.instances {
        return Err("a batch has at most one write of an instance, because one UPDATE writes them all".into());
    }
    let mut client = store::create(arguments)?;
    let statements = Statements::prepare(&mut client)?;
    timed(arguments, |prefix| write(&mut client, &statements, &chain, prefix))
}

struct Statements {
    start: Statement,
    append: Statement,
    hold: Statement,
    end: Statement,
}

impl Statements {
    fn prepare(client: &mut Client) -> Result<Self, Failure> {
        Ok(Self {
            // Keys come back in the order of the ids.
            start: client.prepare(
                "INSERT INTO instances (id, name, version, execution, status, owner, epoch, next_event_id, turns,
                   custom_status_version, priority, created_at, updated_at)
                 SELECT id, $2::text, '1.0.0', 1, 'Pending', $3::text, 1, 2, 0, 0, 0, $4::bigint, $4::bigint
                 FROM unnest($1::text[]) WITH ORDINALITY AS started (id, place) ORDER BY place
                 RETURNING key",
            )?,
            append: client.prepare(
                "INSERT INTO history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
                 SELECT instance_key, 1, event_id, time, kind, ref_id, name, payload, meta
                 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[],
                 $8::text[])
                   AS event (instance_key, event_id, time, kind, ref_id, name, payload, meta)",
            )?,
            hold: client.prepare(
                "UPDATE instances SET next_event_id = turn.next_event_id, turns = instances.turns + 1,
                   updated_at = turn.time, status = 'Running'
                 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS turn (key, next_event_id, time)
                 WHERE instances.key = turn.key",
            )?,
            end: client.prepare(
                "UPDATE instances SET next_event_id = turn.next_event_id, turns = turn.number, updated_at = turn.time,
                   completed_at = turn.time, status = 'Completed', owner = NULL
                 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS turn (key, next_event_id, time,
                 number)
                 WHERE instances.key = turn.key",
            )?,
        })
    }
}

fn write(client: &mut Client, statements: &Statements, chain: &Chain, prefix: &str) -> Result<(), Failure> {
    let mut keys: Vec<i64> = Vec::new();
    let mut batch = Batch::default();
    for turn in 0..chain.steps + 2 {
        for instance in 0..chain.instances {
            if turn == 0 {
                batch.started.push(format!("{prefix}-{instance}"));
            } else {
                // The instances that were started first may have their first turn in the batch that starts the last
                // one.
                let turn = chain.turn(turn);
                batch.turn(keys[usize::try_from(instance)?], turn, chain.updates);
            }
            if batch.writes() == usize::try_from(chain.batch)? {
                std::mem::take(&mut batch).commit(client, statements, chain, &mut keys)?;
            }
        }
    }
    if batch.writes() > 0 {
        batch.commit(client, statements, chain, &mut keys)?;
    }
    Ok(())
}

/// The writes of one transaction.
#[derive(Default)]
struct Batch {
    /// Ids of new instances.
    started: Vec<String>,
    turns: usize,
    events: Events,
    holds: Changes,
    ends: Changes,
}

/// Rows of `history`, by column.
#[derive(Default)]
struct Events {
    instance_keys: Vec<i64>,
    ids: Vec<i64>,
    times: Vec<i64>,
    kinds: Vec<&'static str>,
    ref_ids: Vec<Option<i64>>,
    names: Vec<Option<&'static str>>,
    payloads: Vec<String>,
    metas: Vec<Option<&'static str>>,
}

/// Changes of rows of `instances`, by column.
#[derive(Default)]
struct Changes {
    keys: Vec<i64>,
    next_events: Vec<i64>,
    times: Vec<i64>,
    numbers: Vec<i64>,
}

impl Batch {
    fn writes(&self) -> usize {
        self.started.len() + self.turns
    }

    fn turn(&mut self, key: i64, turn: Turn, updates: bool) {
        self.turns += 1;
        if turn.ends {
            self.ends.push(key, &turn);
        } else if updates {
            self.holds.push(key, &turn);
        }
        self.events.extend(key, turn.completed);
        self.events.extend(key, Some(turn.then));
    }

    fn commit(
        mut self,
        client: &mut Client,
        statements: &Statements,
        chain: &Chain,
        keys: &mut Vec<i64>,
    ) -> Result<(), Failure> {
        let mut transaction = client.transaction()?;
        if !self.started.is_empty() {
            for key in start(&mut transaction, statements, chain, &self.started)? {
                keys.push(key);
                self.events.extend(key, Some(chain.started()));
            }
        }
        let events = &self.events;
        transaction.execute(
            &statements.append,
            &[
                &events.instance_keys,
                &events.ids,
                &events.times,
                &events.kinds,
                &events.ref_ids,
                &events.names,
                &events.payloads,
                &events.metas,
            ],
        )?;
        if !self.holds.keys.is_empty() {
            let holds = &self.holds;
            let changed = transaction.execute(&statements.hold, &[&holds.keys, &holds.next_events, &holds.times])?;
            holds.expect(changed)?;
        }
        if !self.ends.keys.is_empty() {
            let ends = &self.ends;
            let changed = transaction.execute(
                &statements.end,
                &[&ends.keys, &ends.next_events, &ends.times, &ends.numbers],
            )?;
            ends.expect(changed)?;
        }
        Ok(transaction.commit()?)
    }
}

impl Events {
    fn extend(&mut self, key: i64, event: Option<Event>) {
        let Some(event) = event else { return };
        self.instance_keys.push(key);
        self.ids.push(event.id);
        self.times.push(event.time);
        self.kinds.push(event.kind);
        self.ref_ids.push(event.ref_id);
        self.names.push(event.name);
        self.payloads.push(event.payload);
        self.metas.push(event.meta);
    }
}

impl Changes {
    fn push(&mut self, key: i64, turn: &Turn) {
        self.keys.push(key);
        self.next_events.push(turn.next_event);
        self.times.push(turn.time);
        self.numbers.push(turn.number);
    }

    fn expect(&self, changed: u64) -> Result<(), Failure> {
        if usize::try_from(changed)? == self.keys.len() {
            return Ok(());
        }
        Err(format!("an UPDATE changed {changed} rows instead of {}", self.keys.len()).into())
    }
}

fn start(
    transaction: &mut Transaction<'_>,
    statements: &Statements,
    chain: &Chain,
    ids: &[String],
) -> Result<Vec<i64>, Failure> {
    let rows = transaction.query(&statements.start, &[&ids, &chain.name(), &WORKER, &TIME_MS])?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
