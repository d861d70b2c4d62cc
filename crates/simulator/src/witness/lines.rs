//! P24 and P25 of the providers: the lines of the queues, and delayed starts. An instance in a queue begins within the
//! limits and in order, and none begins before its time.
//!
//! A child that waits ends with its parent by a write that does not name it, and so does one that is suspended. So no
//! instance is said to have passed over a child, and a suspended child is not said to have a slot.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perdure_engine::MessageBody;
use perdure_provider::{
    Acquire, Clock, Epoch, InstanceKey, NewInstance, NewMessage, QueueEntry, QueueSettings, Rate, StartTime, WorkerId,
};

use super::{InstanceState, KnownInstance, Witness, WitnessState};
use crate::machine::VirtualClock;

/// The terms of an instance that does not come to run at once, or waits for a slot.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    queue: Option<QueueEntry>,
    /// Name and version of its orchestration.
    class: (String, String),
    priority: i32,
    due_at_ms: i64,
    is_delayed: bool,
    /// True if it was suspended and resumed while it waited. Its turn is not known then.
    is_resumed: bool,
    is_child: bool,
    /// The number of entries before it.
    arrival: usize,
}

/// A queue, and the admissions from it.
#[derive(Default)]
pub(super) struct Line {
    pub(super) settings: QueueSettings,
    /// The times and keys of all admissions.
    pub(super) admitted: Vec<(i64, String)>,
    /// The number of admissions before the rates of the queue and of its keys were set.
    before_rate: usize,
    before_key_rate: usize,
    /// The number of changes of its limits, pauses and their ends.
    changes: usize,
    pub(super) is_paused: bool,
}

/// The lines of all queues.
#[derive(Default)]
pub(super) struct Lines {
    entries: BTreeMap<InstanceKey, Entry>,
    pub(super) queues: BTreeMap<String, Line>,
}

/// A clock that agrees with the store's.
pub(super) struct StoreTime(Arc<VirtualClock>);

impl Default for StoreTime {
    fn default() -> Self {
        Self(VirtualClock::new(0))
    }
}

/// What has happened in a queue: the number of admissions, and that of changes of its limits.
pub(crate) type LineFacts = (usize, usize);

impl Witness {
    /// The limits of a queue were set.
    pub(crate) fn sets_limits(&self, queue: &str, settings: QueueSettings) {
        let mut known = self.0.lock();
        let line = known.lines.queues.entry(queue.to_owned()).or_default();
        if line.settings.rate != settings.rate {
            line.before_rate = line.admitted.len();
        }
        if line.settings.key_rate != settings.key_rate {
            line.before_key_rate = line.admitted.len();
        }
        line.changes += 1;
        line.settings = settings;
    }

    /// A queue was paused, or its pause was ended.
    pub(crate) fn pauses(&self, queue: &str, is_paused: bool) {
        let mut known = self.0.lock();
        known.figures.pauses += u64::from(is_paused);
        let line = known.lines.queues.entry(queue.to_owned()).or_default();
        line.changes += 1;
        line.is_paused = is_paused;
    }

    /// Returns the queues that are paused.
    pub(crate) fn paused(&self) -> Vec<String> {
        let known = self.0.lock();
        let paused = known.lines.queues.iter().filter(|(_, line)| line.is_paused);
        paused.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the queues with an instance that any worker could be given now.
    pub(crate) fn takeable(&self) -> BTreeMap<String, LineFacts> {
        let known = self.0.lock();
        let queues = known.lines.queues.iter();
        let takeable = queues.filter(|(name, line)| known.is_takeable(name, line));
        let facts = |line: &Line| (line.admitted.len(), line.changes);
        takeable.map(|(name, line)| (name.clone(), facts(line))).collect()
    }

    /// Returns the instances that no worker has acquired yet.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let known = self.0.lock();
        let waiting = known.lines.entries.keys().filter_map(|key| known.instances.get(key));
        let waiting = waiting.filter(|seen| seen.epoch == Epoch(0) && seen.state != InstanceState::Ended);
        waiting.map(|seen| seen.id.clone()).collect()
    }
}

