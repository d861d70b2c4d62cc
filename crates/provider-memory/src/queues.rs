//! Queues of instances, and the admission from them (P24).

use std::collections::BTreeMap;

use perdure_engine::{Bug, is_planted};
use perdure_provider::{
    ADMISSION_KEYS_MAX, ADMISSION_ROUNDS_MAX, Acquire, Acquired, Admissions, InstanceKey, KeyState, KeyWait, Pass,
    QUEUES_MAX, QueueDeletion, QueueEntry, QueueInfo, QueuePlace, QueueSettings, SlotCount, Status, Step, Waiting,
};

use crate::acquire;
use crate::rows::InstanceRow;
use crate::tables::Tables;

/// An instance in a queue, until it has ended or is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedRow {
    /// The queue and the key.
    pub entry: QueueEntry,
    /// The state of the instance in the queue.
    pub place: QueuePlace,
    /// The round in which its key gets this slot.
    pub turn: i64,
    /// When it began to wait, or will, ms since 1970.
    pub queued_at_ms: i64,
}

/// Sets the limits of a queue. The keys are looked at anew. Returns false if there are too many queues.
pub(crate) fn set(tables: &mut Tables, name: &str, settings: &QueueSettings) -> bool {
    let name = name.to_owned();
    if !tables.queues.contains(&name) && tables.queues.len() >= QUEUES_MAX {
        return false;
    }
    let mut queue = tables.queues.get(&name).cloned().unwrap_or_default();
    queue.settings = settings.clone();
    tables.queues.insert(name.clone(), queue);
    let held = in_place(tables, &name, QueuePlace::Held);
    for key in held {
        put(tables, key, QueuePlace::Waits);
    }
    if !settings.is_fair {
        forget_turns(tables, &name);
    }
    let keys: Vec<(String, KeyState)> = keys_of(tables, &name).collect();
    for (key, state) in keys {
        put_key(tables, &name, key, KeyState::idle(state.admitted, settings.key_rate));
    }
    true
}

/// Writes the row of a key, or removes it if it says nothing.
fn put_key(tables: &mut Tables, queue: &str, key: String, state: KeyState) {
    let at = (queue.to_owned(), key);
    if state.is_empty() {
        tables.queue_keys.remove(&at);
    } else {
        tables.queue_keys.insert(at, state);
    }
}

/// Takes their turns from the instances that wait. The first come is the first served from here on.
fn forget_turns(tables: &mut Tables, queue: &str) {
    let waiting = rows_of(tables, queue).filter(|(_, row)| row.place != QueuePlace::Slot);
    let waiting: Vec<InstanceKey> = waiting.map(|(key, _)| key).collect();
    for key in waiting {
        tables.queued.edit(&key, |row| row.turn = 0);
    }
}

/// Deletes a queue, unless instances are in it.
pub(crate) fn delete(tables: &mut Tables, name: &str) -> QueueDeletion {
    let name = name.to_owned();
    if !tables.queues.contains(&name) {
        return QueueDeletion::NotFound;
    }
    let info = info(tables, &name);
    let waiting = info.waiting + info.delayed;
    if waiting + info.running > 0 {
        return QueueDeletion::InUse {
            waiting,
            running: info.running,
        };
    }
    sweep(tables, &name);
    let keys: Vec<(String, String)> = keys_of(tables, &name).map(|(key, _)| (name.clone(), key)).collect();
    for key in keys {
        tables.queue_keys.remove(&key);
    }
    tables.queues.remove(&name);
    QueueDeletion::Deleted
}

/// Returns one queue, or all of them.
pub(crate) fn list(tables: &Tables, name: Option<&str>) -> Vec<QueueInfo> {
    let all = tables.queues.iter().map(|(name, _)| name);
    let asked = all.filter(|other| name.is_none_or(|name| *other == name));
    asked.map(|name| info(tables, name)).collect()
}

