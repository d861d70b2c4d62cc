//! Queues: their limits, their deletion, their counts, and the places in them (P24, P27). See
//! [`admission`](crate::admission) for the slots.

use std::borrow::Cow;

use perdure_provider::{
    ATTEMPT_ENTRIES_FROM, Admissions, KeyState, KeyWait, QUEUES_MAX, QueueDeletion, QueueInfo, QueueSettings,
    QueueState, Rate,
};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::options::QUEUE_ROWS_MAX;
use crate::params::P;
use crate::query::Query;
use crate::rows::{index, number, text};
use crate::session::Session;
use crate::statement::{columns, named, query};
use crate::text::encode;

/// Tells in SQL if keys take turns, from the limits of a queue as [`QueueSettings::to_text`] writes them.
macro_rules! is_fair {
    ($settings:literal) => {
        concat!($settings, r#" LIKE '%"fair":true%'"#)
    };
}
pub(crate) use is_fair;

/// The condition that selects all places of a queue, and those of a key, by an index of their own. The statements that
/// walk along a line must not find another index that begins with the queue.
macro_rules! in_queue {
    ($row:literal, $queue:literal) => {
        concat!(
            "hashtextextended(",
            $row,
            "queue, 0) = hashtextextended(",
            $queue,
            ", 0) AND ",
            $row,
            "queue = ",
            $queue
        )
    };
}
pub(crate) use in_queue;

/// The keys of attempts in queues, which are greater than those of instances.
macro_rules! is_attempt {
    ($key:literal) => {
        concat!($key, " >= 4611686018427387904")
    };
}
const _: () = assert!(ATTEMPT_ENTRIES_FROM == 4_611_686_018_427_387_904);

/// Lets the next pass look at the keys of a table, of which entries in line leave it without a slot: others of the key
/// may be held until one of those gets a slot. What a pass that ends meanwhile lets the key wait for does not matter.
macro_rules! release_next {
    ($left:literal) => {
        concat!(
            "UPDATE {schema}.queue_keys k SET waits_for = 3 FROM ",
            $left,
            " x
    WHERE k.queue = ANY (ARRAY[x.queue]) AND k.queue_key = x.queue_key AND k.waits_for <> 0"
        )
    };
}
pub(crate) use release_next;

/// Parts of a statement that delete the places of the tasks in the table `gone` (P27). First all tasks are deleted,
/// then all places, and then the keys are written in order: a pass, too, has the row of a task before that of its
/// place.
macro_rules! leave {
    () => {
        concat!(
            "dropped AS (
    DELETE FROM {schema}.queue_places WHERE key = ANY (ARRAY(SELECT place_key FROM gone WHERE place_key IS NOT NULL))
    RETURNING queue, queue_key, place
  ), let AS (
    ",
            crate::queues::release_next!(
                "(SELECT DISTINCT queue, queue_key FROM dropped WHERE place = 0 ORDER BY queue, queue_key)"
            ),
            ")"
        )
    };
}
pub(crate) use leave;

/// The queues that an array names, which are locked against their deletion, as the table `q`.
macro_rules! locked_queues {
    ($names:literal) => {
        concat!(
            "q AS MATERIALIZED (
  SELECT name, turn, ",
            crate::queues::is_fair!("settings"),
            " AS is_fair FROM {schema}.queues
  WHERE name = ANY (",
            $names,
            ") ORDER BY name FOR KEY SHARE
)"
        )
    };
}
pub(crate) use locked_queues;

/// Inserts the places of those new entries of the table `s` that a condition selects. The turn of an entry is the one
/// after the last one of its key that is in line, and after the last one that got a slot. So the keys take turns, as
/// the flows of start-time fair queueing do (Goyal, Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996). An entry
/// that is delayed gets its turn when it comes into the line.
macro_rules! enter {
    ($which:literal) => {
        concat!(
            "INSERT INTO {schema}.queue_places (key, queue, queue_key, name, version, priority, turn, queued_at, place)
  SELECT key, queue, queue_key, name, version, priority, CASE WHEN is_fair AND NOT is_delayed THEN greatest(turn, (
      SELECT x.turn FROM {schema}.queue_places x WHERE ",
            crate::queues::in_queue!("x.", "s.queue"),
            " AND x.queue_key = s.queue_key
      ORDER BY x.turn DESC LIMIT 1)) + row_number() OVER (PARTITION BY queue, queue_key, is_delayed ORDER BY key)
    ELSE 0 END, due, CASE WHEN is_delayed THEN 3 ELSE 0 END
  FROM s WHERE ",
            $which
        )
    };
}
pub(crate) use enter;

/// Inserts the places of those new instances of the table `s` that are in the table `made` and have a queue.
macro_rules! enter_made {
    () => {
        crate::queues::enter!("queue IS NOT NULL AND (key IN (SELECT key FROM made)) IS TRUE")
    };
}
pub(crate) use enter_made;

/// Makes a queue, unless there are too many, or changes its limits. The row stays locked, so no admission runs.
const SET: &str = "INSERT INTO {schema}.queues (name, settings)
SELECT $name, $settings
WHERE EXISTS (SELECT FROM {schema}.queues WHERE name = $name) OR (SELECT count(*) FROM {schema}.queues) < $max
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings RETURNING 1";

const ALL_IN_LINE: &str = "UPDATE {schema}.queue_places SET place = 0 WHERE key IN (
  SELECT key FROM {schema}.queue_places WHERE queue = $queue AND place = 1 ORDER BY key
  LIMIT $limit FOR NO KEY UPDATE) RETURNING 1";

