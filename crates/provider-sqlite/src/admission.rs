//! The admission of instances from queues, within an acquisition (P24). One transaction writes at a time, so a queue
//! needs no other lock.

use std::collections::{BTreeSet, HashMap};

use perdure_provider::{
    ADMISSION_KEYS_MAX, ADMISSION_ROUNDS_MAX, Acquire, Acquired, AcquiredInstance, Admissions, InstanceKey, KeyState,
    KeyWait, OPEN_VERSION, Pass, QueuePlace, QueueSettings, QueueState, SlotCount, Step, Waiting,
};
use rusqlite::{Connection, OptionalExtension, Row, Statement, ToSql, params};

use crate::acquire::{self, Line, earliest};
use crate::error::Failure;
use crate::inbox;
use crate::queues;
use crate::rows::integer;
use crate::session::Session;

/// Most delayed instances that a pass puts into the line. The next pass goes on.
const DELAYED_MAX: usize = 1_000;

/// Most rows of keys that a pass deletes because their admissions no longer count.
const OLD_KEYS_MAX: usize = 100;

/// The queues that a request may get instances from.
pub(crate) struct FoundQueues {
    names: Vec<String>,
    /// The time at which the next delayed instance is due, ms since 1970.
    next_at_ms: Option<i64>,
}

impl FoundQueues {
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) const fn next_at_ms(&self) -> Option<i64> {
        self.next_at_ms
    }
}

/// Looks for queues with instances that wait for a slot and that the worker can run, or with delayed instances that are
/// due. This takes no lock: it runs on a reader's connection.
pub(crate) fn find(connection: &Connection, request: &Acquire, now_ms: i64) -> Result<FoundQueues, Failure> {
    let mut found = FoundQueues {
        names: Vec::new(),
        next_at_ms: None,
    };
    let mut all = connection.prepare_cached("SELECT name FROM queues ORDER BY name")?;
    let names = all.query_map([], |row| row.get::<_, String>(0))?;
    for name in names {
        let name = name?;
        if let Some(at_ms) = next_delayed(connection, request, &name, now_ms)? {
            earliest(&mut found.next_at_ms, at_ms);
        }
        if is_delayed_due(connection, &name, now_ms)? || is_wanted(connection, request, &name)? {
            found.names.push(name);
        }
    }
    Ok(found)
}

/// Returns true if the start time of an instance has come, whether or not the worker can run it.
fn is_delayed_due(connection: &Connection, queue: &str, now_ms: i64) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM queued_instances INDEXED BY queued_instances_delayed
         WHERE queue = ?1 AND place = 3 AND queued_at <= ?2)",
    )?;
    Ok(statement.query_row(params![queue, now_ms], |row| row.get(0))?)
}

/// Returns the next start time of an instance that the worker can run.
fn next_delayed(connection: &Connection, request: &Acquire, queue: &str, now_ms: i64) -> Result<Option<i64>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT min(queued_at) FROM queued_instances INDEXED BY queued_instances_delayed_sorts
         WHERE place = 3 AND queue = ?1 AND name = ?2 AND version = ?3 AND queued_at > ?4",
    )?;
    let mut next = None;
    for (name, version) in sorts(connection, request, queue, DELAYED)? {
        let at_ms: Option<i64> = statement.query_row(params![queue, name, version, now_ms], |row| row.get(0))?;
        if let Some(at_ms) = at_ms {
            earliest(&mut next, at_ms);
        }
    }
    Ok(next)
}

/// Returns true if instances wait for a slot that the worker can run.
fn is_wanted(connection: &Connection, request: &Acquire, queue: &str) -> Result<bool, Failure> {
    Ok(!sorts(connection, request, queue, IN_LINE)?.is_empty() || !sorts(connection, request, queue, HELD)?.is_empty())
}

/// Returns the time at which the next key has a token.
fn next_token(connection: &Connection, queue: &str) -> Result<Option<i64>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT min(next_at) FROM queue_keys WHERE queue = ?1 AND waits_for = 2")?;
    Ok(statement.query_row(params![queue], |row| row.get(0))?)
}