fn info(tables: &Tables, name: &String) -> QueueInfo {
    let queue = tables.queues.get(name).cloned().unwrap_or_default();
    let (mut waiting, mut delayed, mut running, mut oldest_ms) = (0, 0, 0, None::<i64>);
    for (key, row) in rows_of(tables, name) {
        match row.place {
            QueuePlace::Slot => running += u64::from(is_open(tables, key)),
            QueuePlace::Delayed => delayed += 1,
            QueuePlace::Waits | QueuePlace::Held | QueuePlace::Suspended => {
                waiting += 1;
                oldest_ms = Some(oldest_ms.map_or(row.queued_at_ms, |oldest| oldest.min(row.queued_at_ms)));
            }
        }
    }
    let tokens = queue.settings.rate.map(|rate| queue.admitted.free(rate, tables.now_ms));
    QueueInfo {
        name: name.clone(),
        settings: queue.settings,
        waiting,
        delayed,
        running,
        tokens,
        oldest_ms,
    }
}

/// Puts a new instance into its queue, which exists.
pub(crate) fn enter(tables: &mut Tables, key: InstanceKey, entry: &QueueEntry, due_at_ms: i64) {
    let is_delayed = due_at_ms > tables.now_ms;
    let row = QueuedRow {
        entry: entry.clone(),
        place: if is_delayed {
            QueuePlace::Delayed
        } else {
            QueuePlace::Waits
        },
        turn: if is_delayed { 0 } else { next_turn(tables, entry) },
        queued_at_ms: due_at_ms,
    };
    tables.queued.insert(key, row);
}

/// Returns the round in which the next instance of a key gets a slot: after the last one of the key that is in line,
/// and after the last one that got a slot. So the keys take turns, as the flows of start-time fair queueing do (Goyal,
/// Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996).
fn next_turn(tables: &Tables, entry: &QueueEntry) -> i64 {
    let queue = tables.queues.get(&entry.queue).cloned().unwrap_or_default();
    if !queue.settings.is_fair {
        return 0;
    }
    let of_key = rows_of(tables, &entry.queue).filter(|(_, row)| row.entry.key == entry.key);
    let last = of_key.map(|(_, row)| row.turn).max().unwrap_or(0);
    last.max(queue.turn) + 1
}

/// Returns the start time of an instance in a queue, if it has not come.
pub(crate) fn delayed_until(tables: &Tables, key: InstanceKey) -> Option<i64> {
    let row = tables.queued.get(&key)?;
    (row.place == QueuePlace::Delayed).then_some(row.queued_at_ms)
}

/// Changes the start time of an instance whose start time has not come. Returns false if it is in no queue.
pub(crate) fn delay(tables: &mut Tables, key: InstanceKey, until_ms: i64) -> bool {
    let is_queued = tables.queued.contains(&key);
    if is_queued {
        tables.queued.edit(&key, |row| row.queued_at_ms = until_ms);
    }
    is_queued
}

/// Takes an instance out of its queue, if it is in one.
pub(crate) fn leave(tables: &mut Tables, key: InstanceKey) {
    release_next(tables, key);
    tables.queued.remove(&key);
}

/// Takes an instance that waits out of the line until it is resumed.
pub(crate) fn suspend(tables: &mut Tables, key: InstanceKey) {
    if waits(tables, key) {
        release_next(tables, key);
        put(tables, key, QueuePlace::Suspended);
    }
}

/// Lets the next pass look at the key of an instance that leaves the line without a slot, or is now one of another
/// version: others of the key may be held until it gets one.
pub(crate) fn release_next(tables: &mut Tables, key: InstanceKey) {
    let row = tables.queued.get(&key).filter(|row| row.place == QueuePlace::Waits);
    let Some(QueuedRow { entry, .. }) = row.cloned() else {
        return;
    };
    tables.queue_keys.edit(&(entry.queue, entry.key), |state| {
        if state.waits_for == KeyWait::Turn {
            state.waits_for = KeyWait::Slot;
        }
    });
}

