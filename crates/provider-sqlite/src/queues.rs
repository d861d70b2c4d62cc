//! Queues: their limits, and the places of instances and attempts in them (P24, P27). [`admission`](crate::admission)
//! gives the slots.

use perdure_provider::{
    ATTEMPT_ENTRIES_FROM, Admissions, EntryKey, InstanceKey, KeyState, KeyWait, NewInstance, QUEUES_MAX, QueueDeletion,
    QueueEntry, QueueInfo, QueuePlace, QueueSettings,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;
use crate::rows::number;
use crate::session::Session;
use crate::statement::named;

/// Sets the limits of a queue. Keys that waited are looked at anew. Returns false if there are too many queues.
pub(crate) fn set(session: &Session<'_>, name: &str, settings: &QueueSettings) -> Result<bool, Failure> {
    let known = exists(session, name)?;
    let count = session.query_one("SELECT count(*) FROM queues WHERE name > ''", [], |row| number(row, 0))?;
    if !known && count >= QUEUES_MAX as u64 {
        return Ok(false);
    }
    session.execute(
        "INSERT INTO queues (name, settings) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET settings = excluded.settings",
        params![name, settings.to_text()],
    )?;
    session.execute(
        "UPDATE queue_places SET place = 0 WHERE queue = ?1 AND place = 1",
        params![name],
    )?;
    if !settings.is_fair {
        // The first come is the first served from here on.
        session.execute(
            "UPDATE queue_places SET turn = 0 WHERE queue = ?1 AND place <> 2",
            params![name],
        )?;
    }
    let keys = session.query_all(
        "SELECT queue_key, admitted FROM queue_keys WHERE queue = ?1",
        params![name],
        |row| Ok((row.get::<_, String>(0)?, Admissions::read(&row.get::<_, String>(1)?))),
    )?;
    for (key, admitted) in keys {
        put_key(session, name, &key, &KeyState::idle(admitted, settings.key_rate))?;
    }
    Ok(true)
}

/// Pauses a queue, or ends its pause. Returns false if there is no such queue.
pub(crate) fn pause(session: &Session<'_>, name: &str, is_paused: bool) -> Result<bool, Failure> {
    let known = session.execute(
        "UPDATE queues SET paused_at = CASE WHEN ?2 THEN coalesce(paused_at, ?3) END WHERE name = ?1",
        params![name, is_paused, session.now_ms()],
    )?;
    Ok(known > 0)
}

/// Writes the row of a key, or deletes it if it says nothing.
pub(crate) fn put_key(session: &Session<'_>, queue: &str, key: &str, state: &KeyState) -> Result<(), Failure> {
    if state.is_empty() {
        session.execute(
            "DELETE FROM queue_keys WHERE queue = ?1 AND queue_key = ?2",
            params![queue, key],
        )?;
        return Ok(());
    }
    session.execute(
        "INSERT INTO queue_keys (queue, queue_key, admitted, waits_for, next_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (queue, queue_key) DO UPDATE
         SET admitted = excluded.admitted, waits_for = excluded.waits_for, next_at = excluded.next_at",
        params![
            queue,
            key,
            state.admitted.to_text(),
            state.waits_for.number(),
            state.next_at_ms
        ],
    )?;
    Ok(())
}

/// Deletes a queue, unless instances or attempts are in it.
pub(crate) fn delete(session: &Session<'_>, name: &str) -> Result<QueueDeletion, Failure> {
    if !exists(session, name)? {
        return Ok(QueueDeletion::NotFound);
    }
    let Counts {
        waiting,
        delayed,
        running,
        ..
    } = count(session.connection(), name)?;
    let waiting = waiting + delayed;
    if waiting + running > 0 {
        return Ok(QueueDeletion::InUse { waiting, running });
    }
    session.execute("DELETE FROM queue_places WHERE queue = ?1", params![name])?;
    session.execute("DELETE FROM queue_keys WHERE queue = ?1", params![name])?;
    session.execute("DELETE FROM queues WHERE name = ?1", params![name])?;
    Ok(QueueDeletion::Deleted)
}

/// Returns true if there is a queue of the name.
pub(crate) fn exists(session: &Session<'_>, name: &str) -> Result<bool, Failure> {
    let found = session.query_optional("SELECT 1 FROM queues WHERE name = ?1", params![name], |_| Ok(()))?;
    Ok(found.is_some())
}

/// Returns one queue, or all of them.
pub(crate) fn list(connection: &Connection, name: Option<&str>, now_ms: i64) -> Result<Vec<QueueInfo>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT name, settings, admitted, paused_at FROM queues WHERE ?1 IS NULL OR name = ?1 ORDER BY name",
    )?;
    let rows = statement.query_map(params![name], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, Option<i64>>(3)?,
        ))
    })?;
    let mut queues = Vec::new();
    for row in rows {
        let (name, settings, admitted, paused_at_ms) = row?;
        let settings = QueueSettings::read(&settings).ok_or_else(|| broken(&name))?;
        let Counts {
            waiting,
            delayed,
            running,
            oldest_ms,
        } = count(connection, &name)?;
        queues.push(QueueInfo {
            tokens: settings.rate.map(|rate| Admissions::read(&admitted).free(rate, now_ms)),
            name,
            settings,
            paused_at_ms,
            waiting,
            delayed,
            running,
            oldest_ms,
        });
    }
    Ok(queues)
}