/// Builds the queries for the orchestrations of the instances in a place, which are found one after the other: the next
/// version of one, and the first version of the next one. A comparison of both columns at once would walk over all
/// instances of the orchestration.
macro_rules! sorts_of {
    ($index:literal, $place:literal) => {
        [
            sorts_of!($index, $place, " AND name = ?1 AND version > ?2"),
            sorts_of!($index, $place, " AND name > ?1"),
        ]
    };
    ($index:literal, $place:literal, $after:literal) => {
        concat!(
            "SELECT name, version FROM queued_instances INDEXED BY ",
            $index,
            " WHERE place = ",
            $place,
            $after,
            " ORDER BY name, version LIMIT 1"
        )
    };
}

const IN_LINE: [&str; 2] = sorts_of!("queued_instances_line", "0 AND queue = ?3");
const HELD: [&str; 2] = sorts_of!("queued_instances_held_sorts", "1 AND queue = ?3");
const DELAYED: [&str; 2] = sorts_of!("queued_instances_delayed_sorts", "3 AND queue = ?3");
const HELD_OF_KEY: [&str; 2] = sorts_of!("queued_instances_held", "1 AND queue = ?3 AND queue_key = ?4");

/// Returns the orchestrations of the instances in a place that the worker can run.
fn sorts(
    connection: &Connection,
    request: &Acquire,
    queue: &str,
    place: [&str; 2],
) -> Result<Vec<(String, String)>, Failure> {
    let mut sorts = all_sorts(connection, place, &[&queue])?;
    sorts.retain(|sort| request.registered.contains(sort));
    Ok(sorts)
}

/// Returns the orchestrations of the instances in a place. `of` are the values from the third on.
fn all_sorts(
    connection: &Connection,
    [version, name]: [&str; 2],
    of: &[&dyn ToSql],
) -> Result<Vec<(String, String)>, Failure> {
    let (mut version, mut name) = (connection.prepare_cached(version)?, connection.prepare_cached(name)?);
    let next = |statement: &mut Statement<'_>, name: &str, version: &str| {
        let values: Vec<&dyn ToSql> = [&name as &dyn ToSql, &version]
            .into_iter()
            .chain(of.iter().copied())
            .collect();
        let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        statement.query_row(&*values, read).optional()
    };
    let mut sorts = Vec::new();
    // No orchestration has an empty name.
    let mut sort = next(&mut name, "", "")?;
    while let Some(found) = sort {
        sort = next(&mut version, &found.0, &found.1)?;
        if sort.is_none() {
            sort = next(&mut name, &found.0, "")?;
        }
        sorts.push(found);
    }
    Ok(sorts)
}

/// Acquires instances in line for a worker, as many as there is room for.
pub(crate) fn admit(
    session: &mut Session<'_>,
    request: &Acquire,
    found: &FoundQueues,
    acquired: &mut Acquired,
) -> Result<(), Failure> {
    for queue in &found.names {
        Admission {
            session,
            request,
            queue,
            sizes: HashMap::new(),
        }
        .pass(acquired)?;
    }
    Ok(())
}

/// One pass over the line of a queue.
struct Admission<'a, 'c> {
    session: &'a mut Session<'c>,
    request: &'a Acquire,
    queue: &'a str,
    /// Bytes to load of the instances that were looked at.
    sizes: HashMap<InstanceKey, usize>,
}