/// Puts an instance that is resumed into the line again, if it was in one. Returns true if it waits.
pub(crate) fn resume(tables: &mut Tables, key: InstanceKey) -> bool {
    if !waits(tables, key) {
        return false;
    }
    let row = tables.queued.get(&key).expect("it waits").clone();
    if row.queued_at_ms > tables.now_ms {
        put(tables, key, QueuePlace::Delayed);
        return true;
    }
    // An instance whose time came while it was suspended has no turn yet.
    let turn = if row.turn == 0 {
        next_turn(tables, &row.entry)
    } else {
        row.turn
    };
    tables.queued.edit(&key, |row| {
        (row.place, row.turn) = (QueuePlace::Waits, turn);
    });
    true
}

/// Returns true if an instance is in a queue, and has no slot yet.
fn waits(tables: &Tables, key: InstanceKey) -> bool {
    (tables.queued.get(&key)).is_some_and(|row| row.place != QueuePlace::Slot)
}

fn put(tables: &mut Tables, key: InstanceKey, place: QueuePlace) {
    tables.queued.edit(&key, |row| row.place = place);
}

fn rows_of<'t>(tables: &'t Tables, queue: &'t str) -> impl Iterator<Item = (InstanceKey, &'t QueuedRow)> {
    let rows = tables.queued.iter().map(|(key, row)| (*key, row));
    rows.filter(move |(_, row)| row.entry.queue == queue)
}

fn in_place(tables: &Tables, queue: &str, place: QueuePlace) -> Vec<InstanceKey> {
    let there = rows_of(tables, queue).filter(|(_, row)| row.place == place);
    there.map(|(key, _)| key).collect()
}

fn keys_of<'t>(tables: &'t Tables, queue: &'t str) -> impl Iterator<Item = (String, KeyState)> + 't {
    let keys = tables.queue_keys.iter().filter(move |((of, _), _)| of == queue);
    keys.map(|((_, key), state)| (key.clone(), state.clone()))
}

fn is_open(tables: &Tables, key: InstanceKey) -> bool {
    (tables.instance(key)).is_some_and(|row| !row.status.is_terminal())
}

/// Removes the rows of instances that had a slot, and have ended or are gone.
fn sweep(tables: &mut Tables, queue: &str) {
    if is_planted(Bug::SlotOutlivesInstance) {
        return;
    }
    for key in in_place(tables, queue, QueuePlace::Slot) {
        if !is_open(tables, key) {
            leave(tables, key);
        }
    }
}

/// Acquires instances in line for a worker, as many as there is room for.
pub(crate) fn admit(tables: &mut Tables, request: &Acquire, acquired: &mut Acquired) {
    let queues: Vec<String> = tables.queues.iter().map(|(name, _)| name.clone()).collect();
    for queue in queues {
        let room = request.limit.rows.saturating_sub(acquired.instances.len());
        Admission { request, queue: &queue }.run(tables, room, acquired);
    }
}

/// The pass of a worker over the line of a queue.
struct Admission<'a> {
    request: &'a Acquire,
    queue: &'a str,
}

