//! The heartbeats of one instance as they are kept in memory: the latest details of each activity, and the time from
//! which they may be written again. Invariants H1 and H2 stand in
//! [`heartbeat_writes`](crate::activity::heartbeat_writes), which writes the heartbeats.

use std::collections::BTreeMap;

use perdure_engine::{EventId, EventKind, EventRecord, Payload};

use crate::platform::alarms::{AlarmId, Alarms};

/// The heartbeats of one instance, by the schedules of its open activities.
#[derive(Default)]
pub(crate) struct Heartbeats(BTreeMap<EventId, Entry>);

struct Entry {
    /// The latest details. `None`: the activity is over.
    details: Payload,
    /// True if the details differ from those that the store has or is being given.
    is_news: bool,
    state: WriteState,
}

enum WriteState {
    Ready,
    Writing,
    /// Paused after a write, until this alarm.
    Paused(AlarmId),
}

impl Heartbeats {
    /// Returns the heartbeats that the store keeps of the instance.
    pub(crate) fn stored(kept: Vec<(EventId, String)>) -> Self {
        let entry = |details| Entry {
            details: Some(details),
            is_news: false,
            state: WriteState::Ready,
        };
        Self(kept.into_iter().map(|(id, details)| (id, entry(details))).collect())
    }

    /// Returns the latest details of an activity.
    pub(crate) fn latest(&self, scheduled: EventId) -> Payload {
        self.0.get(&scheduled).and_then(|entry| entry.details.clone())
    }

    /// Takes new details. Returns the details that are to be written now, if any.
    pub(crate) fn update(&mut self, scheduled: EventId, details: String) -> Option<Payload> {
        let entry = self.0.entry(scheduled).or_insert(Entry {
            details: None,
            is_news: false,
            state: WriteState::Ready,
        });
        (entry.details, entry.is_news) = (Some(details), true);
        entry.next()
    }

    /// Notes that a write was answered. Returns the details that are to be written now, if any.
    pub(crate) fn written(&mut self, scheduled: EventId, pause: impl FnOnce() -> AlarmId) -> Option<Payload> {
        let entry = self.0.get_mut(&scheduled)?;
        if !matches!(entry.state, WriteState::Writing) {
            return None;
        }
        entry.state = WriteState::Ready;
        if entry.details.is_some() {
            entry.state = WriteState::Paused(pause());
        } else if entry.is_news {
            return entry.next();
        } else {
            self.0.remove(&scheduled);
        }
        None
    }

    /// Notes that an activity's pause is over. Returns the details that are to be written now, if any.
    pub(crate) fn pause_over(&mut self, scheduled: EventId, alarm: AlarmId) -> Option<Payload> {
        let entry = self.0.get_mut(&scheduled)?;
        if !matches!(entry.state, WriteState::Paused(until) if until == alarm) {
            return None;
        }
        entry.state = WriteState::Ready;
        entry.next()
    }

    /// Returns the activities whose heartbeats the store removes with this turn (H2): those that end with these events,
    /// or all if the execution `ends`.
    pub(crate) fn over<A>(&mut self, events: &[EventRecord], ends: bool, alarms: &Alarms<A>) -> Vec<EventId> {
        if self.0.is_empty() {
            return Vec::new();
        }
        if ends {
            return self.0.keys().copied().collect();
        }
        let settles = |kind| {
            matches!(
                kind,
                EventKind::ActivityCompleted | EventKind::ActivityFailed | EventKind::OperationCancelled
            )
        };
        let over = events.iter().filter(|event| settles(event.kind));
        over.filter_map(|event| event.ref_id)
            .filter(|scheduled| self.forget(*scheduled, alarms))
            .collect()
    }

    fn forget<A>(&mut self, scheduled: EventId, alarms: &Alarms<A>) -> bool {
        match self.0.get_mut(&scheduled) {
            None => false,
            Some(entry) if matches!(entry.state, WriteState::Writing) => {
                (entry.details, entry.is_news) = (None, true);
                false
            }
            Some(entry) => {
                entry.take_alarm(alarms);
                self.0.remove(&scheduled);
                true
            }
        }
    }

    /// Forgets all heartbeats, because the instance leaves this worker.
    pub(crate) fn clear<A>(&mut self, alarms: &Alarms<A>) {
        for entry in self.0.values_mut() {
            entry.take_alarm(alarms);
        }
        self.0.clear();
    }
}

impl Entry {
    fn next(&mut self) -> Option<Payload> {
        if !self.is_news || !matches!(self.state, WriteState::Ready) {
            return None;
        }
        self.is_news = false;
        self.state = WriteState::Writing;
        Some(self.details.clone())
    }

    fn take_alarm<A>(&mut self, alarms: &Alarms<A>) {
        if let WriteState::Paused(alarm) = std::mem::replace(&mut self.state, WriteState::Ready) {
            alarms.cancel(alarm);
        }
    }
}