impl Admission<'_, '_> {
    fn pass(mut self, acquired: &mut Acquired) -> Result<(), Failure> {
        let Some(state) = self.state()? else { return Ok(()) };
        let (queue, now_ms) = (self.queue, self.session.now_ms());
        if self.take_delayed_in()? {
            acquired.look_again_at(now_ms);
        }
        self.sweep()?;
        if !is_wanted(self.session.connection(), self.request, queue)? {
            return self.note_delayed(acquired);
        }
        let slots = if state.settings.counts_slots() {
            self.slots()?
        } else {
            Vec::new()
        };
        let before = state.clone();
        let room = self.request.limit.rows.saturating_sub(acquired.instances.len());
        let mut pass = Pass::new(state, slots, room, now_ms);
        if pass.left() > 0 {
            let keys = self.keys_whose_time_has_come()?;
            let step = pass.begin(keys);
            self.carry_out(&step, &before.settings, acquired)?;
            for _ in 0..ADMISSION_ROUNDS_MAX {
                let line = self.line(pass.round_size(), acquired)?;
                let keys = self.keys_of(&line, &before.settings)?;
                let step = pass.round(line, keys);
                self.carry_out(&step, &before.settings, acquired)?;
                if step.is_last || pass.left() == 0 {
                    break;
                }
            }
        }
        if *pass.queue() != before {
            self.session.execute(
                "UPDATE queues SET admitted = ?2, turn = ?3 WHERE name = ?1",
                params![queue, pass.queue().admitted.to_text(), pass.queue().turn],
            )?;
        }
        self.note_rest(&pass, acquired)
    }

    /// Notes when the queue is to be looked at again.
    fn note_rest(&self, pass: &Pass, acquired: &mut Acquired) -> Result<(), Failure> {
        let (connection, queue) = (self.session.connection(), self.queue);
        let is_line_left = !sorts(connection, self.request, queue, IN_LINE)?.is_empty();
        if is_line_left && let Some(at_ms) = pass.next_at_ms() {
            acquired.look_again_at(at_ms);
        }
        if let Some(at_ms) = next_token(connection, queue)?.filter(|_| !pass.waits_for_slots()) {
            acquired.look_again_at(at_ms);
        }
        acquired.slots_wanted |= is_line_left || !sorts(connection, self.request, queue, HELD)?.is_empty();
        self.note_delayed(acquired)
    }

    fn note_delayed(&self, acquired: &mut Acquired) -> Result<(), Failure> {
        let now_ms = self.session.now_ms();
        if let Some(at_ms) = next_delayed(self.session.connection(), self.request, self.queue, now_ms)? {
            acquired.look_again_at(at_ms);
        }
        Ok(())
    }