/// Sets the limits of a queue. The keys are looked at anew. Returns false if there are too many queues.
pub(crate) async fn set(session: &Session<'_>, name: &str, settings: &QueueSettings) -> Result<bool, Failure> {
    let name = encode(name);
    let set = named!(
        session.query,
        SET,
        { name: P::Text(&name), settings: P::Text(&settings.to_text()), max: P::Int(index(QUEUES_MAX)) }
    )
    .await?;
    if set.is_empty() {
        return Ok(false);
    }
    loop {
        let moved = named!(
            session.query,
            ALL_IN_LINE,
            { queue: P::Text(&name), limit: P::Int(QUEUE_ROWS_MAX) }
        )
        .await?;
        if index(moved.len()) < QUEUE_ROWS_MAX {
            break;
        }
    }
    if !settings.is_fair {
        forget_turns(session, &name).await?;
    }
    match settings.key_rate {
        Some(rate) => look_at_keys_anew(session, &name, rate).await?,
        None => forget_keys(session, &name).await?,
    }
    Ok(true)
}

/// Pauses a queue, or ends its pause. Waits for the row, so for a pass that is under way. Returns false if there is no
/// such queue.
pub(crate) async fn pause(session: &Session<'_>, name: &str, is_paused: bool) -> Result<bool, Failure> {
    let known = named!(
        session.query,
        "UPDATE {schema}.queues SET paused_at = CASE WHEN $paused THEN coalesce(paused_at, $now, {now}) END
         WHERE name = $name RETURNING 1",
        { paused: P::Bool(is_paused), now: session.now(), name: P::Text(&encode(name)) }
    )
    .await?;
    Ok(!known.is_empty())
}

/// Takes their turns from the instances that wait. The first come is the first served from then on.
async fn forget_turns(session: &Session<'_>, queue: &str) -> Result<(), Failure> {
    loop {
        let changed = named!(
            session.query,
            concat!("UPDATE {schema}.queue_places SET turn = 0 WHERE key IN (
               SELECT key FROM {schema}.queue_places
               WHERE ", in_queue!("", "$queue"), " AND place <> 2 AND turn > 0
               ORDER BY key LIMIT $limit FOR NO KEY UPDATE)
             RETURNING 1"),
            { queue: P::Text(queue), limit: P::Int(QUEUE_ROWS_MAX) }
        )
        .await?;
        if index(changed.len()) < QUEUE_ROWS_MAX {
            return Ok(());
        }
    }
}

