//! The admission of entries (instances and attempts) from queues: which of those in line get a slot (P24, P27).
//!
//! A store admits within an acquisition, in a transaction that holds the lock of the queue. It reads the rows and
//! carries out the [`Step`]s; the decisions are made here, and are the same for every store. A pass goes so:
//!
//! 1. [`Pass::new`] with the slots that are taken. If [`Pass::left`] is 0, the pass is over.
//! 2. [`Pass::begin`] with the keys that wait for a slot, and those whose next token is due.
//! 3. [`Pass::round`] with the first entries in line and the rows of their keys, again and again, until the pass has
//!    [nothing left](Pass::left) or [`Step::is_last`].
//! 4. The row of the queue becomes [`Pass::queue`].
//!
//! **Cost.** An entry that is first in line while its key has no slot or no token leaves the line, and waits behind
//! its key. So it is met once, however many passes there are. A pass therefore costs the slots that are taken, the keys
//! whose time has come, and the entries that it admits; neither the number of those in line nor that of the keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Admissions, QueueSettings, Rate, Waiting};

/// Most entries in line that a round looks at, if keys have limits.
pub const ADMISSION_ROUND: usize = 256;

/// Most rounds of a pass. The next pass goes on.
pub const ADMISSION_ROUNDS_MAX: usize = 16;

/// Most keys whose next token is due that a pass looks at. The next pass goes on.
pub const ADMISSION_KEYS_MAX: usize = 1_000;

/// Most held entries of a key that come into the line at once. Each of them that gets a slot brings the next one.
const RELEASED_MAX: u32 = 256;

/// The row of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// The limits.
    pub settings: QueueSettings,
    /// The admissions that the rate counts.
    pub admitted: Admissions,
    /// The last turn in which a key got a slot.
    pub turn: i64,
}

/// The slots that a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotCount {
    /// The key; empty: entries without a key.
    pub key: String,
    /// Entries that have a slot.
    pub slots: u32,
    /// Entries among them that the worker owns that asks for work.
    pub own: u32,
}

/// The state of a key, as the number that stores keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyWait {
    /// None of its entries is held. The row only counts what the rate of the key counts.
    #[default]
    Nothing = 0,
    /// Entries of it are held, and others are in line. The key is looked at when one of those gets a slot.
    Turn = 1,
    /// Entries of it are held until the key has a token.
    Token = 2,
    /// Entries of it are held until the key has a slot.
    Slot = 3,
}

impl KeyWait {
    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> i64 {
        self as i64
    }

    /// Returns the state of a number. A number that another program has written is taken for a key that waits for a
    /// slot, which every pass looks at.
    #[must_use]
    pub const fn of(number: i64) -> Self {
        match number {
            0 => Self::Nothing,
            1 => Self::Turn,
            2 => Self::Token,
            _ => Self::Slot,
        }
    }
}

/// The row of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyState {
    /// The admissions that the rate of the key counts.
    pub admitted: Admissions,
    /// The reason for which entries are held.
    pub waits_for: KeyWait,
    /// When the key has its next token, if it waits for one; when the row may be deleted, if it waits for nothing; ms
    /// since 1970.
    pub next_at_ms: Option<i64>,
}

impl KeyState {
    /// Returns the row of a key of which no entry is held. `rate` is that of each key.
    #[must_use]
    pub fn idle(admitted: Admissions, rate: Option<Rate>) -> Self {
        let Some(rate) = rate else { return Self::default() };
        Self {
            waits_for: KeyWait::Nothing,
            next_at_ms: admitted.over_at(rate),
            admitted,
        }
    }

    /// Returns true if the row says nothing, and is to be deleted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waits_for == KeyWait::Nothing && self.admitted.is_empty()
    }
}

/// The changes that a store makes, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Entries that get a slot and are acquired.
    pub admitted: Vec<Waiting>,
    /// Entries that leave the line, and are held.
    pub held: Vec<Waiting>,
    /// Rows of keys that changed.
    pub keys: Vec<(String, KeyState)>,
    /// Keys, and how many of their held entries are in line again: of each orchestration and version, the first ones
    /// by rank. A key with no entry left that is held waits for nothing from then on.
    pub released: Vec<(String, u32)>,
    /// True if another round would change nothing.
    pub is_last: bool,
}

/// A pass over the line of a queue.
#[derive(Debug)]
pub struct Pass {
    queue: QueueState,
    now_ms: i64,
    /// Slots by key.
    slots: BTreeMap<String, u32>,
    /// Slots that the limits of the queue leave.
    slots_left: u32,
    /// Admissions that the rate of the queue leaves.
    tokens_left: u32,
    /// Entries that the worker has room for.
    room: u32,
    keys: BTreeMap<String, KeyState>,
    /// Keys that have a row in the store.
    stored: BTreeSet<String>,
    /// Keys of which this pass has let entries into the line.
    released: BTreeSet<String>,
}

