//! The admission of instances and of attempts from queues (P24, P27): [`Pass`] decides, and this module reads the rows
//! and carries out its steps, in the transaction of an acquisition.
//!
//! The row of a queue is locked for a pass, so that the passes over a queue come one after the other. A queue that
//! another worker has locked is left out, and asked for again soon. A pass waits for no row: it skips the entries and
//! the rows of `queue_places` that another transaction is about to change. It has the row of each instance or task
//! locked that it admits or holds, and other transactions lock that before the row of its place.

mod attempts;
mod entries;
mod instances;
mod line;
mod new_slots;
mod statements;
mod steps;

use std::borrow::Cow;
use std::collections::HashMap;

use perdure_provider::{
    ADMISSION_KEYS_MAX, ADMISSION_ROUNDS_MAX, ATTEMPT_VERSION, Acquire, AcquiredInstance, EntryKey, KeyState, Pass,
    QueueState, SlotCount, Step, Task, TaskRequest,
};
use tokio_postgres::Row;

use crate::acquire::parts::Registered;
use crate::error::Failure;
use crate::options::{DELAYED_MAX, QUEUE_BUSY_MS};
use crate::params::P;
use crate::query::Query;
use crate::queues::{KeyRows, key_state, queue_state};
use crate::rows::{index, number, text};
use crate::session::Session;
use crate::statement::{named, query};
use crate::tasks::parts::texts;
use crate::text::encode;

use entries::Entries;
use line::{InLine, LineRequest};
pub(crate) use new_slots::{NewSlot, NewSlots, admit_new};
use statements::{FORGET, KEYS, LEFT, LOCK, MOVE, PUT_QUEUE, SLOTS};
use steps::{Places, Released, Taken};

/// The entries that the passes have left in the queues: when to look at them again, and if they wait for slots.
#[derive(Default)]
pub(crate) struct Outlook {
    /// When a queue is to be looked at again, ms since 1970.
    pub(crate) next_at_ms: Option<i64>,
    /// True if entries that the worker can run are in line, or held.
    pub(crate) slots_wanted: bool,
}

impl Outlook {
    fn look_again_at(&mut self, at_ms: i64) {
        self.next_at_ms = Some(self.next_at_ms.map_or(at_ms, |next| next.min(at_ms)));
    }
}

/// Acquires instances in line, as many as there is room for.
pub(crate) async fn admit_instances(
    session: &Session<'_>,
    request: &Acquire,
    registered: &Registered<'_>,
    acquired: &mut Vec<AcquiredInstance>,
) -> Result<Outlook, Failure> {
    admit(session, Entries::Instances(request, acquired), registered).await
}

/// Takes attempts in line, as many as there is room for.
pub(crate) async fn admit_attempts(
    session: &Session<'_>,
    request: &TaskRequest,
    taken: &mut Vec<Task>,
) -> Result<Outlook, Failure> {
    let registered = Registered {
        names: texts(&request.names),
        versions: vec![encode(ATTEMPT_VERSION); request.names.len()],
    };
    admit(session, Entries::Attempts(request, taken), &registered).await
}

async fn admit(
    session: &Session<'_>,
    mut entries: Entries<'_>,
    registered: &Registered<'_>,
) -> Result<Outlook, Failure> {
    let mut outlook = Outlook::default();
    let locked = lock(session, &entries, registered).await?;
    for row in &locked {
        let (now_ms, queue): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
        if row.try_get::<_, Option<&str>>(2)?.is_none() {
            outlook.look_again_at(now_ms + QUEUE_BUSY_MS);
            continue;
        }
        // Limits that another program has broken must not keep the worker from all other work.
        let Some(before) = queue_state(row, 2)? else { continue };
        let mut admission = Admission {
            session,
            entries: &mut entries,
            registered,
            queue,
            before,
            now_ms,
            outlook: &mut outlook,
            keys: HashMap::new(),
            is_full: false,
        };
        admission.run().await?;
    }
    Ok(outlook)
}

/// Locks the queues to look at. Returns a row for each, also for those that another worker has locked.
async fn lock(session: &Session<'_>, entries: &Entries<'_>, registered: &Registered<'_>) -> Result<Vec<Row>, Failure> {
    let queues = entries.queues();
    named!(
        session.query,
        LOCK,
        {
            now: session.now(),
            owner: entries.owner(),
            any: P::Bool(queues.is_none()),
            queues: P::Texts(&texts(queues.unwrap_or_default())),
            names: P::Texts(&registered.names),
            versions: P::Texts(&registered.versions),
        }
    )
    .await
}

/// Reads the slots that are taken, by key.
fn slot_counts(rows: &[Row]) -> Result<Vec<SlotCount>, Failure> {
    let count = |row: &Row, column: usize| Ok::<_, Failure>(u32::try_from(number(row, column)?).unwrap_or(u32::MAX));
    let counted = rows.iter().map(|row| {
        Ok(SlotCount {
            key: text(row, 0)?,
            slots: count(row, 1)?,
            own: count(row, 2)?,
        })
    });
    counted.collect()
}