impl WitnessState {
    pub(super) fn now_ms(&self) -> i64 {
        self.time.0.now_ms()
    }

    /// An instance was started. If it does not come to run at once, it waits from here on.
    pub(super) fn enters(&mut self, key: InstanceKey, new: &NewInstance, is_claimed: bool) {
        if new.queue.is_none() && new.due == StartTime::Now {
            return;
        }
        let now_ms = self.now_ms();
        let due_at_ms = new.due.at_ms(now_ms);
        let entry = Entry {
            queue: new.queue.clone(),
            class: (new.name.clone(), new.version.clone()),
            priority: new.priority,
            due_at_ms,
            is_delayed: due_at_ms > now_ms,
            is_resumed: false,
            is_child: new.parent_id.is_some(),
            arrival: self.lines.entries.len(),
        };
        let queue = entry.queue.clone();
        self.lines.entries.insert(key, entry);
        if is_claimed && let (Some(worker), Some(entry)) = (&new.claim, queue) {
            self.starts_with_slot(key, &entry, worker);
        }
    }

    /// An instance got a slot in the commit of its start (P24).
    fn starts_with_slot(&mut self, key: InstanceKey, QueueEntry { queue, key: its }: &QueueEntry, worker: &WorkerId) {
        let (now_ms, id) = (self.now_ms(), self.instances[&key].id.clone());
        self.figures.admitted += 1;
        self.figures.admitted_at_once += 1;
        if let Some(line) = self.lines.queues.get_mut(queue) {
            line.admitted.push((now_ms, its.clone()));
        }
        let mut wrong = self.exceeded(queue, its, worker, now_ms);
        let waits = |(other, of, _): &(InstanceKey, &Entry, &str)| {
            *other != key && !of.is_child && self.is_in_line(*other, of, now_ms)
        };
        let first = self.in_queue(queue).find(waits);
        wrong.extend(first.map(|(other, ..)| format!("{} waits", self.instances[&other].id)));
        for wrong in wrong {
            self.violations
                .push(format!("P24: {id} began in {queue} ({its}) with its start: {wrong}"));
        }
    }

    /// An instance that waits is resumed. Its start time is as it was.
    pub(super) fn goes_on(&mut self, key: InstanceKey) {
        let is_new = self.is_new(key);
        if let Some(entry) = self.lines.entries.get_mut(&key).filter(|_| is_new) {
            entry.is_resumed = true;
        }
    }

    /// The start time of an instance that waits is now.
    pub(super) fn is_due(&mut self, key: InstanceKey) {
        let now_ms = self.now_ms();
        if let Some(entry) = self.lines.entries.get_mut(&key) {
            entry.due_at_ms = entry.due_at_ms.min(now_ms);
        }
    }

    /// P25: a request to cancel was put into a mailbox, so the instance can run.
    pub(super) fn cancel_waits(&mut self, key: InstanceKey, message: &NewMessage) {
        let MessageBody::Cancel { .. } = message.body else {
            return;
        };
        let Some(entry) = self.lines.entries.get(&key).filter(|_| self.is_new(key)) else {
            return;
        };
        if entry.queue.is_some() || entry.due_at_ms > self.now_ms() {
            let id = &message.instance;
            self.violations.push(format!(
                "P25: {id} was cancelled before it could run, and has not ended"
            ));
        }
    }

    /// True if no worker has acquired an instance yet, and it has not ended.
    fn is_new(&self, key: InstanceKey) -> bool {
        let seen = self.instances.get(&key);
        seen.is_some_and(|seen| seen.epoch == Epoch(0) && seen.owner.is_none() && seen.state != InstanceState::Ended)
    }

    /// True if an instance is in line, or held there.
    fn is_in_line(&self, key: InstanceKey, entry: &Entry, now_ms: i64) -> bool {
        let is_open = self
            .instances
            .get(&key)
            .is_some_and(|seen| seen.state == InstanceState::Open);
        is_open && self.is_new(key) && entry.due_at_ms <= now_ms
    }

