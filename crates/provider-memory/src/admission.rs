//! The admission from queues, within a request for instances or for attempts: which of those in line get a slot (P24,
//! P27).

use std::collections::BTreeMap;

use perdure_engine::{Bug, is_planted};
use perdure_provider::{
    ADMISSION_KEYS_MAX, ADMISSION_ROUNDS_MAX, ATTEMPT_VERSION, Admissions, EntryKey, KeyState, KeyWait, PageLimit,
    Pass, QueuePlace, SlotCount, Status, Step, Waiting, WorkerId,
};

use crate::queues;
use crate::rows::QueuePlaceRow;
use crate::tables::Tables;
use crate::tasks;

/// A request that takes entries out of the line, with its answer.
pub(crate) trait Taker {
    /// Returns the worker that asks.
    fn worker(&self) -> &WorkerId;

    /// Returns true if the request takes entries of a queue.
    fn serves(&self, queue: &str) -> bool;

    /// Returns true if the worker can run entries of a name and a version.
    fn can_run(&self, name: &str, version: &str) -> bool;

    /// Returns the limit of the answer.
    fn limit(&self) -> PageLimit;

    /// Returns how many entries the answer has, and the bytes of their data.
    fn taken(&self) -> (usize, usize);

    /// Returns the bytes of the data of an entry.
    fn bytes(&self, tables: &Tables, key: EntryKey) -> usize;

    /// Settles the version of an entry that is first in line. Returns true if the worker may take the entry.
    fn settle(&self, tables: &mut Tables, key: EntryKey) -> bool;

    /// Takes an entry, which has a slot.
    fn take(&mut self, tables: &mut Tables, key: EntryKey);

    /// Notes that there may be something to take at a time, ms since 1970.
    fn look_again_at(&mut self, at_ms: i64);

    /// Notes that entries wait for a slot that the worker can run.
    fn want_slots(&mut self);
}

/// An instance or an attempt, as the pass sees it.
struct Entry<'t> {
    name: &'t str,
    version: &'t str,
    priority: i32,
    owner: Option<&'t WorkerId>,
}

impl<'t> Entry<'t> {
    /// Returns the entry of a place. `None`: the entry is gone.
    fn find(tables: &'t Tables, key: EntryKey, row: &QueuePlaceRow) -> Option<Self> {
        if let Some(task) = &row.task {
            let row = tables.tasks.get(&tasks::place(task))?;
            return Some(Self {
                name: &row.name,
                version: ATTEMPT_VERSION,
                priority: row.priority,
                owner: row.worker.as_ref(),
            });
        }
        let row = tables.instance(key.instance()?)?;
        Some(Self {
            name: &row.name,
            version: &row.version,
            priority: row.priority,
            owner: row.owner.as_ref(),
        })
    }

    /// Returns an entry that has no slot yet.
    fn waiting(tables: &'t Tables, key: EntryKey, row: &QueuePlaceRow) -> Self {
        Self::find(tables, key, row).expect("an entry that waits is there")
    }
}

/// Gives a slot to a new instance without a key that a worker claims, if nothing in the queue waits. Returns its turn.
/// `None`: the instance gets no slot now.
pub(crate) fn admit_new(tables: &mut Tables, queue: &str, worker: &WorkerId) -> Option<i64> {
    queues::sweep(tables, queue);
    let waits = |row: &QueuePlaceRow| match row.place {
        QueuePlace::Waits | QueuePlace::Held => true,
        QueuePlace::Delayed => row.queued_at_ms <= tables.now_ms,
        QueuePlace::Slot | QueuePlace::Suspended => false,
    };
    if queues::rows_of(tables, queue).any(|(_, row)| waits(row)) && !is_planted(Bug::LineOvertaken) {
        return None;
    }
    if is_paused(tables, queue) {
        return None;
    }
    let state = tables.queues.get(queue)?.clone();
    let mut pass = Pass::new(state, slots(tables, queue, worker), 1, tables.now_ms);
    let turn = pass.admit_new()?;
    tables.queues.insert(queue.to_owned(), pass.queue().clone());
    Some(turn)
}

/// Gives slots to entries in line that a worker can run, as many as it has room for.
pub(crate) fn admit(tables: &mut Tables, taker: &mut impl Taker) {
    let queues = tables.queues.iter().map(|(name, _)| name);
    let open = queues.filter(|name| taker.serves(name) && !is_paused(tables, name));
    let queues: Vec<String> = open.cloned().collect();
    for queue in queues {
        Admission {
            taker: &mut *taker,
            queue: &queue,
        }
        .run(tables);
    }
}

