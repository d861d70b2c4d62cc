//! The admission of instances from queues (P24): [`Pass`] decides, and this module reads the rows and carries out its
//! steps, in the transaction of an acquisition.
//!
//! The row of a queue is locked for a pass, so that the passes over a queue come one after the other. A queue that
//! another worker has locked is left out, and asked for again soon. A pass waits for no row: it skips the instances and
//! the rows of `queued_instances` that another transaction is about to change. It has the row of each instance locked
//! that it admits or holds, and other transactions lock that before the row of its place.

mod steps;

use std::borrow::Cow;
use std::collections::HashMap;

use perdure_provider::{
    ADMISSION_KEYS_MAX, ADMISSION_ROUNDS_MAX, Acquire, Acquired, AcquiredInstance, InstanceKey, KeyState, OPEN_VERSION,
    Pass, QueueState, Settled, SlotCount, Step, Waiting,
};
use tokio_postgres::Row;

use crate::acquire::{Registered, page_size, read_taken, registered};
use crate::connection::Query;
use crate::error::Failure;
use crate::options::{DELAYED_MAX, QUEUE_BUSY_MS};
use crate::params::P;
use crate::queues::{KeyRows, in_queue, key_state, queue_state};
use crate::rows::{index, number, text};
use crate::session::Session;
use crate::statement::{named, query};
use crate::text::encode;
use crate::worker;

use steps::{Places, Released, Taken};

/// Walks over the queues in which instances of the registered orchestrations have a place.
macro_rules! queues_of {
    ($table:literal, $place:literal) => {
        concat!(
            $table,
            " AS (
  SELECT r.name, r.version, (
    SELECT x.queue FROM {schema}.queued_instances x
    WHERE x.place = ",
            $place,
            " AND x.name = r.name AND x.version = r.version ORDER BY x.queue LIMIT 1) AS queue FROM r
  UNION ALL
  SELECT q.name, q.version, (
    SELECT x.queue FROM {schema}.queued_instances x
    WHERE x.place = ",
            $place,
            " AND x.name = q.name AND x.version = q.version AND x.queue > q.queue ORDER BY x.queue LIMIT 1)
  FROM ",
            $table,
            " q WHERE q.queue IS NOT NULL
)"
        )
    };
}

/// Locks the queues that have instances in line, or held, that the worker can run, or instances whose start time has
/// come. The worker is locked against its removal. The row of a queue that another worker has locked is NULL.
const LOCK: &str = concat!(
    "WITH RECURSIVE ",
    registered!(),
    ", w AS MATERIALIZED (
  SELECT id FROM {schema}.workers WHERE id = $owner FOR KEY SHARE
), ",
    queues_of!("line", 0),
    ", ",
    queues_of!("held", 1),
    ", delayed AS (
  (SELECT queue FROM {schema}.queued_instances WHERE place = 3 ORDER BY queue LIMIT 1)
  UNION ALL
  SELECT (SELECT x.queue FROM {schema}.queued_instances x WHERE x.place = 3 AND x.queue > d.queue
    ORDER BY x.queue LIMIT 1) FROM delayed d WHERE d.queue IS NOT NULL
), wanted AS MATERIALIZED (
  SELECT queue FROM line WHERE queue IS NOT NULL UNION SELECT queue FROM held WHERE queue IS NOT NULL
  UNION SELECT d.queue FROM delayed d WHERE (
    SELECT x.queued_at FROM {schema}.queued_instances x WHERE x.place = 3 AND x.queue = d.queue
    ORDER BY x.queued_at LIMIT 1) <= coalesce($now, {now})
), locked AS MATERIALIZED (
  SELECT name, settings, admitted, turn FROM {schema}.queues
  WHERE name IN (SELECT queue FROM wanted) AND EXISTS (SELECT FROM w)
  ORDER BY name FOR NO KEY UPDATE SKIP LOCKED
)
SELECT coalesce($now, {now}), wanted.queue, locked.settings, locked.admitted, locked.turn
FROM wanted LEFT JOIN locked ON locked.name = wanted.queue WHERE EXISTS (SELECT FROM w) ORDER BY wanted.queue"
);

