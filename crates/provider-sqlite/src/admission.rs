//! The admission of instances and attempts from queues, within the request for them (P24, P27). One transaction writes
//! at a time, so a queue needs no other lock.

mod attempts;
mod instances;
mod new_slots;

use std::collections::{BTreeSet, HashMap};

use perdure_provider::{
    ADMISSION_KEYS_MAX, ADMISSION_ROUNDS_MAX, ATTEMPT_ENTRIES_FROM, Admissions, EntryKey, KeyState, KeyWait,
    OPEN_VERSION, PageLimit, Pass, QueuePlace, QueueSettings, QueueState, SlotCount, Step, Waiting, WorkerId,
};
use rusqlite::{Connection, OptionalExtension, Row, Statement, ToSql, params};

use crate::error::Failure;
use crate::queues;
use crate::rows::integer;
use crate::session::Session;

pub(crate) use new_slots::NewSlot;

/// A request of a worker, for instances or for attempts.
pub(crate) trait Request {
    fn worker(&self) -> &WorkerId;

    /// Returns the limit of what is taken.
    fn limit(&self) -> PageLimit;

    /// Returns true if the request is for entries of the queue.
    fn serves(&self, queue: &str) -> bool;

    /// Returns true if the worker can run entries of a name and version.
    fn can_run(&self, sort: &(String, String)) -> bool;
}

/// The answer to a request so far.
pub(crate) trait Answer {
    type Request: Request;

    /// Returns the number of entries that were taken.
    fn rows(&self) -> usize;

    /// Returns the bytes of what they are given.
    fn bytes(&self) -> usize;

    /// Returns the bytes of what an entry is given.
    fn size(session: &Session<'_>, request: &Self::Request, entry: EntryKey) -> Result<usize, Failure>;

    /// Settles the version of an entry, which is open. Returns false if the worker is not to run the entry.
    fn settle(session: &Session<'_>, request: &Self::Request, entry: EntryKey) -> Result<bool, Failure>;

    /// Gives entries of these sizes, which have slots now, to the worker.
    fn take(
        &mut self,
        session: &mut Session<'_>,
        request: &Self::Request,
        entries: &[(EntryKey, usize)],
    ) -> Result<(), Failure>;

    /// Notes that there may be something to take at a time, ms since 1970.
    fn look_again_at(&mut self, at_ms: i64);

    /// Notes that entries wait for a slot.
    fn want_slots(&mut self);
}

/// Most delayed entries that a pass puts into the line. The next pass goes on.
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

/// Looks for queues that are not paused, with entries that wait for a slot and that the worker can run, or with delayed
/// entries that are due. This takes no lock: it may run on a reader's connection.
pub(crate) fn find(connection: &Connection, request: &impl Request, now_ms: i64) -> Result<FoundQueues, Failure> {
    let mut found = FoundQueues {
        names: Vec::new(),
        next_at_ms: None,
    };
    let mut all = connection.prepare_cached("SELECT name FROM queues WHERE paused_at IS NULL ORDER BY name")?;
    let names = all.query_map([], |row| row.get::<_, String>(0))?;
    for name in names {
        let name = name?;
        if !request.serves(&name) {
            continue;
        }
        if let Some(at_ms) = next_delayed(connection, request, &name, now_ms)? {
            earliest(&mut found.next_at_ms, at_ms);
        }
        if is_own_due(connection, request, &name, now_ms)? || is_wanted(connection, request, &name)? {
            found.names.push(name);
        }
    }
    Ok(found)
}

/// Returns true if the start time of an instance has come, whether or not the worker can run it.
fn is_delayed_due(connection: &Connection, queue: &str, now_ms: i64) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM queue_places INDEXED BY queue_places_delayed
         WHERE queue = ?1 AND place = 3 AND queued_at <= ?2)",
    )?;
    Ok(statement.query_row(params![queue, now_ms], |row| row.get(0))?)
}

/// Returns true if the start time of an instance has come that the worker can run.
fn is_own_due(connection: &Connection, request: &impl Request, queue: &str, now_ms: i64) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM queue_places INDEXED BY queue_places_delayed_sorts
         WHERE place = 3 AND queue = ?1 AND name = ?2 AND version = ?3 AND queued_at <= ?4)",
    )?;
    for (name, version) in sorts(connection, request, queue, DELAYED)? {
        if statement.query_row(params![queue, name, version, now_ms], |row| row.get(0))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the next start time of an instance that the worker can run.
fn next_delayed(
    connection: &Connection,
    request: &impl Request,
    queue: &str,
    now_ms: i64,
) -> Result<Option<i64>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT min(queued_at) FROM queue_places INDEXED BY queue_places_delayed_sorts
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
fn is_wanted(connection: &Connection, request: &impl Request, queue: &str) -> Result<bool, Failure> {
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
            "SELECT name, version FROM queue_places INDEXED BY ",
            $index,
            " WHERE place = ",
            $place,
            $after,
            " ORDER BY name, version LIMIT 1"
        )
    };
}