    fn state(&self) -> Result<Option<QueueState>, Failure> {
        let row = self.session.query_optional(
            "SELECT settings, admitted, turn FROM queues WHERE name = ?1",
            params![self.queue],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get(2)?)),
        )?;
        let Some((settings, admitted, turn)) = row else {
            return Ok(None);
        };
        let settings = QueueSettings::read(&settings).ok_or_else(|| queues::broken(self.queue))?;
        Ok(Some(QueueState {
            settings,
            admitted: Admissions::read(&admitted),
            turn,
        }))
    }

    /// Puts delayed instances into the line that are due. Returns true if there may be more than a pass looks at.
    fn take_delayed_in(&self) -> Result<bool, Failure> {
        let due = self.session.query_all(
            "SELECT instance_key, queue_key FROM queued_instances INDEXED BY queued_instances_delayed
             WHERE queue = ?1 AND place = 3 AND queued_at <= ?2 ORDER BY queued_at, instance_key LIMIT ?3",
            params![self.queue, self.session.now_ms(), integer(DELAYED_MAX as u64)],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
        )?;
        let may_be_more = due.len() == DELAYED_MAX;
        for (instance, key) in due {
            let turn = queues::next_turn(self.session, self.queue, &key)?;
            self.session.execute(
                "UPDATE queued_instances SET place = 0, turn = ?2 WHERE instance_key = ?1",
                params![instance, turn],
            )?;
        }
        Ok(may_be_more)
    }

    /// Deletes the rows of instances that had a slot, and have ended or are gone, and those of keys that say nothing
    /// any more.
    fn sweep(&self) -> Result<(), Failure> {
        self.session.execute(
            "DELETE FROM queued_instances WHERE instance_key IN (
               SELECT q.instance_key
               FROM queued_instances q INDEXED BY queued_instances_slots LEFT JOIN instances i ON i.key = q.instance_key
               WHERE q.queue = ?1 AND q.place = 2 AND (i.key IS NULL OR i.completed_at IS NOT NULL))",
            params![self.queue],
        )?;
        self.session.execute(
            "DELETE FROM queue_keys WHERE queue = ?1 AND queue_key IN (
               SELECT queue_key FROM queue_keys INDEXED BY queue_keys_waiting
               WHERE queue = ?1 AND waits_for = 0 AND next_at <= ?2 LIMIT ?3)",
            params![self.queue, self.session.now_ms(), integer(OLD_KEYS_MAX as u64)],
        )?;
        Ok(())
    }

    fn slots(&self) -> Result<Vec<SlotCount>, Failure> {
        self.session.query_all(
            "SELECT q.queue_key, count(*), sum(i.owner IS ?2)
             FROM queued_instances q INDEXED BY queued_instances_slots CROSS JOIN instances i ON i.key = q.instance_key
             WHERE q.queue = ?1 AND q.place = 2 GROUP BY q.queue_key",
            params![self.queue, &*self.request.worker.0],
            |row| {
                Ok(SlotCount {
                    key: row.get(0)?,
                    slots: row.get(1)?,
                    own: row.get(2)?,
                })
            },
        )
    }

    fn keys_whose_time_has_come(&self) -> Result<Vec<(String, KeyState)>, Failure> {
        self.session.query_all(
            "SELECT queue_key, admitted, waits_for, next_at FROM (
               SELECT * FROM queue_keys INDEXED BY queue_keys_waiting WHERE queue = ?1 AND waits_for = 3
               UNION ALL
               SELECT * FROM (SELECT * FROM queue_keys INDEXED BY queue_keys_waiting
                 WHERE queue = ?1 AND waits_for = 2 AND next_at <= ?2 ORDER BY next_at LIMIT ?3))",
            params![self.queue, self.session.now_ms(), integer(ADMISSION_KEYS_MAX as u64)],
            |row| {
                let state = KeyState {
                    admitted: Admissions::read(&row.get::<_, String>(1)?),
                    waits_for: KeyWait::of(row.get(2)?),
                    next_at_ms: row.get(3)?,
                };
                Ok((row.get(0)?, state))
            },
        )
    }

    /// Returns the rows of the keys of instances in line.
    fn keys_of(&self, line: &[Waiting], settings: &QueueSettings) -> Result<Vec<(String, KeyState)>, Failure> {
        let mut states = Vec::new();
        if settings.limits_keys() {
            let keys: BTreeSet<&String> = line.iter().map(|waiting| &waiting.key).collect();
            for key in keys {
                let state = queues::key_state(self.session.connection(), self.queue, key)?;
                states.extend(state.map(|state| (key.clone(), state)));
            }
        }
        Ok(states)
    }

    /// Returns the first instances in line that the worker can run.
    fn line(&mut self, limit: usize, acquired: &Acquired) -> Result<Vec<Waiting>, Failure> {
        let connection = self.session.connection();
        let (mut line, mut open) = (Vec::new(), BTreeSet::new());
        for (name, version) in sorts(connection, self.request, self.queue, IN_LINE)? {
            let mut first = connection.prepare_cached(
                "SELECT instance_key, queue_key, priority, turn, queued_at
                 FROM queued_instances INDEXED BY queued_instances_line
                 WHERE place = 0 AND queue = ?1 AND name = ?2 AND version = ?3
                 ORDER BY priority DESC, turn, queued_at, instance_key LIMIT ?4",
            )?;
            let rows = first.query_map(params![self.queue, name, version, integer(limit as u64)], |row| {
                Ok(Waiting {
                    instance: InstanceKey(row.get(0)?),
                    key: row.get(1)?,
                    priority: row.get(2)?,
                    turn: row.get(3)?,
                    queued_at_ms: row.get(4)?,
                })
            })?;
            for row in rows {
                let waiting = row?;
                if version == OPEN_VERSION {
                    open.insert(waiting.instance);
                }
                line.push(waiting);
            }
        }
        line.sort_unstable_by_key(Waiting::rank);
        line.truncate(limit);
        self.keep_own_versions(&mut line, &open)?;
        self.keep_what_fits(&mut line, acquired)?;
        Ok(line)
    }

    /// Settles the versions that are open, and drops the instances that other workers are to run. They stay in line.
    fn keep_own_versions(&self, line: &mut Vec<Waiting>, open: &BTreeSet<InstanceKey>) -> Result<(), Failure> {
        let mut others = BTreeSet::new();
        for Waiting { instance, .. } in line.iter().filter(|waiting| open.contains(&waiting.instance)) {
            if !acquire::settle_in_line(self.session, self.request, *instance)? {
                others.insert(*instance);
            }
        }
        line.retain(|waiting| !others.contains(&waiting.instance));
        Ok(())
    }

    /// Drops the instances for whose data the request has no room.
    fn keep_what_fits(&mut self, line: &mut Vec<Waiting>, acquired: &Acquired) -> Result<(), Failure> {
        let mut bytes: usize = acquired.instances.iter().map(|instance| instance.page_bytes).sum();
        for n in 0..line.len() {
            if acquired.instances.len() + n > 0 && bytes >= self.request.limit.bytes {
                line.truncate(n);
                break;
            }
            let size = self.page_bytes(line[n].instance)?;
            self.sizes.insert(line[n].instance, size);
            bytes += size;
        }
        Ok(())
    }

    fn page_bytes(&self, instance: InstanceKey) -> Result<usize, Failure> {
        match acquire::page_bytes(self.session.connection(), instance.0, self.request.history_page) {
            // The load that reads this row reports it.
            Err(failure) if failure.is_undecodable() => Ok(0),
            size => size,
        }
    }

    fn carry_out(&mut self, step: &Step, settings: &QueueSettings, acquired: &mut Acquired) -> Result<(), Failure> {
        let taken = self.take(&step.admitted)?;
        acquired.instances.extend(taken);
        for waiting in &step.held {
            self.put(waiting.instance, QueuePlace::Held)?;
        }
        for (key, state) in &step.keys {
            queues::put_key(self.session, self.queue, key, state)?;
        }
        for (key, count) in &step.released {
            self.release(key, *count, settings)?;
        }
        Ok(())
    }

    fn put(&self, instance: InstanceKey, place: QueuePlace) -> Result<(), Failure> {
        self.session.execute(
            "UPDATE queued_instances SET place = ?2 WHERE instance_key = ?1",
            params![instance.0, place.number()],
        )?;
        Ok(())
    }

    /// Gives slots to instances, and makes the worker their owner.
    fn take(&mut self, admitted: &[Waiting]) -> Result<Vec<AcquiredInstance>, Failure> {
        let mut taken = Vec::with_capacity(admitted.len());
        let seen = inbox::last(self.session.connection())?;
        for waiting in admitted {
            let key = waiting.instance;
            let page_bytes = self.sizes.get(&key).copied().unwrap_or_default();
            self.put(key, QueuePlace::Slot)?;
            let instance = acquire::take(self.session, self.request, key, seen, Line::Queue)?;
            taken.extend(instance.map(|instance| AcquiredInstance { page_bytes, ..instance }));
        }
        Ok(taken)
    }

    /// Lets the first held instances of a key into the line: so many of each orchestration and version.
    fn release(&self, key: &str, count: u32, settings: &QueueSettings) -> Result<(), Failure> {
        let connection = self.session.connection();
        let mut has_more = false;
        for (name, version) in all_sorts(connection, HELD_OF_KEY, &[&self.queue, &key])? {
            let held: Vec<i64> = self.session.query_all(
                "SELECT instance_key FROM queued_instances INDEXED BY queued_instances_held
                 WHERE place = 1 AND queue = ?1 AND queue_key = ?2 AND name = ?3 AND version = ?4
                 ORDER BY priority DESC, turn, queued_at, instance_key LIMIT ?5",
                params![self.queue, key, name, version, i64::from(count) + 1],
                |row| row.get(0),
            )?;
            has_more |= held.len() > count as usize;
            for instance in held.iter().take(count as usize) {
                self.put(InstanceKey(*instance), QueuePlace::Waits)?;
            }
        }
        if !has_more && let Some(state) = queues::key_state(connection, self.queue, key)? {
            let idle = KeyState::idle(state.admitted, settings.key_rate);
            queues::put_key(self.session, self.queue, key, &idle)?;
        }
        Ok(())
    }
}