impl Pass {
    /// Begins a pass. `slots` may be empty if the settings do not [count them](QueueSettings::counts_slots). `room` is
    /// the number of entries that the worker has room for.
    #[must_use]
    pub fn new(queue: QueueState, slots: impl IntoIterator<Item = SlotCount>, room: usize, now_ms: i64) -> Self {
        let settings = &queue.settings;
        let (mut all, mut own, mut by_key) = (0_u32, 0_u32, BTreeMap::new());
        for count in slots {
            all = all.saturating_add(count.slots);
            own = own.saturating_add(count.own);
            by_key.insert(count.key, count.slots);
        }
        let left = |limit: Option<u32>, used: u32| limit.map_or(u32::MAX, |limit| limit.saturating_sub(used));
        Self {
            slots_left: left(settings.concurrency, all).min(left(settings.per_worker, own)),
            tokens_left: settings.rate.map_or(u32::MAX, |rate| queue.admitted.free(rate, now_ms)),
            room: u32::try_from(room).unwrap_or(u32::MAX),
            slots: by_key,
            keys: BTreeMap::new(),
            stored: BTreeSet::new(),
            released: BTreeSet::new(),
            queue,
            now_ms,
        }
    }

    /// Gives a slot to a new entry without a key, which is never in line, because nothing waits. Returns its turn.
    /// `None`: there is no slot or no token.
    #[must_use]
    pub fn admit_new(&mut self) -> Option<i64> {
        if self.left() == 0 {
            return None;
        }
        let turn = if self.queue.settings.is_fair {
            self.queue.turn + 1
        } else {
            0
        };
        self.count("", turn);
        Some(turn)
    }

    /// Returns how many more entries may get a slot.
    #[must_use]
    pub fn left(&self) -> usize {
        self.slots_left.min(self.tokens_left).min(self.room) as usize
    }

    /// Returns how many entries in line the next round is to look at.
    #[must_use]
    pub fn round_size(&self) -> usize {
        if self.queue.settings.limits_keys() {
            ADMISSION_ROUND.max(self.left())
        } else {
            self.left()
        }
    }

    /// Returns the time at which the queue is to be looked at again if entries are left in line, ms since 1970.
    /// `None`: when an entry ends, or another one comes.
    #[must_use]
    pub fn next_at_ms(&self) -> Option<i64> {
        if self.slots_left == 0 {
            return None;
        }
        match self.queue.settings.rate {
            Some(rate) if self.tokens_left == 0 => Some(self.queue.admitted.next_free_at(rate, self.now_ms)),
            _ => Some(self.now_ms),
        }
    }

    /// Returns true if the slots that are taken leave no room: the end of an entry may make some.
    #[must_use]
    pub const fn waits_for_slots(&self) -> bool {
        self.slots_left == 0
    }

    /// Returns the row of the queue as it is now.
    #[must_use]
    pub const fn queue(&self) -> &QueueState {
        &self.queue
    }

    /// Lets entries of keys into the line that have a slot and a token again.
    #[must_use]
    pub fn begin(&mut self, keys: impl IntoIterator<Item = (String, KeyState)>) -> Step {
        let mut step = Step::default();
        for (key, before) in keys {
            self.know(key.clone(), before.clone());
            let free = self.free_of(&key);
            let after = self.wait(&key);
            if after != before {
                step.keys.push((key.clone(), after));
            }
            if free > 0 {
                self.release(&key, free, &mut step);
            }
        }
        step
    }

    /// Decides about the first entries in line, in order of their [rank](Waiting::rank). `keys` are the rows of their
    /// keys, and are needed only if [keys have limits](QueueSettings::limits_keys).
    #[must_use]
    pub fn round(&mut self, line: Vec<Waiting>, keys: impl IntoIterator<Item = (String, KeyState)>) -> Step {
        for (key, state) in keys {
            self.know(key, state);
        }
        let mut step = Step::default();
        let (mut changed, round_size) = (BTreeSet::new(), self.round_size());
        let is_whole_line = line.len() < round_size;
        for waiting in line {
            if self.left() == 0 {
                break;
            }
            let key = waiting.key.clone();
            // One that was held and is in line in the next round may have come before.
            if step.released.iter().any(|(released, _)| *released == key) {
                continue;
            }
            if self.limits(&key) {
                let free = self.free_of(&key);
                if free == 0 || self.holds_first(&key) {
                    self.wait(&key);
                    if free == 0 {
                        step.held.push(waiting);
                    } else {
                        self.release(&key, free, &mut step);
                    }
                    changed.insert(key);
                    continue;
                }
            }
            self.count(&waiting.key, waiting.turn);
            if self.limits(&key) {
                self.follow(&key, &mut step);
                changed.insert(key);
            }
            step.admitted.push(waiting);
        }
        for key in changed {
            let state = self.keys.get(&key).cloned().unwrap_or_default();
            if !state.is_empty() || self.stored.contains(&key) {
                step.keys.push((key, state));
            }
        }
        step.is_last = is_whole_line && step.released.is_empty();
        step
    }