/// The failure of a queue whose limits cannot be read.
pub(crate) fn broken(name: &str) -> Failure {
    Failure::corrupt(format!("the limits of queue '{name}' cannot be read"))
}

struct Counts {
    waiting: u64,
    delayed: u64,
    running: u64,
    oldest_ms: Option<i64>,
}

fn count(connection: &Connection, name: &str) -> Result<Counts, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT coalesce(sum(q.place IN (0, 1, 4)), 0), coalesce(sum(q.place = 3), 0),
           coalesce(sum(q.place = 2 AND (q.key >= ?2 OR i.completed_at IS NULL)), 0),
           min(CASE WHEN q.place IN (0, 1, 4) THEN q.queued_at END)
         FROM queue_places q LEFT JOIN instances i ON i.key = q.key
         WHERE q.queue = ?1 AND (q.key >= ?2 OR i.key IS NOT NULL)",
    )?;
    let counts = statement.query_row(params![name, ATTEMPT_ENTRIES_FROM], |row| {
        Ok(Counts {
            waiting: number(row, 0)?,
            delayed: number(row, 1)?,
            running: number(row, 2)?,
            oldest_ms: row.get(3)?,
        })
    })?;
    Ok(counts)
}

/// A new place in a queue, which exists.
pub(crate) struct NewPlace<'a> {
    pub(crate) entry: EntryKey,
    pub(crate) queue: &'a str,
    /// Key in the queue; empty: the entry has none.
    pub(crate) key: &'a str,
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) priority: i32,
    /// The time from which the entry waits, ms since 1970.
    pub(crate) due_at_ms: i64,
}

impl<'a> NewPlace<'a> {
    /// Returns the place of a new instance.
    pub(crate) fn of_instance(
        key: InstanceKey,
        instance: &'a NewInstance,
        entry: &'a QueueEntry,
        due_at_ms: i64,
    ) -> Self {
        Self {
            entry: key.into(),
            queue: &entry.queue,
            key: &entry.key,
            name: &instance.name,
            version: &instance.version,
            priority: instance.priority,
            due_at_ms,
        }
    }

    /// Makes the place: with a slot of this turn, in line, or delayed.
    pub(crate) fn enter(self, session: &Session<'_>, slot: Option<i64>) -> Result<(), Failure> {
        let (place, turn) = if let Some(turn) = slot {
            (QueuePlace::Slot, turn)
        } else if self.due_at_ms > session.now_ms() {
            (QueuePlace::Delayed, 0)
        } else {
            (QueuePlace::Waits, next_turn(session, self.queue, self.key)?)
        };
        named!(session.execute, "INSERT INTO queue_places ({columns}) VALUES ({values})", {
            key: self.entry.0,
            queue: self.queue,
            queue_key: self.key,
            name: self.name,
            version: self.version,
            priority: self.priority,
            turn: turn,
            queued_at: self.due_at_ms,
            place: place.number(),
        })?;
        Ok(())
    }
}

/// Returns the key of the next attempt that gets a place.
pub(crate) fn next_attempt(session: &Session<'_>) -> Result<EntryKey, Failure> {
    let next = session.query_one(
        "SELECT coalesce(max(key) + 1, ?1) FROM queue_places WHERE key >= ?1",
        params![ATTEMPT_ENTRIES_FROM],
        |row| row.get(0),
    )?;
    Ok(EntryKey(next))
}