fn is_paused(tables: &Tables, queue: &str) -> bool {
    tables.paused_queues.contains(&queue.to_owned()) && !is_planted(Bug::PauseForgotten)
}

/// The pass of a worker over the line of a queue.
struct Admission<'a, T> {
    taker: &'a mut T,
    queue: &'a str,
}

impl<T: Taker> Admission<'_, T> {
    /// Returns true if the worker can run an entry that waits.
    fn can_run(&self, tables: &Tables, key: EntryKey, row: &QueuePlaceRow) -> bool {
        let entry = Entry::waiting(tables, key, row);
        self.taker.can_run(entry.name, entry.version)
    }

    /// Returns true if entries wait for a slot that the worker can run.
    fn is_wanted(&self, tables: &Tables) -> bool {
        let waits = |row: &QueuePlaceRow| matches!(row.place, QueuePlace::Waits | QueuePlace::Held);
        queues::rows_of(tables, self.queue).any(|(key, row)| waits(row) && self.can_run(tables, key, row))
    }

    fn run(&mut self, tables: &mut Tables) {
        let (queue, now_ms) = (self.queue, tables.now_ms);
        self.let_delayed_in(tables);
        queues::sweep(tables, queue);
        if !self.is_wanted(tables) {
            return;
        }
        let mut state = tables.queues.get(queue).expect("it was just listed").clone();
        if is_planted(Bug::RateForgotten) {
            state.admitted = Admissions::default();
        }
        let room = self.taker.limit().rows.saturating_sub(self.taker.taken().0);
        let slots = slots(tables, queue, self.taker.worker());
        let mut pass = Pass::new(state, slots, room, now_ms);
        if pass.left() > 0 {
            let step = pass.begin(keys_whose_time_has_come(tables, queue));
            self.carry_out(tables, &step);
            self.rounds(tables, &mut pass);
            tables.queues.insert(queue.to_owned(), pass.queue().clone());
        }
        self.note_rest(tables, &pass);
    }

    /// Puts the entries into the line whose time has come, in the order of these times.
    fn let_delayed_in(&mut self, tables: &mut Tables) {
        let delayed = queues::rows_of(tables, self.queue).filter(|(_, row)| row.place == QueuePlace::Delayed);
        let mut delayed: Vec<_> = delayed.map(|(key, row)| (row.queued_at_ms, key, row.clone())).collect();
        delayed.sort_unstable_by_key(|(at_ms, key, _)| (*at_ms, *key));
        for (at_ms, key, row) in delayed {
            if at_ms <= tables.now_ms {
                let turn = queues::next_turn(tables, &row.entry);
                tables.queue_places.edit(&key, |row| {
                    (row.place, row.turn) = (QueuePlace::Waits, turn);
                });
            } else if self.can_run(tables, key, &row) {
                self.taker.look_again_at(at_ms);
            }
        }
    }

    fn rounds(&mut self, tables: &mut Tables, pass: &mut Pass) {
        for _ in 0..ADMISSION_ROUNDS_MAX {
            let mut line = self.line(tables, pass.round_size());
            // An instance whose version is open and that another worker is to run stays in line for that one.
            line.retain(|waiting| self.taker.settle(tables, waiting.entry));
            self.keep_what_fits(tables, &mut line);
            let keys: BTreeMap<String, KeyState> = queues::keys_of(tables, self.queue).collect();
            let step = pass.round(line, keys);
            self.carry_out(tables, &step);
            if step.is_last || pass.left() == 0 {
                return;
            }
        }
    }

    /// Returns the first entries in line that the worker can run.
    fn line(&self, tables: &Tables, limit: usize) -> Vec<Waiting> {
        let waiting = queues::rows_of(tables, self.queue).filter(|(_, row)| row.place == QueuePlace::Waits);
        let mut line: Vec<Waiting> = waiting
            .filter(|(key, row)| self.can_run(tables, *key, row))
            .map(|(key, row)| waiting_of(tables, key, row))
            .collect();
        line.sort_unstable_by_key(Waiting::rank);
        line.truncate(limit);
        line
    }

    /// Drops the entries for whose data the request has no room.
    fn keep_what_fits(&self, tables: &Tables, line: &mut Vec<Waiting>) {
        let (taken, mut bytes) = self.taker.taken();
        for n in 0..line.len() {
            if taken + n > 0 && bytes >= self.taker.limit().bytes {
                return line.truncate(n);
            }
            bytes += self.taker.bytes(tables, line[n].entry);
        }
    }

    fn carry_out(&mut self, tables: &mut Tables, step: &Step) {
        for waiting in &step.admitted {
            queues::put(tables, waiting.entry, QueuePlace::Slot);
            self.taker.take(tables, waiting.entry);
        }
        for waiting in &step.held {
            queues::put(tables, waiting.entry, QueuePlace::Held);
        }
        for (key, state) in &step.keys {
            queues::put_key(tables, self.queue, key.clone(), state.clone());
        }
        for (key, count) in &step.released {
            release(tables, self.queue, key, *count);
        }
    }

    /// Notes when the queue is to be looked at again.
    fn note_rest(&mut self, tables: &Tables, pass: &Pass) {
        if !self.line(tables, 1).is_empty()
            && let Some(at_ms) = pass.next_at_ms()
        {
            self.taker.look_again_at(at_ms);
        }
        if !pass.waits_for_slots() {
            let tokens = queues::keys_of(tables, self.queue).filter(|(_, state)| state.waits_for == KeyWait::Token);
            for at_ms in tokens.filter_map(|(_, state)| state.next_at_ms) {
                self.taker.look_again_at(at_ms);
            }
        }
        if self.is_wanted(tables) {
            self.taker.want_slots();
        }
    }
}