/// Puts the instances into the line whose start time has come. If keys take turns, each gets its turn.
const MOVE: &str = concat!(
    "WITH due AS MATERIALIZED (
  SELECT instance_key, queue_key, queued_at FROM {schema}.queued_instances
  WHERE queue = $queue AND place = 3 AND queued_at <= $now_ms
  ORDER BY queued_at, instance_key LIMIT $limit FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.queued_instances x SET place = 0, turn = d.turn FROM (
  SELECT d.instance_key, CASE WHEN $fair THEN greatest($turn, (
      SELECT o.turn FROM {schema}.queued_instances o WHERE ",
    in_queue!("o.", "$queue"),
    " AND o.queue_key = d.queue_key
      ORDER BY o.turn DESC LIMIT 1)) + row_number() OVER (PARTITION BY queue_key ORDER BY queued_at, instance_key)
    ELSE 0 END AS turn FROM due d) d
WHERE x.instance_key = ANY (ARRAY[d.instance_key])"
);

/// Counts the slots by key, and deletes the rows of instances that had a slot and have ended or are gone.
const SLOTS: &str = "WITH slots AS MATERIALIZED (
  SELECT x.instance_key, x.queue_key, i.owner, (i.key IS NOT NULL AND i.completed_at IS NULL) AS is_open
  FROM {schema}.queued_instances x LEFT JOIN {schema}.instances i
    ON i.key = ANY (ARRAY[x.instance_key])
  WHERE x.queue = $queue AND x.place = 2
), swept AS (
  DELETE FROM {schema}.queued_instances WHERE instance_key = ANY (ARRAY(
    SELECT instance_key FROM {schema}.queued_instances
    WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM slots WHERE NOT is_open)) FOR UPDATE SKIP LOCKED))
)
SELECT queue_key, count(*), count(*) FILTER (WHERE owner = $owner) FROM slots WHERE is_open GROUP BY queue_key";

/// Deletes the rows of keys whose admissions no longer count.
const FORGET: &str = "DELETE FROM {schema}.queue_keys WHERE (queue, queue_key) IN (
  SELECT queue, queue_key FROM {schema}.queue_keys WHERE queue = $queue AND waits_for = 0 AND next_at <= $now_ms
  ORDER BY next_at LIMIT $limit)";

/// Selects the keys that have a token again, and those that may have a slot again.
const KEYS: &str = "(
  SELECT queue_key, admitted, waits_for, next_at FROM {schema}.queue_keys
  WHERE queue = $queue AND waits_for = 2 AND next_at <= $now_ms ORDER BY next_at LIMIT $limit
) UNION ALL (
  SELECT queue_key, admitted, waits_for, next_at FROM {schema}.queue_keys
  WHERE queue = $queue AND waits_for = 3 AND (queue_key IN (SELECT unnest($full::text[]))) IS NOT TRUE LIMIT $limit
)";

/// Selects the first instances in line that the worker can run, and the rows of their keys. The instances are locked.
/// They end where the data to load of those before reaches a limit.
const LINE: &str = concat!(
    "WITH ",
    registered!(),
    ", line AS MATERIALIZED (
  SELECT l.* FROM r CROSS JOIN LATERAL (
    SELECT i.key, x.queue, x.queue_key, x.priority, x.turn, x.queued_at, i.name, i.version, i.execution, i.unread
    FROM {schema}.queued_instances x JOIN {schema}.instances i ON i.key = ANY (ARRAY[x.instance_key])
    WHERE x.place = 0 AND x.queue = $queue AND x.name = r.name AND x.version = r.version
      AND i.status = 'Pending' AND i.owner IS NULL
    ORDER BY x.priority DESC, x.turn, x.queued_at, x.instance_key LIMIT $limit FOR NO KEY UPDATE OF i SKIP LOCKED) l
  ORDER BY l.priority DESC, l.turn, l.queued_at, l.key LIMIT $limit
)
SELECT l.key, l.queue_key, l.priority, l.turn, l.queued_at, l.name, l.version, l.size, k.admitted, k.waits_for,
  k.next_at, l.before >= $bytes::bigint