const IN_LINE: [&str; 2] = sorts_of!("queue_places_line", "0 AND queue = ?3");
const HELD: [&str; 2] = sorts_of!("queue_places_held_sorts", "1 AND queue = ?3");
const DELAYED: [&str; 2] = sorts_of!("queue_places_delayed_sorts", "3 AND queue = ?3");
const HELD_OF_KEY: [&str; 2] = sorts_of!("queue_places_held", "1 AND queue = ?3 AND queue_key = ?4");

/// Returns the orchestrations of the instances in a place that the worker can run.
fn sorts(
    connection: &Connection,
    request: &impl Request,
    queue: &str,
    place: [&str; 2],
) -> Result<Vec<(String, String)>, Failure> {
    let mut sorts = all_sorts(connection, place, &[&queue])?;
    sorts.retain(|sort| request.can_run(sort));
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

/// Returns the row of a queue. `None`: there is no such queue, or it is paused.
fn state(session: &Session<'_>, queue: &str) -> Result<Option<QueueState>, Failure> {
    let row = session.query_optional(
        "SELECT settings, admitted, turn FROM queues WHERE name = ?1 AND paused_at IS NULL",
        params![queue],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get(2)?)),
    )?;
    let Some((settings, admitted, turn)) = row else {
        return Ok(None);
    };
    let settings = QueueSettings::read(&settings).ok_or_else(|| queues::broken(queue))?;
    Ok(Some(QueueState {
        settings,
        admitted: Admissions::read(&admitted),
        turn,
    }))
}

/// Deletes the rows of instances that had a slot, and have ended or are gone, and those of keys that say nothing
/// any more.
fn sweep(session: &Session<'_>, queue: &str) -> Result<(), Failure> {
    session.execute(
        "DELETE FROM queue_places WHERE key IN (
           SELECT q.key
           FROM queue_places q INDEXED BY queue_places_slots LEFT JOIN instances i ON i.key = q.key
           WHERE q.queue = ?1 AND q.place = 2 AND q.key < ?2 AND (i.key IS NULL OR i.completed_at IS NOT NULL))",
        params![queue, ATTEMPT_ENTRIES_FROM],
    )?;
    session.execute(
        "DELETE FROM queue_keys WHERE queue = ?1 AND queue_key IN (
           SELECT queue_key FROM queue_keys INDEXED BY queue_keys_waiting
           WHERE queue = ?1 AND waits_for = 0 AND next_at <= ?2 LIMIT ?3)",
        params![queue, session.now_ms(), integer(OLD_KEYS_MAX as u64)],
    )?;
    Ok(())
}

/// Counts the slots that are taken by key, if the limits are for slots.
fn slots(
    session: &Session<'_>,
    queue: &str,
    worker: &WorkerId,
    settings: &QueueSettings,
) -> Result<Vec<SlotCount>, Failure> {
    if !settings.counts_slots() {
        return Ok(Vec::new());
    }
    session.query_all(
        "SELECT q.queue_key, count(*), sum(coalesce(i.owner, t.owner) IS ?2)
         FROM queue_places q INDEXED BY queue_places_slots LEFT JOIN instances i ON i.key = q.key
         LEFT JOIN tasks t ON t.place_key = q.key
         WHERE q.queue = ?1 AND q.place = 2 GROUP BY q.queue_key",
        params![queue, &*worker.0],
        |row| {
            Ok(SlotCount {
                key: row.get(0)?,
                slots: row.get(1)?,
                own: row.get(2)?,
            })
        },
    )
}

/// Writes the row of a queue, if it has changed.
fn put_queue(session: &Session<'_>, queue: &str, before: &QueueState, now: &QueueState) -> Result<(), Failure> {
    if now != before {
        session.execute(
            "UPDATE queues SET admitted = ?2, turn = ?3 WHERE name = ?1",
            params![queue, now.admitted.to_text(), now.turn],
        )?;
    }
    Ok(())
}

/// Takes entries in line for a worker, as many as there is room for.
pub(crate) fn admit<A: Answer>(
    session: &mut Session<'_>,
    request: &A::Request,
    found: &FoundQueues,
    answer: &mut A,
) -> Result<(), Failure> {
    for queue in &found.names {
        Admission {
            session,
            request,
            answer,
            queue,
            sizes: HashMap::new(),
        }
        .pass()?;
    }
    Ok(())
}