impl Admission<'_> {
    /// Returns true if the worker can run an instance that waits.
    fn can_run(&self, tables: &Tables, key: InstanceKey) -> bool {
        let row = tables.instance(key).expect("an instance that waits is there");
        let mut registered = self.request.registered.iter();
        registered.any(|(name, version)| *name == row.name && *version == row.version)
    }

    /// Returns true if instances wait for a slot that the worker can run.
    fn is_wanted(&self, tables: &Tables) -> bool {
        let waits = |row: &QueuedRow| matches!(row.place, QueuePlace::Waits | QueuePlace::Held);
        rows_of(tables, self.queue).any(|(key, row)| waits(row) && self.can_run(tables, key))
    }

    fn run(&self, tables: &mut Tables, room: usize, acquired: &mut Acquired) {
        let (queue, now_ms) = (self.queue, tables.now_ms);
        self.let_delayed_in(tables, acquired);
        sweep(tables, queue);
        if !self.is_wanted(tables) {
            return;
        }
        let mut state = tables.queues.get(queue).expect("it was just listed").clone();
        if is_planted(Bug::RateForgotten) {
            state.admitted = Admissions::default();
        }
        let slots = slots(tables, queue, self.request);
        let mut pass = Pass::new(state, slots, room, now_ms);
        if pass.left() > 0 {
            let step = pass.begin(keys_whose_time_has_come(tables, queue));
            carry_out(tables, self.request, queue, &step, acquired);
            self.rounds(tables, &mut pass, acquired);
            tables.queues.insert(queue.to_owned(), pass.queue().clone());
        }
        self.note_rest(tables, &pass, acquired);
    }

    /// Puts the instances into the line whose start time has come, in the order of these times.
    fn let_delayed_in(&self, tables: &mut Tables, acquired: &mut Acquired) {
        let delayed = rows_of(tables, self.queue).filter(|(_, row)| row.place == QueuePlace::Delayed);
        let mut delayed: Vec<_> = delayed
            .map(|(key, row)| (row.queued_at_ms, key, row.entry.clone()))
            .collect();
        delayed.sort_unstable_by_key(|(at_ms, key, _)| (*at_ms, *key));
        for (at_ms, key, entry) in delayed {
            if at_ms <= tables.now_ms {
                let turn = next_turn(tables, &entry);
                tables.queued.edit(&key, |row| {
                    (row.place, row.turn) = (QueuePlace::Waits, turn);
                });
            } else if self.can_run(tables, key) {
                acquired.look_again_at(at_ms);
            }
        }
    }

    fn rounds(&self, tables: &mut Tables, pass: &mut Pass, acquired: &mut Acquired) {
        for _ in 0..ADMISSION_ROUNDS_MAX {
            let mut line = self.line(tables, pass.round_size());
            // An instance whose version is open and that another worker is to run stays in line for that one.
            line.retain(|waiting| acquire::settle(tables, self.request, waiting.instance));
            self.keep_what_fits(tables, &mut line, acquired);
            let keys: BTreeMap<String, KeyState> = keys_of(tables, self.queue).collect();
            let step = pass.round(line, keys);
            carry_out(tables, self.request, self.queue, &step, acquired);
            if step.is_last || pass.left() == 0 {
                return;
            }
        }
    }

    /// Returns the first instances in line that the worker can run.
    fn line(&self, tables: &Tables, limit: usize) -> Vec<Waiting> {
        let waiting = rows_of(tables, self.queue).filter(|(_, row)| row.place == QueuePlace::Waits);
        let mut line: Vec<Waiting> = waiting
            .filter(|(key, _)| self.can_run(tables, *key))
            .map(|(key, row)| waiting_of(tables, key, row))
            .collect();
        line.sort_unstable_by_key(Waiting::rank);
        line.truncate(limit);
        line
    }

    /// Drops the instances for whose data the request has no room.
    fn keep_what_fits(&self, tables: &Tables, line: &mut Vec<Waiting>, acquired: &Acquired) {
        let taken = acquired.instances.len();
        let mut bytes: usize = acquired.instances.iter().map(|instance| instance.page_bytes).sum();
        for n in 0..line.len() {
            if taken + n > 0 && bytes >= self.request.limit.bytes {
                return line.truncate(n);
            }
            bytes += acquire::page_bytes(tables, self.request, line[n].instance);
        }
    }

    /// Notes when the queue is to be looked at again.
    fn note_rest(&self, tables: &Tables, pass: &Pass, acquired: &mut Acquired) {
        if !self.line(tables, 1).is_empty()
            && let Some(at_ms) = pass.next_at_ms()
        {
            acquired.look_again_at(at_ms);
        }
        if !pass.waits_for_slots() {
            let tokens = keys_of(tables, self.queue).filter(|(_, state)| state.waits_for == KeyWait::Token);
            for at_ms in tokens.filter_map(|(_, state)| state.next_at_ms) {
                acquired.look_again_at(at_ms);
            }
        }
        acquired.slots_wanted |= self.is_wanted(tables);
    }
}