    fn know(&mut self, key: String, state: KeyState) {
        self.stored.insert(key.clone());
        self.keys.insert(key, state);
    }

    /// Returns true if a key has limits.
    fn limits(&self, key: &str) -> bool {
        !key.is_empty() && self.queue.settings.limits_keys()
    }

    /// Returns how many more entries of a key its limits allow.
    fn free_of(&self, key: &str) -> u32 {
        let settings = &self.queue.settings;
        let slots = settings.key_concurrency.map_or(u32::MAX, |limit| {
            limit.saturating_sub(self.slots.get(key).copied().unwrap_or(0))
        });
        let tokens = settings.key_rate.map_or(u32::MAX, |rate| {
            let admitted = self.keys.get(key).map(|state| &state.admitted);
            admitted.map_or(rate.limit, |admitted| admitted.free(rate, self.now_ms))
        });
        slots.min(tokens)
    }

    /// Notes what the entries of a key wait for that are held, or are about to be.
    fn wait(&mut self, key: &str) -> KeyState {
        let settings = &self.queue.settings;
        let taken = self.slots.get(key).copied().unwrap_or(0);
        let has_slot = settings.key_concurrency.is_none_or(|limit| taken < limit);
        let now_ms = self.now_ms;
        let state = self.keys.entry(key.to_owned()).or_default();
        let (waits_for, next_at_ms) = match settings.key_rate {
            Some(rate) if state.admitted.free(rate, now_ms) == 0 => {
                (KeyWait::Token, Some(state.admitted.next_free_at(rate, now_ms)))
            }
            _ if !has_slot => (KeyWait::Slot, None),
            _ => (KeyWait::Turn, None),
        };
        (state.waits_for, state.next_at_ms) = (waits_for, next_at_ms);
        state.clone()
    }

    /// Returns true if held entries of a key that has a slot and a token may come before those of it in line.
    fn holds_first(&self, key: &str) -> bool {
        let waits_for = self.keys.get(key).map(|state| state.waits_for);
        matches!(waits_for, Some(KeyWait::Slot | KeyWait::Token)) && !self.released.contains(key)
    }

    /// Lets as many entries of a key into the line as its limits allow. A worker cannot run all orchestrations: so
    /// the first ones of each come into the line, and those of one orchestration do not keep back those of another.
    fn release(&mut self, key: &str, count: u32, step: &mut Step) {
        step.released.push((key.to_owned(), count.min(RELEASED_MAX)));
        self.released.insert(key.to_owned());
    }

    /// Counts an entry that gets a slot.
    fn count(&mut self, key: &str, turn: i64) {
        let settings = &self.queue.settings;
        self.room -= 1;
        if settings.concurrency.is_some() || settings.per_worker.is_some() {
            self.slots_left -= 1;
        }
        if let Some(rate) = settings.rate {
            self.tokens_left -= 1;
            self.queue.admitted.add(1, rate, self.now_ms);
        }
        self.queue.turn = self.queue.turn.max(turn);
        *self.slots.entry(key.to_owned()).or_default() += 1;
        if let Some(rate) = settings.key_rate.filter(|_| !key.is_empty()) {
            let state = self.keys.entry(key.to_owned()).or_default();
            state.admitted.add(1, rate, self.now_ms);
        }
    }

    /// Lets the next entry of a key into the line after one got a slot, if some are held.
    fn follow(&mut self, key: &str, step: &mut Step) {
        let rate = self.queue.settings.key_rate;
        let state = self.keys.entry(key.to_owned()).or_default();
        if state.waits_for == KeyWait::Nothing {
            state.next_at_ms = rate.and_then(|rate| state.admitted.over_at(rate));
            return;
        }
        self.wait(key);
        // The others of the key that are in line wait for the next round then, so it is not released yet.
        if self.free_of(key) > 0 {
            self.release(key, 1, step);
        }
    }
}