/// Returns the keys that wait for a slot, and those whose token is due.
fn keys_whose_time_has_come(tables: &Tables, queue: &str) -> Vec<(String, KeyState)> {
    let is_time = |state: &KeyState| match state.waits_for {
        KeyWait::Slot => !is_planted(Bug::HeldKeyForgotten),
        KeyWait::Token => state.next_at_ms.is_none_or(|at_ms| at_ms <= tables.now_ms),
        KeyWait::Nothing | KeyWait::Turn => false,
    };
    let keys = queues::keys_of(tables, queue).filter(|(_, state)| is_time(state));
    keys.take(ADMISSION_KEYS_MAX).collect()
}

fn slots(tables: &Tables, queue: &str, worker: &WorkerId) -> Vec<SlotCount> {
    let mut slots: BTreeMap<String, SlotCount> = BTreeMap::new();
    for (key, row) in queues::rows_of(tables, queue).filter(|(_, row)| row.place == QueuePlace::Slot) {
        if key.is_attempt() && is_planted(Bug::AttemptSlotsNotCounted) {
            continue;
        }
        let owner = Entry::find(tables, key, row).and_then(|entry| entry.owner);
        let count = slots.entry(row.entry.key.clone()).or_insert_with(|| SlotCount {
            key: row.entry.key.clone(),
            slots: 0,
            own: 0,
        });
        count.slots += 1;
        count.own += u32::from(owner == Some(worker));
    }
    if is_planted(Bug::SlotNotCounted) {
        // The keys lose one slot together.
        let first = slots.values_mut().next();
        first.into_iter().for_each(|count| count.slots -= 1);
    }
    slots.into_values().collect()
}

fn waiting_of(tables: &Tables, key: EntryKey, row: &QueuePlaceRow) -> Waiting {
    let Entry { priority, owner, .. } = Entry::waiting(tables, key, row);
    let instance = key.instance().and_then(|key| tables.instance(key));
    debug_assert!(owner.is_none() && instance.is_none_or(|row| row.status == Status::Pending));
    Waiting {
        entry: key,
        key: row.entry.key.clone(),
        priority,
        turn: row.turn,
        queued_at_ms: row.queued_at_ms,
    }
}

/// Lets the first held entries of a key into the line: so many of each name and version.
fn release(tables: &mut Tables, queue: &str, key: &str, count: u32) {
    let of_key =
        queues::rows_of(tables, queue).filter(|(_, row)| row.place == QueuePlace::Held && row.entry.key == key);
    let mut held: BTreeMap<(&str, &str), Vec<Waiting>> = BTreeMap::new();
    for (entry, row) in of_key {
        let Entry { name, version, .. } = Entry::waiting(tables, entry, row);
        let of_sort = held.entry((name, version)).or_default();
        of_sort.push(waiting_of(tables, entry, row));
    }
    let (mut released, mut has_more) = (Vec::new(), false);
    for mut of_sort in held.into_values() {
        of_sort.sort_unstable_by_key(Waiting::rank);
        has_more |= of_sort.len() > count as usize;
        released.extend(of_sort.iter().take(count as usize).map(|waiting| waiting.entry));
    }
    for entry in released {
        queues::put(tables, entry, QueuePlace::Waits);
    }
    if !has_more {
        let rate = tables.queues.get(queue).and_then(|queue| queue.settings.key_rate);
        if let Some(state) = tables.queue_keys.get(&(queue.to_owned(), key.to_owned())).cloned() {
            queues::put_key(tables, queue, key.to_owned(), KeyState::idle(state.admitted, rate));
        }
    }
}