/// Returns the statement that writes the row of a queue after a pass, whose admissions are given as a text.
fn put_queue<'q>(queue: &'q str, pass: &Pass, admitted: &'q str) -> Query<'q> {
    query!(
        PUT_QUEUE,
        { queue: P::Text(queue), admitted: P::Text(admitted), turn: P::Int(pass.queue().turn) }
    )
}

/// A pass over a queue, whose row is locked.
struct Admission<'a, 'e> {
    session: &'a Session<'a>,
    entries: &'a mut Entries<'e>,
    registered: &'a Registered<'a>,
    queue: &'a str,
    /// The row of the queue before the pass.
    before: QueueState,
    now_ms: i64,
    outlook: &'a mut Outlook,
    /// The rows of keys, as far as they were read.
    keys: HashMap<String, KeyState>,
    /// True once the data to load of what was acquired has reached the limit.
    is_full: bool,
}

impl Admission<'_, '_> {
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
        let room = self.entries.room();
        let room = if room.bytes > 0 { room.rows } else { 0 };
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

    /// Puts the entries into the line whose time has come, and sweeps. Returns the slots that are taken.
    async fn prepare(&self) -> Result<Vec<SlotCount>, Failure> {
        let (session, queue, state) = (self.session, P::Text(self.queue), &self.before);
        let now = P::Int(self.now_ms);
        let limit = P::Int(DELAYED_MAX);
        let moves = query!(
            MOVE,
            { queue: queue, now_ms: now, limit: limit, fair: P::Bool(state.settings.is_fair), turn: P::Int(state.turn) }
        );
        let slots = query!(SLOTS, { queue: queue, owner: self.entries.owner() });
        let forget = query!(FORGET, { queue: queue, now_ms: now, limit: P::Int(index(ADMISSION_KEYS_MAX)) });
        session.connection().prepare(&[&moves, &slots, &forget]).await?;
        let (_, slots, _) = tokio::try_join!(
            biased;
            session.run(Some(&moves)),
            session.run(Some(&slots)),
            session.run(Some(&forget)),
        )?;
        slot_counts(&slots)
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
            let sizes = line.iter().map(|one| (one.waiting.entry, one.size)).collect();
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

    /// Reads the first entries in line. Open versions are settled, and the instances that are left to other workers are
    /// no longer among them.
    async fn line(&mut self, limit: usize) -> Result<Vec<InLine>, Failure> {
        loop {
            let bytes = self.entries.room().bytes;
            let (queue, registered) = (self.queue, self.registered);
            let request = LineRequest {
                queue,
                registered,
                limit,
                bytes,
            };
            let rows = self.session.run(Some(&self.entries.line(&request))).await?;
            let mut line = Vec::with_capacity(rows.len());
            for row in &rows {
                if row.try_get(11)? {
                    self.is_full = true;
                    break;
                }
                line.push(InLine::of(row)?);
            }
            if self.entries.settle(self.session, &mut line).await? {
                return Ok(line);
            }
            self.is_full = false;
        }
    }

    /// Carries out a step. `sizes` has the bytes to load of the entries. If the pass is over, the row of the queue is
    /// written, and what is left is returned.
    async fn carry_out(
        &mut self,
        pass: &Pass,
        step: &Step,
        sizes: &HashMap<EntryKey, i64>,
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
        let (take, place) = (self.entries.take(&taken, self.now_ms), places.query());
        let [put, delete] = keys.queries(self.queue);
        let release = released.query(self.queue);
        let admitted = pass.queue().admitted.to_text();
        let put_queue = (is_over && *pass.queue() != self.before).then(|| put_queue(self.queue, pass, &admitted));
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
        if rows.len() < taken.key.len() {
            // Attempts of sessions have slots now. The next request finds their workers, of which this may be one.
            self.outlook.look_again_at(self.now_ms);
        }
        self.entries.add(session, rows).await?;
        Ok(left)
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

    /// Returns the keys of which held entries come into the line.
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

    /// Notes when the queue is to be looked at again. `skips` is true if the pass has left entries in line that other
    /// transactions are about to change.
    fn note(&mut self, pass: &Pass, left: &[Row], skips: bool) -> Result<(), Failure> {
        let left = left
            .first()
            .ok_or_else(|| Failure::internal("a statement gave no row"))?;
        let (in_line, held): (bool, bool) = (left.try_get(0)?, left.try_get(1)?);
        if in_line && let Some(at_ms) = pass.next_at_ms() {
            let earliest_ms = if skips { self.now_ms + QUEUE_BUSY_MS } else { at_ms };
            self.outlook.look_again_at(at_ms.max(earliest_ms));
        }
        if (in_line || held)
            && !pass.waits_for_slots()
            && let Some(at_ms) = left.try_get::<_, Option<i64>>(2)?
        {
            self.outlook.look_again_at(at_ms);
        }
        // They were too many, or other transactions are about to change them.
        if left.try_get(3)? {
            self.outlook.look_again_at(self.now_ms + QUEUE_BUSY_MS);
        }
        self.outlook.slots_wanted |= in_line || held;
        Ok(())
    }
}