/// One pass over the line of a queue.
struct Admission<'a, 'c, A: Answer> {
    session: &'a mut Session<'c>,
    request: &'a A::Request,
    answer: &'a mut A,
    queue: &'a str,
    /// Bytes of what the entries are given that were looked at.
    sizes: HashMap<EntryKey, usize>,
}

impl<A: Answer> Admission<'_, '_, A> {
    fn pass(mut self) -> Result<(), Failure> {
        let (queue, now_ms) = (self.queue, self.session.now_ms());
        let Some(state) = state(self.session, queue)? else {
            return Ok(());
        };
        if self.take_delayed_in()? {
            self.answer.look_again_at(now_ms);
        }
        sweep(self.session, queue)?;
        if !is_wanted(self.session.connection(), self.request, queue)? {
            return self.note_delayed();
        }
        let slots = slots(self.session, queue, self.request.worker(), &state.settings)?;
        let before = state.clone();
        let room = self.request.limit().rows.saturating_sub(self.answer.rows());
        let mut pass = Pass::new(state, slots, room, now_ms);
        if pass.left() > 0 {
            let keys = self.keys_whose_time_has_come()?;
            let step = pass.begin(keys);
            self.carry_out(&step, &before.settings)?;
            for _ in 0..ADMISSION_ROUNDS_MAX {
                let line = self.line(pass.round_size())?;
                let keys = self.keys_of(&line, &before.settings)?;
                let step = pass.round(line, keys);
                self.carry_out(&step, &before.settings)?;
                if step.is_last || pass.left() == 0 {
                    break;
                }
            }
        }
        put_queue(self.session, queue, &before, pass.queue())?;
        self.note_rest(&pass)
    }

    /// Notes when the queue is to be looked at again.
    fn note_rest(&mut self, pass: &Pass) -> Result<(), Failure> {
        let (connection, queue) = (self.session.connection(), self.queue);
        let is_line_left = !sorts(connection, self.request, queue, IN_LINE)?.is_empty();
        if is_line_left && let Some(at_ms) = pass.next_at_ms() {
            self.answer.look_again_at(at_ms);
        }
        if let Some(at_ms) = next_token(connection, queue)?.filter(|_| !pass.waits_for_slots()) {
            self.answer.look_again_at(at_ms);
        }
        if is_line_left || !sorts(connection, self.request, queue, HELD)?.is_empty() {
            self.answer.want_slots();
        }
        self.note_delayed()
    }

    fn note_delayed(&mut self) -> Result<(), Failure> {
        let now_ms = self.session.now_ms();
        if let Some(at_ms) = next_delayed(self.session.connection(), self.request, self.queue, now_ms)? {
            self.answer.look_again_at(at_ms);
        }
        Ok(())
    }