FROM (
  SELECT line.*, s.size, (sum(s.size) OVER by_rank - s.size)::bigint AS before, row_number() OVER by_rank AS rank
  FROM line CROSS JOIN LATERAL (",
    page_size!("line"),
    ") s WINDOW by_rank AS (ORDER BY line.priority DESC, line.turn, line.queued_at, line.key)) l
LEFT JOIN {schema}.queue_keys k ON k.queue = l.queue AND k.queue_key = l.queue_key ORDER BY l.rank"
);

/// Stores the settled versions of instances in line whose version was open (P17). The next pass looks at their keys:
/// others of the open version may be held until one of that version gets a slot.
const SETTLE: &str = "WITH in_line AS (
  UPDATE {schema}.queued_instances x SET version = s.version FROM {s}
  WHERE x.instance_key = ANY (ARRAY[s.key])
  RETURNING x.queue, x.queue_key
), keys AS (
  UPDATE {schema}.queue_keys k SET waits_for = 3 FROM in_line
  WHERE k.queue = in_line.queue AND k.queue_key = in_line.queue_key AND k.waits_for = 1
)
UPDATE {schema}.instances i SET version = s.version FROM {s} WHERE i.key = ANY (ARRAY[s.key])";

const PUT_QUEUE: &str = "UPDATE {schema}.queues SET admitted = $admitted, turn = $turn WHERE name = $queue";

/// Selects whether instances that the worker can run are in line, or held; when the next key has a token; and whether
/// instances are left whose start time has come.
const LEFT: &str = concat!(
    "WITH ",
    registered!(),
    "
SELECT coalesce(bool_or((SELECT true FROM {schema}.queued_instances x
    WHERE x.place = 0 AND x.name = r.name AND x.version = r.version AND x.queue = $queue LIMIT 1)), false),
  coalesce(bool_or((SELECT true FROM {schema}.queued_instances x
    WHERE x.place = 1 AND x.name = r.name AND x.version = r.version AND x.queue = $queue LIMIT 1)), false),
  (SELECT next_at FROM {schema}.queue_keys WHERE queue = $queue AND waits_for = 2 ORDER BY next_at LIMIT 1),
  EXISTS (SELECT FROM {schema}.queued_instances WHERE place = 3 AND queue = $queue AND queued_at <= $now_ms)
FROM r"
);

/// Acquires instances in line, as many as there is room for.
pub(crate) async fn admit(
    session: &Session<'_>,
    request: &Acquire,
    registered: &Registered<'_>,
    acquired: &mut Acquired,
) -> Result<(), Failure> {
    let locked = named!(
        session.query,
        LOCK,
        {
            now: session.now(),
            owner: P::Text(&request.worker.0),
            names: P::Texts(&registered.names),
            versions: P::Texts(&registered.versions),
        }
    )
    .await?;
    for row in &locked {
        let (now_ms, queue): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
        if row.try_get::<_, Option<&str>>(2)?.is_none() {
            acquired.look_again_at(now_ms + QUEUE_BUSY_MS);
            continue;
        }
        // Limits that another program has broken must not keep the worker from all other work.
        let Some(before) = queue_state(row, 2)? else { continue };
        let mut admission = Admission {
            session,
            request,
            registered,
            queue,
            before,
            now_ms,
            acquired,
            keys: HashMap::new(),
            is_full: false,
        };
        admission.run().await?;
    }
    Ok(())
}

/// An instance in line, with the row of its key.
struct InLine {
    waiting: Waiting,
    name: String,
    version: String,
    /// Bytes of the data to load.
    size: i64,
    key: Option<KeyState>,
}

