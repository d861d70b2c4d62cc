//! Queues of instances and attempts: their limits, and the places of what is in them (P24, P27).

use perdure_engine::{Bug, is_planted};
use perdure_provider::{
    EntryKey, InstanceKey, KeyState, KeyWait, QUEUES_MAX, QueueDeletion, QueueEntry, QueueInfo, QueuePlace,
    QueueSettings, TaskName,
};

use crate::rows::{InstanceRow, QueuePlaceRow};
use crate::tables::Tables;

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

/// Pauses a queue, or ends its pause. Returns false if there is no such queue.
pub(crate) fn pause(tables: &mut Tables, name: &str, is_paused: bool) -> bool {
    let name = name.to_owned();
    if !tables.queues.contains(&name) {
        return false;
    }
    if !is_paused {
        tables.paused_queues.remove(&name);
    } else if !tables.paused_queues.contains(&name) {
        let now_ms = tables.now_ms;
        tables.paused_queues.insert(name, now_ms);
    }
    true
}

/// Writes the row of a key, or removes it if it says nothing.
pub(crate) fn put_key(tables: &mut Tables, queue: &str, key: String, state: KeyState) {
    let at = (queue.to_owned(), key);
    if state.is_empty() {
        tables.queue_keys.remove(&at);
    } else {
        tables.queue_keys.insert(at, state);
    }
}

/// Takes their turns from the entries that wait. The first come is the first served from here on.
fn forget_turns(tables: &mut Tables, queue: &str) {
    let waiting = rows_of(tables, queue).filter(|(_, row)| row.place != QueuePlace::Slot);
    let waiting: Vec<EntryKey> = waiting.map(|(key, _)| key).collect();
    for key in waiting {
        tables.queue_places.edit(&key, |row| row.turn = 0);
    }
}

/// Deletes a queue, unless instances or attempts are in it.
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
    tables.paused_queues.remove(&name);
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
        paused_at_ms: tables.paused_queues.get(name).copied(),
        waiting,
        delayed,
        running,
        tokens,
        oldest_ms,
    }
}

/// Puts a new instance into its queue, which exists. `slot` is the turn of one that has a slot from its start on.
pub(crate) fn enter(tables: &mut Tables, key: InstanceKey, entry: &QueueEntry, due_at_ms: i64, slot: Option<i64>) {
    let mut row = new_place(tables, entry, due_at_ms);
    if let Some(turn) = slot {
        (row.place, row.turn) = (QueuePlace::Slot, turn);
    }
    tables.queue_places.insert(key.into(), row);
}

/// Puts an attempt into its queue, which exists. Returns the key of its place.
pub(crate) fn enter_attempt(tables: &mut Tables, task: TaskName, entry: &QueueEntry, due_at_ms: i64) -> EntryKey {
    let row = QueuePlaceRow {
        task: Some(task),
        ..new_place(tables, entry, due_at_ms)
    };
    let key = tables.next_attempt_entry();
    tables.queue_places.insert(key, row);
    key
}

fn new_place(tables: &Tables, entry: &QueueEntry, due_at_ms: i64) -> QueuePlaceRow {
    let is_delayed = due_at_ms > tables.now_ms;
    QueuePlaceRow {
        entry: entry.clone(),
        task: None,
        place: if is_delayed {
            QueuePlace::Delayed
        } else {
            QueuePlace::Waits
        },
        turn: if is_delayed { 0 } else { next_turn(tables, entry) },
        queued_at_ms: due_at_ms,
    }
}

/// Returns the round in which the next entry of a key gets a slot: after the last one of the key that is in line,
/// and after the last one that got a slot. So the keys take turns, as the flows of start-time fair queueing do (Goyal,
/// Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996).
pub(crate) fn next_turn(tables: &Tables, entry: &QueueEntry) -> i64 {
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
    let row = tables.queue_places.get(&key.into())?;
    (row.place == QueuePlace::Delayed).then_some(row.queued_at_ms)
}

/// Changes the start time of an instance whose start time has not come. Returns false if it is in no queue.
pub(crate) fn delay(tables: &mut Tables, key: InstanceKey, until_ms: i64) -> bool {
    let edited = tables.queue_places.edit(&key.into(), |row| row.queued_at_ms = until_ms);
    edited.is_some()
}