/// Selects the round in which the next entry of a key gets a slot; 0 if keys do not take turns. The round comes after
/// the last one of the key that is in line, and after the last one that got a slot. So the keys take turns, as the
/// flows of start-time fair queueing do (Goyal, Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996). The settings are
/// a text of [`QueueSettings::to_text`].
macro_rules! next_turn_sql {
    ($queue:literal, $key:literal) => {
        concat!(
            r#"SELECT CASE WHEN q.settings LIKE '%"fair":true%'
      THEN max(q.turn, coalesce((SELECT max(x.turn) FROM queue_places x
        WHERE x.queue = q.name AND x.queue_key = "#,
            $key,
            "), 0)) + 1
      ELSE 0 END FROM queues q WHERE q.name = ",
            $queue
        )
    };
}
pub(crate) use next_turn_sql;

/// Returns the round in which the next entry of a key gets a slot; 0 if keys do not take turns.
pub(crate) fn next_turn(session: &Session<'_>, queue: &str, key: &str) -> Result<i64, Failure> {
    let turn = session.query_one(next_turn_sql!("?1", "?2"), params![queue, key], |row| row.get(0))?;
    Ok(turn)
}

/// Takes an entry out of its queue, if it is in one.
pub(crate) fn leave(session: &Session<'_>, entry: impl Into<EntryKey>) -> Result<(), Failure> {
    let key = entry.into();
    release_next(session, key)?;
    session.execute("DELETE FROM queue_places WHERE key = ?1", params![key.0])?;
    Ok(())
}

/// Takes an instance that waits out of the line until it is resumed.
pub(crate) fn suspend(session: &Session<'_>, key: InstanceKey) -> Result<(), Failure> {
    release_next(session, key.into())?;
    session.execute(
        "UPDATE queue_places SET place = 4 WHERE key = ?1 AND place <> 2",
        params![key.0],
    )?;
    Ok(())
}

/// Lets the next pass look at the key of an entry that leaves the line without a slot, or is now one of another
/// version: others of the key may be held until it gets one.
pub(crate) fn release_next(session: &Session<'_>, key: EntryKey) -> Result<(), Failure> {
    session.execute(
        "UPDATE queue_keys SET waits_for = 3 WHERE waits_for = 1 AND (queue, queue_key) = (
           SELECT queue, queue_key FROM queue_places WHERE key = ?1 AND place = 0)",
        params![key.0],
    )?;
    Ok(())
}

/// Puts an instance that is resumed into the line again, if it was in one. Returns true if it waits.
pub(crate) fn resume(session: &Session<'_>, key: InstanceKey) -> Result<bool, Failure> {
    let waiting: Option<(String, String, i64, i64)> = session.query_optional(
        "SELECT queue, queue_key, turn, queued_at FROM queue_places WHERE key = ?1 AND place <> 2",
        params![key.0],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    let Some((queue, queue_key, turn, queued_at_ms)) = waiting else {
        return Ok(false);
    };
    let is_delayed = queued_at_ms > session.now_ms();
    // An instance whose time came while it was suspended has no turn yet.
    let (place, turn) = match (is_delayed, turn) {
        (true, turn) => (QueuePlace::Delayed, turn),
        (false, 0) => (QueuePlace::Waits, next_turn(session, &queue, &queue_key)?),
        (false, turn) => (QueuePlace::Waits, turn),
    };
    session.execute(
        "UPDATE queue_places SET place = ?2, turn = ?3 WHERE key = ?1",
        params![key.0, place.number(), turn],
    )?;
    Ok(true)
}

/// Reads the row of a key, if it has one.
pub(crate) fn key_state(connection: &Connection, queue: &str, key: &str) -> Result<Option<KeyState>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT admitted, waits_for, next_at FROM queue_keys WHERE queue = ?1 AND queue_key = ?2")?;
    let state = statement
        .query_row(params![queue, key], |row| {
            Ok(KeyState {
                admitted: Admissions::read(&row.get::<_, String>(0)?),
                waits_for: KeyWait::of(row.get(1)?),
                next_at_ms: row.get(2)?,
            })
        })
        .optional()?;
    Ok(state)
}
