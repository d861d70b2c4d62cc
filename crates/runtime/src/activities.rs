//! Activities of the instances that this worker owns: those that run, those that wait for a slot, those that wait for their retry.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use perdure_engine::{ActivityTask, EventId};
use perdure_provider::InstanceKey;

use crate::instance::Instance;

/// Name of one attempt of an activity between the runtime and its host; never used again within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActivityToken(pub u32);

impl fmt::Display for ActivityToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a running activity is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// Nobody waits for it any more: it was cancelled or its instance has ended.
    Cancelled,
    /// The runtime shuts down.
    Shutdown,
    /// The instance may belong to another worker by now.
    LeaseLost,
}

impl AbortReason {
    /// Its text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            AbortReason::Cancelled => "cancelled",
            AbortReason::Shutdown => "shutdown",
            AbortReason::LeaseLost => "leaseLost",
        }
    }
}

/// One attempt.
#[derive(Clone)]
pub(crate) struct Attempt {
    pub(crate) instance: Arc<Instance>,
    pub(crate) task: Arc<ActivityTask>,
    pub(crate) number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It waits for its time.
    Delayed,
    /// It waits for a slot.
    Queued,
    /// It has a slot.
    Admitted,
}

struct Entry {
    attempt: Attempt,
    place: Place,
}

/// The table of attempts. What it returns, its owner must carry out.
pub(crate) struct Activities {
    slots: usize,
    used: usize,
    /// No attempt gets a slot any more.
    closed: bool,
    entries: HashMap<ActivityToken, Entry>,
    by_schedule: BTreeMap<(InstanceKey, EventId), ActivityToken>,
    queue: VecDeque<ActivityToken>,
}

impl Activities {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots,
            used: 0,
            closed: false,
            entries: HashMap::new(),
            by_schedule: BTreeMap::new(),
            queue: VecDeque::new(),
        }
    }

    /// Take an attempt in, to be admitted now or, when `delayed`, by [`due`](Self::due). `false`: it is here already (its instance was loaded again).
    pub(crate) fn add(&mut self, token: ActivityToken, attempt: Attempt, delayed: bool) -> bool {
        let schedule = (attempt.instance.key, attempt.task.scheduled);
        if self.by_schedule.contains_key(&schedule) {
            return false;
        }
        self.by_schedule.insert(schedule, token);
        let place = if delayed { Place::Delayed } else { Place::Queued };
        self.entries.insert(token, Entry { attempt, place });
        if !delayed {
            self.queue.push_back(token);
        }
        true
    }

    /// The time of a delayed attempt has come.
    pub(crate) fn due(&mut self, token: ActivityToken) {
        if let Some(entry) = self.entries.get_mut(&token)
            && entry.place == Place::Delayed
        {
            entry.place = Place::Queued;
            self.queue.push_back(token);
        }
    }

    /// The next attempt that gets a slot.
    pub(crate) fn admit(&mut self) -> Option<ActivityToken> {
        while !self.closed && self.used < self.slots {
            let token = self.queue.pop_front()?;
            if let Some(entry) = self.entries.get_mut(&token) {
                entry.place = Place::Admitted;
                self.used += 1;
                return Some(token);
            }
        }
        None
    }

    /// An attempt that is about to run.
    pub(crate) fn get(&self, token: ActivityToken) -> Option<&Attempt> {
        self.entries.get(&token).map(|entry| &entry.attempt)
    }

    /// An attempt is over; `None`: nobody waits for it any more.
    pub(crate) fn remove(&mut self, token: ActivityToken) -> Option<Attempt> {
        let entry = self.entries.remove(&token)?;
        self.by_schedule
            .remove(&(entry.attempt.instance.key, entry.attempt.task.scheduled));
        self.used -= usize::from(entry.place == Place::Admitted);
        Some(entry.attempt)
    }

    /// Give one schedule up. The token, when its attempt has a slot and must be aborted.
    pub(crate) fn cancel(&mut self, key: InstanceKey, scheduled: EventId) -> Option<ActivityToken> {
        let token = *self.by_schedule.get(&(key, scheduled))?;
        let admitted = self.entries.get(&token).is_some_and(|e| e.place == Place::Admitted);
        self.remove(token);
        admitted.then_some(token)
    }

    /// Give all of an instance up. The tokens of attempts that must be aborted.
    pub(crate) fn cancel_all(&mut self, key: InstanceKey) -> Vec<ActivityToken> {
        let schedules: Vec<EventId> = self
            .by_schedule
            .range((key, EventId(0))..=(key, EventId(u64::MAX)))
            .map(|((_, scheduled), _)| *scheduled)
            .collect();
        schedules
            .into_iter()
            .filter_map(|scheduled| self.cancel(key, scheduled))
            .collect()
    }

    /// Admit nothing more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Forget everything. The tokens of attempts that must be aborted.
    pub(crate) fn clear(&mut self) -> Vec<ActivityToken> {
        let admitted = self
            .entries
            .iter()
            .filter(|(_, e)| e.place == Place::Admitted)
            .map(|(t, _)| *t)
            .collect();
        self.entries.clear();
        self.by_schedule.clear();
        self.queue.clear();
        self.used = 0;
        admitted
    }

    /// Attempts that have a slot.
    pub(crate) fn running(&self) -> usize {
        self.used
    }

    /// Attempts in all.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