/// Takes an instance or an attempt out of its queue, if it is in one.
pub(crate) fn leave(tables: &mut Tables, key: EntryKey) {
    release_next(tables, key);
    tables.queue_places.remove(&key);
}

/// Takes an instance that waits out of the line until it is resumed.
pub(crate) fn suspend(tables: &mut Tables, key: InstanceKey) {
    let key = key.into();
    if waits(tables, key) {
        release_next(tables, key);
        put(tables, key, QueuePlace::Suspended);
    }
}

/// Lets the next pass look at the key of an entry that leaves the line without a slot, or is now one of another
/// version: others of the key may be held until it gets one.
pub(crate) fn release_next(tables: &mut Tables, key: EntryKey) {
    let row = tables
        .queue_places
        .get(&key)
        .filter(|row| row.place == QueuePlace::Waits);
    let Some(QueuePlaceRow { entry, .. }) = row.cloned() else {
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
    let key = key.into();
    if !waits(tables, key) {
        return false;
    }
    let row = tables.queue_places.get(&key).expect("it waits").clone();
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
    tables.queue_places.edit(&key, |row| {
        (row.place, row.turn) = (QueuePlace::Waits, turn);
    });
    true
}

/// Returns true if instances that `can_run` are in line, or held, or have a start time that has come; and the next
/// start time of one that has not.
pub(crate) fn work(tables: &Tables, can_run: impl Fn(&InstanceRow) -> bool) -> (bool, Option<i64>) {
    let (mut is_there, mut next_at_ms) = (false, None);
    for (key, row) in tables.queue_places.iter() {
        let instance = key.instance().and_then(|key| tables.instance(key));
        if !instance.is_some_and(&can_run) {
            continue;
        }
        match row.place {
            QueuePlace::Waits | QueuePlace::Held => is_there = true,
            QueuePlace::Delayed if row.queued_at_ms <= tables.now_ms => is_there = true,
            QueuePlace::Delayed => {
                let at_ms = row.queued_at_ms;
                next_at_ms = Some(next_at_ms.map_or(at_ms, |next: i64| next.min(at_ms)));
            }
            QueuePlace::Slot | QueuePlace::Suspended => {}
        }
    }
    (is_there, next_at_ms)
}

/// Returns true if an entry is in a queue, and has no slot yet.
fn waits(tables: &Tables, key: EntryKey) -> bool {
    (tables.queue_places.get(&key)).is_some_and(|row| row.place != QueuePlace::Slot)
}

pub(crate) fn put(tables: &mut Tables, key: EntryKey, place: QueuePlace) {
    tables.queue_places.edit(&key, |row| row.place = place);
}

pub(crate) fn rows_of<'t>(tables: &'t Tables, queue: &'t str) -> impl Iterator<Item = (EntryKey, &'t QueuePlaceRow)> {
    let rows = tables.queue_places.iter().map(|(key, row)| (*key, row));
    rows.filter(move |(_, row)| row.entry.queue == queue)
}

fn in_place(tables: &Tables, queue: &str, place: QueuePlace) -> Vec<EntryKey> {
    let there = rows_of(tables, queue).filter(|(_, row)| row.place == place);
    there.map(|(key, _)| key).collect()
}

pub(crate) fn keys_of<'t>(tables: &'t Tables, queue: &'t str) -> impl Iterator<Item = (String, KeyState)> + 't {
    let keys = tables.queue_keys.iter().filter(move |((of, _), _)| of == queue);
    keys.map(|((_, key), state)| (key.clone(), state.clone()))
}

/// Returns false for an instance that has ended or is gone. The place of an attempt goes with the attempt.
fn is_open(tables: &Tables, key: EntryKey) -> bool {
    let is_open = |key| (tables.instance(key)).is_some_and(|row| !row.status.is_terminal());
    key.instance().is_none_or(is_open)
}

/// Removes the rows of instances that had a slot, and have ended or are gone.
pub(crate) fn sweep(tables: &mut Tables, queue: &str) {
    if is_planted(Bug::SlotOutlivesInstance) {
        return;
    }
    for key in in_place(tables, queue, QueuePlace::Slot) {
        if !is_open(tables, key) {
            leave(tables, key);
        }
    }
}