    /// Puts delayed entries into the line that are due. Returns true if there may be more than a pass looks at.
    fn take_delayed_in(&self) -> Result<bool, Failure> {
        let due = self.session.query_all(
            "SELECT key, queue_key FROM queue_places INDEXED BY queue_places_delayed
             WHERE queue = ?1 AND place = 3 AND queued_at <= ?2 ORDER BY queued_at, key LIMIT ?3",
            params![self.queue, self.session.now_ms(), integer(DELAYED_MAX as u64)],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
        )?;
        let may_be_more = due.len() == DELAYED_MAX;
        for (entry, key) in due {
            let turn = queues::next_turn(self.session, self.queue, &key)?;
            self.session.execute(
                "UPDATE queue_places SET place = 0, turn = ?2 WHERE key = ?1",
                params![entry, turn],
            )?;
        }
        Ok(may_be_more)
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

    /// Returns the rows of the keys of entries in line.
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

    /// Returns the first entries in line that the worker can run.
    fn line(&mut self, limit: usize) -> Result<Vec<Waiting>, Failure> {
        let connection = self.session.connection();
        let (mut line, mut open) = (Vec::new(), BTreeSet::new());
        for (name, version) in sorts(connection, self.request, self.queue, IN_LINE)? {
            let mut first = connection.prepare_cached(
                "SELECT key, queue_key, priority, turn, queued_at
                 FROM queue_places INDEXED BY queue_places_line
                 WHERE place = 0 AND queue = ?1 AND name = ?2 AND version = ?3
                 ORDER BY priority DESC, turn, queued_at, key LIMIT ?4",
            )?;
            let rows = first.query_map(params![self.queue, name, version, integer(limit as u64)], |row| {
                Ok(Waiting {
                    entry: EntryKey(row.get(0)?),
                    key: row.get(1)?,
                    priority: row.get(2)?,
                    turn: row.get(3)?,
                    queued_at_ms: row.get(4)?,
                })
            })?;
            for row in rows {
                let waiting = row?;
                if version == OPEN_VERSION {
                    open.insert(waiting.entry);
                }
                line.push(waiting);
            }
        }
        line.sort_unstable_by_key(Waiting::rank);
        line.truncate(limit);
        self.keep_own_versions(&mut line, &open)?;
        self.keep_what_fits(&mut line)?;
        Ok(line)
    }

    /// Settles the versions that are open, and drops the entries that other workers are to run. They stay in line.
    fn keep_own_versions(&self, line: &mut Vec<Waiting>, open: &BTreeSet<EntryKey>) -> Result<(), Failure> {
        let mut others = BTreeSet::new();
        for Waiting { entry, .. } in line.iter().filter(|waiting| open.contains(&waiting.entry)) {
            if !A::settle(self.session, self.request, *entry)? {
                others.insert(*entry);
            }
        }
        line.retain(|waiting| !others.contains(&waiting.entry));
        Ok(())
    }

    /// Drops the entries for whose data the request has no room.
    fn keep_what_fits(&mut self, line: &mut Vec<Waiting>) -> Result<(), Failure> {
        let mut bytes = self.answer.bytes();
        for n in 0..line.len() {
            if self.answer.rows() + n > 0 && bytes >= self.request.limit().bytes {
                line.truncate(n);
                break;
            }
            let size = match A::size(self.session, self.request, line[n].entry) {
                // The load that reads this row reports it.
                Err(failure) if failure.is_undecodable() => 0,
                size => size?,
            };
            self.sizes.insert(line[n].entry, size);
            bytes += size;
        }
        Ok(())
    }

    fn carry_out(&mut self, step: &Step, settings: &QueueSettings) -> Result<(), Failure> {
        self.take(&step.admitted)?;
        for waiting in &step.held {
            self.put(waiting.entry, QueuePlace::Held)?;
        }
        for (key, state) in &step.keys {
            queues::put_key(self.session, self.queue, key, state)?;
        }
        for (key, count) in &step.released {
            self.release(key, *count, settings)?;
        }
        Ok(())
    }

    fn put(&self, entry: EntryKey, place: QueuePlace) -> Result<(), Failure> {
        self.session.execute(
            "UPDATE queue_places SET place = ?2 WHERE key = ?1",
            params![entry.0, place.number()],
        )?;
        Ok(())
    }

    /// Gives slots to entries, and the entries to the worker.
    fn take(&mut self, admitted: &[Waiting]) -> Result<(), Failure> {
        let mut entries = Vec::with_capacity(admitted.len());
        for Waiting { entry, .. } in admitted {
            self.put(*entry, QueuePlace::Slot)?;
            entries.push((*entry, self.sizes.get(entry).copied().unwrap_or_default()));
        }
        self.answer.take(self.session, self.request, &entries)
    }

    /// Lets the first held entries of a key into the line: so many of each orchestration and version.
    fn release(&self, key: &str, count: u32, settings: &QueueSettings) -> Result<(), Failure> {
        let connection = self.session.connection();
        let mut has_more = false;
        for (name, version) in all_sorts(connection, HELD_OF_KEY, &[&self.queue, &key])? {
            let held: Vec<i64> = self.session.query_all(
                "SELECT key FROM queue_places INDEXED BY queue_places_held
                 WHERE place = 1 AND queue = ?1 AND queue_key = ?2 AND name = ?3 AND version = ?4
                 ORDER BY priority DESC, turn, queued_at, key LIMIT ?5",
                params![self.queue, key, name, version, i64::from(count) + 1],
                |row| row.get(0),
            )?;
            has_more |= held.len() > count as usize;
            for entry in held.iter().take(count as usize) {
                self.put(EntryKey(*entry), QueuePlace::Waits)?;
            }
        }
        if !has_more && let Some(state) = queues::key_state(connection, self.queue, key)? {
            let idle = KeyState::idle(state.admitted, settings.key_rate);
            queues::put_key(self.session, self.queue, key, &idle)?;
        }
        Ok(())
    }
}

pub(crate) fn earliest(so_far: &mut Option<i64>, wake_at_ms: i64) {
    *so_far = Some(so_far.map_or(wake_at_ms, |earliest| earliest.min(wake_at_ms)));
}