/// A pass over a queue, whose row is locked.
struct Admission<'a> {
    session: &'a Session<'a>,
    request: &'a Acquire,
    registered: &'a Registered<'a>,
    queue: &'a str,
    /// The row of the queue before the pass.
    before: QueueState,
    now_ms: i64,
    acquired: &'a mut Acquired,
    /// The rows of keys, as far as they were read.
    keys: HashMap<String, KeyState>,
    /// True once the data to load of the acquired instances has reached the limit.
    is_full: bool,
}

impl Admission<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        let slots = self.prepare().await?;
        let settings = &self.before.settings;
        let (limits_keys, counts_slots) = (settings.limits_keys(), settings.counts_slots());
        let full: Vec<Cow<'static, str>> = match settings.key_concurrency {
            Some(limit) => (slots.iter())
                .filter(|count| count.slots >= limit)
                .map(|count| Cow::Owned(encode(&count.key).into_owned()))
                .collect(),
            None => Vec::new(),
        };
        let slots = if counts_slots { slots } else { Vec::new() };
        let room = if self.bytes_left() > 0 {
            (self.request.limit.rows).saturating_sub(self.acquired.instances.len())
        } else {
            0
        };
        let mut pass = Pass::new(self.before.clone(), slots, room, self.now_ms);
        if pass.left() == 0 {
            let left = self.carry_out(&pass, &Step::default(), &HashMap::new(), true).await?;
            return self.note(&pass, &left, false);
        }
        if limits_keys {
            let keys = self.waiting_keys(&full).await?;
            let step = pass.begin(keys);
            self.carry_out(&pass, &step, &HashMap::new(), false).await?;
        }
        self.rounds(&mut pass).await
    }

    fn bytes_left(&self) -> usize {
        let bytes: usize = (self.acquired.instances.iter())
            .map(|instance| instance.page_bytes)
            .sum();
        self.request.limit.bytes.saturating_sub(bytes)
    }

    /// Puts the instances into the line whose start time has come, and sweeps. Returns the slots that are taken.
    async fn prepare(&self) -> Result<Vec<SlotCount>, Failure> {
        let (session, queue, state) = (self.session, P::Text(self.queue), &self.before);
        let now = P::Int(self.now_ms);
        let limit = P::Int(DELAYED_MAX);
        let moves = query!(
            MOVE,
            { queue: queue, now_ms: now, limit: limit, fair: P::Bool(state.settings.is_fair), turn: P::Int(state.turn) }
        );
        let slots = query!(SLOTS, { queue: queue, owner: P::Text(&self.request.worker.0) });
        let forget = query!(FORGET, { queue: queue, now_ms: now, limit: P::Int(index(ADMISSION_KEYS_MAX)) });
        session.connection().prepare(&[&moves, &slots, &forget]).await?;
        let (_, slots, _) = tokio::try_join!(
            biased;
            session.run(Some(&moves)),
            session.run(Some(&slots)),
            session.run(Some(&forget)),
        )?;
        let count =
            |row: &Row, column: usize| Ok::<_, Failure>(u32::try_from(number(row, column)?).unwrap_or(u32::MAX));
        let counted = slots.iter().map(|row| {
            Ok(SlotCount {
                key: text(row, 0)?,
                slots: count(row, 1)?,
                own: count(row, 2)?,
            })
        });
        counted.collect()
    }

    /// Reads the keys that may have a slot or a token again. `full` are keys that have none.
    async fn waiting_keys(&mut self, full: &[Cow<'_, str>]) -> Result<Vec<(String, KeyState)>, Failure> {
        let session = self.session;
        let rows = named!(
            session.query,
            KEYS,
            {
                queue: P::Text(self.queue),
                now_ms: P::Int(self.now_ms),
                limit: P::Int(index(ADMISSION_KEYS_MAX)),
                full: P::Texts(full),
            }
        )
        .await?;
        let mut keys = Vec::with_capacity(rows.len());
        for row in &rows {
            let (key, state) = (text(row, 0)?, key_state(row, 1)?);
            self.keys.insert(key.clone(), state.clone());
            keys.push((key, state));
        }
        Ok(keys)
    }

    /// Runs the rounds of a pass.
    async fn rounds(&mut self, pass: &mut Pass) -> Result<(), Failure> {
        let mut round = 0;
        loop {
            round += 1;
            let line = self.line(pass.round_size()).await?;
            let sizes = line.iter().map(|one| (one.waiting.instance, one.size)).collect();
            let mut keys = Vec::new();
            let mut waiting = Vec::with_capacity(line.len());
            for InLine { waiting: one, key, .. } in line {
                if let Some(state) = key {
                    self.keys.insert(one.key.clone(), state.clone());
                    keys.push((one.key.clone(), state));
                }
                waiting.push(one);
            }
            let step = pass.round(waiting, keys);
            let has_room = !self.is_full && pass.left() > 0;
            let is_over = !has_room || step.is_last || round == ADMISSION_ROUNDS_MAX;
            let left = self.carry_out(pass, &step, &sizes, is_over).await?;
            if is_over {
                return self.note(pass, &left, has_room && step.is_last);
            }
        }
    }

    /// Reads the first instances in line. Open versions are settled, and the instances that are left to other workers
    /// are no longer among them.
    async fn line(&mut self, limit: usize) -> Result<Vec<InLine>, Failure> {
        let (session, page) = (self.session, self.request.history_page);
        loop {
            let rows = named!(
                session.query,
                LINE,
                {
                    queue: P::Text(self.queue),
                    limit: P::Int(index(limit)),
                    bytes: P::Int(index(self.bytes_left())),
                    page_rows: P::Int(index(page.rows)),
                    page_bytes: P::Int(index(page.bytes)),
                    names: P::Texts(&self.registered.names),
                    versions: P::Texts(&self.registered.versions),
                }
            )
            .await?;
            let mut line = Vec::with_capacity(rows.len());
            for row in &rows {
                if row.try_get(11)? {
                    self.is_full = true;
                    break;
                }
                line.push(in_line(row)?);
            }
            if self.settle(&mut line).await? {
                return Ok(line);
            }
            self.is_full = false;
        }
    }

    /// Settles the versions that are open. Returns false if any instance is left to another worker.
    async fn settle(&self, line: &mut [InLine]) -> Result<bool, Failure> {
        if line.iter().all(|one| one.version != OPEN_VERSION) {
            return Ok(true);
        }
        let session = self.session;
        let live = worker::live_orchestrations(session).await?;
        let (mut keys, mut versions, mut all_own) = (Vec::new(), Vec::new(), true);
        for one in line.iter_mut().filter(|one| one.version == OPEN_VERSION) {
            let Settled { version, is_own } = self.request.settle(&one.name, &live);
            all_own &= is_own;
            keys.push(one.waiting.instance.0);
            versions.push(Cow::Owned(encode(&version).into_owned()));
            one.version = version;
        }
        named!(
            session.query,
            SETTLE,
            {},
            s {
                key: P::Ints(&keys),
                version: P::Texts(&versions)
            }
        )
        .await?;
        Ok(all_own)
    }

    /// Carries out a step. `sizes` has the bytes to load of the instances. If the pass is over, the row of the queue is
    /// written, and what is left is returned.
    async fn carry_out(
        &mut self,
        pass: &Pass,
        step: &Step,
        sizes: &HashMap<InstanceKey, i64>,
        is_over: bool,
    ) -> Result<Vec<Row>, Failure> {
        let session = self.session;
        let (taken, places) = (Taken::of(step, sizes), Places::of(step));
        let mut keys = KeyRows::default();
        for (key, state) in &step.keys {
            keys.push(key, state);
            self.keys.insert(key.clone(), state.clone());
        }
        let released = self.released(pass, step);
        let (take, place) = (taken.query(&self.request.worker.0), places.query());
        let [put, delete] = keys.queries(self.queue);
        let release = released.query(self.queue);
        let admitted = pass.queue().admitted.to_text();
        let put_queue = (is_over && *pass.queue() != self.before).then(|| self.put_queue(pass, &admitted));
        let left = is_over.then(|| self.left());
        let queries = [&take, &place, &put, &delete, &release, &put_queue, &left];
        let queries: Vec<&Query<'_>> = queries.into_iter().flatten().collect();
        session.connection().prepare(&queries).await?;
        // Sent in this order, without waiting for the answers in between.
        let (rows, _, _, _, _, _, left) = tokio::try_join!(
            biased;
            session.run(take.as_ref()),
            session.run(place.as_ref()),
            session.run(put.as_ref()),
            session.run(delete.as_ref()),
            session.run(release.as_ref()),
            session.run(put_queue.as_ref()),
            session.run(left.as_ref()),
        )?;
        let instances: Vec<AcquiredInstance> = read_taken(session, rows).await?;
        self.acquired.instances.extend(instances);
        Ok(left)
    }

    /// Returns the statement that writes the row of the queue after a pass, whose admissions are given as a text.
    fn put_queue<'q>(&'q self, pass: &Pass, admitted: &'q str) -> Query<'q> {
        query!(
            PUT_QUEUE,
            { queue: P::Text(self.queue), admitted: P::Text(admitted), turn: P::Int(pass.queue().turn) }
        )
    }

    /// Returns the statement that finds what is left after a pass.
    fn left(&self) -> Query<'_> {
        query!(
            LEFT,
            {
                queue: P::Text(self.queue),
                now_ms: P::Int(self.now_ms),
                names: P::Texts(&self.registered.names),
                versions: P::Texts(&self.registered.versions),
            }
        )
    }

    /// Returns the keys of which held instances come into the line.
    fn released(&self, pass: &Pass, step: &Step) -> Released {
        let (mut released, rate) = (Released::default(), pass.queue().settings.key_rate);
        for (key, count) in &step.released {
            let state = self.keys.get(key);
            let over_at = state.zip(rate).and_then(|(state, rate)| state.admitted.over_at(rate));
            released.key.push(Cow::Owned(encode(key).into_owned()));
            released.count.push(i64::from(*count));
            // A row that says nothing is deleted by the next pass.
            released.over_at.push(over_at.unwrap_or(0));
        }
        released
    }

    /// Notes when the queue is to be looked at again. `skips` is true if the pass has left instances in line that other
    /// transactions are about to change.
    fn note(&mut self, pass: &Pass, left: &[Row], skips: bool) -> Result<(), Failure> {
        let left = left
            .first()
            .ok_or_else(|| Failure::internal("a statement gave no row"))?;
        let (in_line, held): (bool, bool) = (left.try_get(0)?, left.try_get(1)?);
        if in_line && let Some(at_ms) = pass.next_at_ms() {
            let earliest_ms = if skips { self.now_ms + QUEUE_BUSY_MS } else { at_ms };
            self.acquired.look_again_at(at_ms.max(earliest_ms));
        }
        if (in_line || held)
            && !pass.waits_for_slots()
            && let Some(at_ms) = left.try_get::<_, Option<i64>>(2)?
        {
            self.acquired.look_again_at(at_ms);
        }
        // They were too many, or other transactions are about to change them.
        if left.try_get(3)? {
            self.acquired.look_again_at(self.now_ms + QUEUE_BUSY_MS);
        }
        self.acquired.slots_wanted |= in_line || held;
        Ok(())
    }
}

/// Reads an instance in line.
fn in_line(row: &Row) -> Result<InLine, Failure> {
    let has_key = row.try_get::<_, Option<&str>>(8)?.is_some();
    Ok(InLine {
        waiting: Waiting {
            instance: InstanceKey(row.try_get(0)?),
            key: text(row, 1)?,
            priority: row.try_get(2)?,
            turn: row.try_get(3)?,
            queued_at_ms: row.try_get(4)?,
        },
        name: text(row, 5)?,
        version: text(row, 6)?,
        size: row.try_get(7)?,
        key: has_key.then(|| key_state(row, 8)).transpose()?,
    })
}