/// Deletes the rows of all keys of a queue.
async fn forget_keys(session: &Session<'_>, queue: &str) -> Result<(), Failure> {
    loop {
        let gone = named!(
            session.query,
            "DELETE FROM {schema}.queue_keys WHERE (queue, queue_key) IN (
               SELECT queue, queue_key FROM {schema}.queue_keys WHERE queue = $queue ORDER BY queue_key LIMIT $limit)
             RETURNING 1",
            { queue: P::Text(queue), limit: P::Int(QUEUE_ROWS_MAX) }
        )
        .await?;
        if index(gone.len()) < QUEUE_ROWS_MAX {
            return Ok(());
        }
    }
}

/// Lets all keys of a queue wait for nothing. Their admissions count for the new rate.
async fn look_at_keys_anew(session: &Session<'_>, queue: &str, rate: Rate) -> Result<(), Failure> {
    let mut after = String::new();
    loop {
        let rows = named!(
            session.query,
            "SELECT queue_key, admitted FROM {schema}.queue_keys WHERE queue = $queue AND queue_key > $after
             ORDER BY queue_key LIMIT $limit",
            { queue: P::Text(queue), after: P::Text(&after), limit: P::Int(QUEUE_ROWS_MAX) }
        )
        .await?;
        let mut keys = KeyRows::default();
        for row in &rows {
            let state = KeyState::idle(Admissions::read(row.try_get(1)?), Some(rate));
            keys.push(&text(row, 0)?, &state);
        }
        keys.write(session, queue).await?;
        match rows.last() {
            Some(last) if index(rows.len()) == QUEUE_ROWS_MAX => after = last.try_get(0)?,
            _ => return Ok(()),
        }
    }
}

/// Rows of keys as columns: those that are there from now on, and those that are gone.
#[derive(Default)]
pub(crate) struct KeyRows {
    queue_key: Vec<Cow<'static, str>>,
    admitted: Vec<Cow<'static, str>>,
    waits_for: Vec<i64>,
    next_at: Vec<Option<i64>>,
    gone: Vec<Cow<'static, str>>,
}

const PUT_KEYS: &str = "INSERT INTO {schema}.queue_keys (queue, queue_key, admitted, waits_for, next_at)
SELECT $queue, k.* FROM {k}
ON CONFLICT (queue, queue_key) DO UPDATE SET admitted = excluded.admitted, waits_for = excluded.waits_for,
  next_at = excluded.next_at";

const DELETE_KEYS: &str = "DELETE FROM {schema}.queue_keys WHERE queue = $queue AND queue_key = ANY ($gone::text[])";

impl KeyRows {
    /// Adds a row. A row that says nothing is deleted.
    pub(crate) fn push(&mut self, key: &str, state: &KeyState) {
        let key = Cow::Owned(encode(key).into_owned());
        if state.is_empty() {
            self.gone.push(key);
            return;
        }
        self.queue_key.push(key);
        self.admitted.push(Cow::Owned(state.admitted.to_text()));
        self.waits_for.push(state.waits_for.number());
        self.next_at.push(state.next_at_ms);
    }

    columns! {
        queue_key: Texts,
        admitted: Texts,
        waits_for: Ints,
        next_at: MaybeInts,
    }

    /// Returns the statements that write and that delete rows. `None`: there are no such rows.
    pub(crate) fn queries<'a>(&'a self, queue: &'a str) -> [Option<Query<'a>>; 2] {
        let put = (!self.queue_key.is_empty()).then(|| query!(PUT_KEYS, { queue: P::Text(queue) }; k: KeyRows = self));
        let delete =
            (!self.gone.is_empty()).then(|| query!(DELETE_KEYS, { queue: P::Text(queue), gone: P::Texts(&self.gone) }));
        [put, delete]
    }

    async fn write(&self, session: &Session<'_>, queue: &str) -> Result<(), Failure> {
        let [put, delete] = self.queries(queue);
        session.run(put.as_ref()).await?;
        session.run(delete.as_ref()).await?;
        Ok(())
    }
}

/// Reads the row of a key: three columns from `first` on.
pub(crate) fn key_state(row: &Row, first: usize) -> Result<KeyState, Failure> {
    Ok(KeyState {
        admitted: Admissions::read(row.try_get(first)?),
        waits_for: KeyWait::of(row.try_get::<_, i32>(first + 1)?.into()),
        next_at_ms: row.try_get(first + 2)?,
    })
}