/// Returns the keys that wait for a slot, and those whose token is due.
fn keys_whose_time_has_come(tables: &Tables, queue: &str) -> Vec<(String, KeyState)> {
    let is_time = |state: &KeyState| match state.waits_for {
        KeyWait::Slot => !is_planted(Bug::HeldKeyForgotten),
        KeyWait::Token => state.next_at_ms.is_none_or(|at_ms| at_ms <= tables.now_ms),
        KeyWait::Nothing | KeyWait::Turn => false,
    };
    let keys = keys_of(tables, queue).filter(|(_, state)| is_time(state));
    keys.take(ADMISSION_KEYS_MAX).collect()
}

fn slots(tables: &Tables, queue: &str, request: &Acquire) -> Vec<SlotCount> {
    let mut slots: BTreeMap<String, SlotCount> = BTreeMap::new();
    for (key, row) in rows_of(tables, queue).filter(|(_, row)| row.place == QueuePlace::Slot) {
        let owner = tables.instance(key).and_then(|row| row.owner.as_ref());
        let count = slots.entry(row.entry.key.clone()).or_insert_with(|| SlotCount {
            key: row.entry.key.clone(),
            slots: 0,
            own: 0,
        });
        count.slots += 1;
        count.own += u32::from(owner == Some(&request.worker));
    }
    if is_planted(Bug::SlotNotCounted) {
        // The keys lose one slot together.
        let first = slots.values_mut().next();
        first.into_iter().for_each(|count| count.slots -= 1);
    }
    slots.into_values().collect()
}

fn waiting_of(tables: &Tables, key: InstanceKey, row: &QueuedRow) -> Waiting {
    let instance = tables.instance(key).expect("an instance that waits is there");
    debug_assert!(instance.status == Status::Pending && instance.owner.is_none());
    Waiting {
        instance: key,
        key: row.entry.key.clone(),
        priority: instance.priority,
        turn: row.turn,
        queued_at_ms: row.queued_at_ms,
    }
}

fn carry_out(tables: &mut Tables, request: &Acquire, queue: &str, step: &Step, acquired: &mut Acquired) {
    for waiting in &step.admitted {
        let size = acquire::page_bytes(tables, request, waiting.instance);
        put(tables, waiting.instance, QueuePlace::Slot);
        let instance = acquire::take(tables, request, waiting.instance, size);
        acquired.instances.push(instance);
    }
    for waiting in &step.held {
        put(tables, waiting.instance, QueuePlace::Held);
    }
    for (key, state) in &step.keys {
        put_key(tables, queue, key.clone(), state.clone());
    }
    for (key, count) in &step.released {
        release(tables, queue, key, *count);
    }
}

/// Lets the first held instances of a key into the line: so many of each orchestration and version.
fn release(tables: &mut Tables, queue: &str, key: &str, count: u32) {
    let of_key = rows_of(tables, queue).filter(|(_, row)| row.place == QueuePlace::Held && row.entry.key == key);
    let mut held: BTreeMap<(String, String), Vec<Waiting>> = BTreeMap::new();
    for (instance, row) in of_key {
        let InstanceRow { name, version, .. } = tables.instance(instance).expect("an instance that waits is there");
        let of_sort = held.entry((name.clone(), version.clone())).or_default();
        of_sort.push(waiting_of(tables, instance, row));
    }
    let mut has_more = false;
    for mut of_sort in held.into_values() {
        of_sort.sort_unstable_by_key(Waiting::rank);
        has_more |= of_sort.len() > count as usize;
        for waiting in of_sort.iter().take(count as usize) {
            put(tables, waiting.instance, QueuePlace::Waits);
        }
    }
    if !has_more {
        let rate = tables.queues.get(queue).and_then(|queue| queue.settings.key_rate);
        if let Some(state) = tables.queue_keys.get(&(queue.to_owned(), key.to_owned())).cloned() {
            put_key(tables, queue, key.to_owned(), KeyState::idle(state.admitted, rate));
        }
    }
}