    fn in_queue<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = (InstanceKey, &'a Entry, &'a str)> {
        self.lines.entries.iter().filter_map(move |(key, entry)| {
            let its = entry.queue.as_ref().filter(|its| its.queue == queue)?;
            Some((*key, entry, &*its.key))
        })
    }

    /// The instances of a queue that have a slot, each with its key. `with_doubtful`: with those that may have ended.
    fn with_slot<'a>(
        &'a self,
        queue: &'a str,
        with_doubtful: bool,
    ) -> impl Iterator<Item = (&'a KnownInstance, &'a str)> {
        self.in_queue(queue).filter_map(move |(key, entry, its)| {
            let seen = self.instances.get(&key)?;
            let has_slot = seen.epoch > Epoch(0) && seen.state != InstanceState::Ended;
            let is_doubtful = entry.is_child && seen.state == InstanceState::Suspended;
            (has_slot && (with_doubtful || !is_doubtful)).then_some((seen, its))
        })
    }

    /// An instance was acquired. If it is new, it was admitted.
    pub(super) fn acquires(&mut self, key: InstanceKey, request: &Acquire, is_new: bool) {
        let Some(entry) = self.lines.entries.get(&key).filter(|_| is_new).cloned() else {
            return;
        };
        let (now_ms, id) = (self.now_ms(), self.instances[&key].id.clone());
        self.figures.delayed += u64::from(entry.is_delayed);
        if now_ms < entry.due_at_ms {
            let early_ms = entry.due_at_ms - now_ms;
            self.violations
                .push(format!("P25: {id} was acquired {early_ms} ms before its time"));
        }
        let Some(QueueEntry { queue, key: its }) = entry.queue.clone() else {
            return;
        };
        self.figures.admitted += 1;
        self.figures.waited += u64::from(now_ms > entry.due_at_ms + 100);
        if let Some(line) = self.lines.queues.get_mut(&queue) {
            line.admitted.push((now_ms, its.clone()));
        }
        let mut wrong = self.exceeded(&queue, &its, &request.worker, now_ms);
        wrong.extend(self.passed_over(key, &entry, request, now_ms));
        for wrong in wrong {
            self.violations
                .push(format!("P24: {id} was admitted from {queue} ({its}): {wrong}"));
        }
    }

    /// Returns the limits that an admission has exceeded.
    fn exceeded(&self, queue: &str, key: &str, worker: &WorkerId, now_ms: i64) -> Vec<String> {
        let Some(line) = self.lines.queues.get(queue) else {
            return vec!["there is no such queue".into()];
        };
        let settings = &line.settings;
        let all: Vec<_> = self.with_slot(queue, false).collect();
        let of_key = all.iter().filter(|(_, its)| *its == key).count();
        let own = all
            .iter()
            .filter(|(seen, _)| seen.owner.as_ref() == Some(worker))
            .count();
        let has_key = !key.is_empty();
        let mut wrong = Vec::new();
        // Answers that are missed come after later changes.
        if line.is_paused && !self.misses_answers {
            wrong.push("the queue is paused".into());
        }
        let mut check = |what: &str, count: usize, limit: Option<u32>| {
            if let Some(limit) = limit.filter(|limit| count > *limit as usize) {
                wrong.push(format!("{what} {count}, and the limit is {limit}"));
            }
        };
        check("slots", all.len(), settings.concurrency);
        check("slots of the worker", own, settings.per_worker);
        check("slots of the key", of_key, settings.key_concurrency.filter(|_| has_key));
        let admitted = line.recent(line.before_rate, settings.rate, now_ms, 0, |_| true);
        check("admissions", admitted, settings.rate.map(|rate| rate.limit));
        if has_key {
            let admitted = line.recent(line.before_key_rate, settings.key_rate, now_ms, 0, |its| its == key);
            check(
                "admissions of the key",
                admitted,
                settings.key_rate.map(|rate| rate.limit),
            );
        }
        wrong
    }

    /// Returns the instances that came first by the order of the line and stay behind.
    fn passed_over(&self, key: InstanceKey, entry: &Entry, request: &Acquire, now_ms: i64) -> Option<String> {
        let QueueEntry { queue, key: its } = entry.queue.as_ref()?;
        let settings = &self.lines.queues.get(queue)?.settings;
        // Keys that take turns, or have no slot, are passed over.
        let is_one_line = !settings.is_fair && !settings.limits_keys();
        let has_turn = |entry: &Entry| settings.is_fair && (entry.is_delayed || entry.is_resumed);
        let rank = |key: InstanceKey, entry: &Entry| {
            let came = if settings.is_fair {
                entry.arrival as i64
            } else {
                entry.due_at_ms
            };
            (Reverse(entry.priority), came, key)
        };
        let can_run: BTreeSet<_> = request.registered.iter().collect();
        let mut others = self.in_queue(queue).filter(|(other, of, other_key)| {
            let is_same_line = is_one_line || !its.is_empty() && other_key == its;
            let is_known = is_same_line && !of.is_child && !has_turn(of) && can_run.contains(&of.class);
            is_known && *other != key && self.is_in_line(*other, of, now_ms)
        });
        let own = rank(key, entry);
        let first = others.find(|(other, of, _)| !has_turn(entry) && rank(*other, of) < own)?;
        let id = &self.instances.get(&first.0)?.id;
        Some(format!("{id} comes first"))
    }

    /// True if any worker could be given an instance of a queue now.
    fn is_takeable(&self, name: &str, line: &Line) -> bool {
        let (settings, now_ms) = (&line.settings, self.now_ms());
        let all: Vec<_> = self.with_slot(name, true).collect();
        let is_full = |limit: Option<u32>, count: usize| limit.is_some_and(|limit| count >= limit as usize);
        let mut own = BTreeMap::new();
        for owner in all.iter().filter_map(|(seen, _)| seen.owner.as_ref()) {
            *own.entry(&*owner.0).or_insert(0_usize) += 1;
        }
        if line.is_paused
            || is_full(settings.concurrency, all.len())
            || is_full(settings.per_worker, own.into_values().max().unwrap_or(0))
            || is_full(
                settings.rate.map(|rate| rate.limit),
                line.recent(0, settings.rate, now_ms, GRAIN_MS, |_| true),
            )
        {
            return false;
        }
        let mut waiting = self.in_queue(name).filter(|(key, entry, _)| {
            let is_certain = !entry.is_child && entry.due_at_ms + GRAIN_MS <= now_ms;
            is_certain && self.is_in_line(*key, entry, now_ms)
        });
        waiting.any(|(_, _, key)| {
            let of_key = all.iter().filter(|(_, its)| *its == key).count();
            let recent = line.recent(0, settings.key_rate, now_ms, GRAIN_MS, |its| its == key);
            let is_held =
                is_full(settings.key_concurrency, of_key) || is_full(settings.key_rate.map(|rate| rate.limit), recent);
            key.is_empty() || !is_held
        })
    }
}

/// The longest time by which a rate counts an admission for longer, ms: a 256th of any rate here.
const GRAIN_MS: i64 = 32;

impl Line {
    /// Counts the admissions that a rate counts, from the one of a number on. Each counts for longer by `longer_ms`.
    pub(super) fn recent(
        &self,
        from: usize,
        rate: Option<Rate>,
        now_ms: i64,
        longer_ms: i64,
        counts: impl Fn(&str) -> bool,
    ) -> usize {
        let Some(rate) = rate else { return 0 };
        let since_ms = now_ms - i64::try_from(rate.per_ms).expect("a short time") - longer_ms;
        let admitted = self.admitted[from..].iter().filter(|(at_ms, _)| *at_ms > since_ms);
        admitted.filter(|(_, key)| counts(key)).count()
    }
}