/// Reads the row of a queue: three columns from `first` on. `None`: its limits cannot be read.
pub(crate) fn queue_state(row: &Row, first: usize) -> Result<Option<QueueState>, Failure> {
    let Some(settings) = QueueSettings::read(row.try_get(first)?) else {
        return Ok(None);
    };
    Ok(Some(QueueState {
        settings,
        admitted: Admissions::read(row.try_get(first + 1)?),
        turn: row.try_get(first + 2)?,
    }))
}

/// Counts the entries of queues. An instance that has a slot counts until it ends.
macro_rules! counts {
    ($which:literal) => {
        concat!(
            "SELECT q.name, q.settings, q.admitted, q.turn, coalesce($now, {now}), c.waiting, c.delayed, c.running,
  c.oldest, q.paused_at
FROM {schema}.queues q CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE x.place IN (0, 1, 4)) AS waiting, count(*) FILTER (WHERE x.place = 3) AS delayed,
    count(*) FILTER (WHERE x.place = 2 AND (",
            is_attempt!("x.key"),
            " OR EXISTS (
      SELECT FROM {schema}.instances i WHERE i.key = x.key AND i.completed_at IS NULL))) AS running,
    min(x.queued_at) FILTER (WHERE x.place IN (0, 1, 4)) AS oldest
  FROM {schema}.queue_places x WHERE ",
            in_queue!("x.", "q.name"),
            ") c ",
            $which
        )
    };
}

/// Deletes a queue, unless instances or attempts are in it.
pub(crate) async fn delete(session: &Session<'_>, name: &str) -> Result<QueueDeletion, Failure> {
    let name = encode(name);
    let locked = session
        .query(
            "SELECT FROM {schema}.queues WHERE name = $1 FOR UPDATE",
            &[P::Text(&name)],
        )
        .await?;
    if locked.is_empty() {
        return Ok(QueueDeletion::NotFound);
    }
    let row = named!(
        session.query_one,
        counts!("WHERE q.name = $name"),
        { now: session.now(), name: P::Text(&name) }
    )
    .await?;
    let (waiting, running) = (number(&row, 5)? + number(&row, 6)?, number(&row, 7)?);
    if waiting + running > 0 {
        return Ok(QueueDeletion::InUse { waiting, running });
    }
    loop {
        let swept = named!(
            session.query,
            concat!("DELETE FROM {schema}.queue_places WHERE key IN (
               SELECT key FROM {schema}.queue_places WHERE ", in_queue!("", "$queue"), " LIMIT $limit)
             RETURNING 1"),
            { queue: P::Text(&name), limit: P::Int(QUEUE_ROWS_MAX) }
        )
        .await?;
        if index(swept.len()) < QUEUE_ROWS_MAX {
            break;
        }
    }
    forget_keys(session, &name).await?;
    session
        .query("DELETE FROM {schema}.queues WHERE name = $1", &[P::Text(&name)])
        .await?;
    Ok(QueueDeletion::Deleted)
}

/// Returns one queue, or all of them.
pub(crate) async fn list(connection: &Connection, name: Option<&str>) -> Result<Vec<QueueInfo>, Failure> {
    let now = P::MaybeInt(connection.from.clock_ms());
    let rows = named!(
        connection.query,
        counts!("WHERE $name IS NULL OR q.name = $name ORDER BY q.name"),
        { now: now, name: P::MaybeText(name.map(encode).as_deref()) }
    )
    .await?;
    rows.iter().map(info).collect()
}

fn info(row: &Row) -> Result<QueueInfo, Failure> {
    let queue = queue_state(row, 1)?.ok_or_else(|| Failure::corrupt("the limits of a queue cannot be read"))?;
    let now_ms = row.try_get(4)?;
    let tokens = queue.settings.rate.map(|rate| queue.admitted.free(rate, now_ms));
    Ok(QueueInfo {
        name: text(row, 0)?,
        settings: queue.settings,
        paused_at_ms: row.try_get(9)?,
        waiting: number(row, 5)?,
        delayed: number(row, 6)?,
        running: number(row, 7)?,
        tokens,
        oldest_ms: row.try_get(8)?,
    })
}
