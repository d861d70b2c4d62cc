//! The heartbeats of one instance as they are kept in memory: the latest details of each activity, and the time from
//! which they may be written again. Invariants H1 and H2 stand in [`heartbeats`](crate::activity::heartbeat_writes), which
//! writes the heartbeats.

use std::collections::BTreeMap;

use perdure_engine::{EventId, EventKind, EventRecord, Payload};

use crate::platform::alarms::{AlarmId, Alarms};

/// The heartbeats of one instance, by the schedules of its open activities.
#[derive(Default)]
pub(crate) struct Heartbeats(BTreeMap<EventId, Beat>);

struct Beat {
    /// The latest details. `None`: the activity is over.
    details: Payload,
    /// True if the details differ from those that the store has or is being given.
    is_news: bool,
    pace: Pace,
}

enum Pace {
    Ready,
    Writing,
    /// Resting after a write, until this alarm.
    Resting(AlarmId),
}

impl Heartbeats {
    /// Returns the heartbeats that the store keeps of the instance.
    pub(crate) fn stored(kept: Vec<(EventId, String)>) -> Self {
        let beat = |details| Beat {
            details: Some(details),
            is_news: false,
            pace: Pace::Ready,
        };
        Self(kept.into_iter().map(|(id, details)| (id, beat(details))).collect())
    }

    /// Returns the latest details of an activity.
    pub(crate) fn latest(&self, scheduled: EventId) -> Payload {
        self.0.get(&scheduled).and_then(|beat| beat.details.clone())
    }

    /// Takes new details. Returns the details that are to be written now, if any.
    pub(crate) fn tell(&mut self, scheduled: EventId, details: String) -> Option<Payload> {
        let beat = self.0.entry(scheduled).or_insert(Beat {
            details: None,
            is_news: false,
            pace: Pace::Ready,
        });
        (beat.details, beat.is_news) = (Some(details), true);
        beat.next()
    }

    /// Notes that a write was answered. Returns the details that are to be written now, if any.
    pub(crate) fn written(&mut self, scheduled: EventId, rest: impl FnOnce() -> AlarmId) -> Option<Payload> {
        let beat = self.0.get_mut(&scheduled)?;
        if !matches!(beat.pace, Pace::Writing) {
            return None;
        }
        beat.pace = Pace::Ready;
        if beat.details.is_some() {
            beat.pace = Pace::Resting(rest());
        } else if beat.is_news {
            return beat.next();
        } else {
            self.0.remove(&scheduled);
        }
        None
    }

    /// Notes that an activity's rest is over. Returns the details that are to be written now, if any.
    pub(crate) fn rested(&mut self, scheduled: EventId, alarm: AlarmId) -> Option<Payload> {
        let beat = self.0.get_mut(&scheduled)?;
        if !matches!(beat.pace, Pace::Resting(until) if until == alarm) {
            return None;
        }
        beat.pace = Pace::Ready;
        beat.next()
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
            Some(beat) if matches!(beat.pace, Pace::Writing) => {
                (beat.details, beat.is_news) = (None, true);
                false
            }
            Some(beat) => {
                beat.take_alarm(alarms);
                self.0.remove(&scheduled);
                true
            }
        }
    }

    /// Forgets all heartbeats, because the instance leaves this worker.
    pub(crate) fn clear<A>(&mut self, alarms: &Alarms<A>) {
        for beat in self.0.values_mut() {
            beat.take_alarm(alarms);
        }
        self.0.clear();
    }
}

impl Beat {
    fn next(&mut self) -> Option<Payload> {
        if !self.is_news || !matches!(self.pace, Pace::Ready) {
            return None;
        }
        self.is_news = false;
        self.pace = Pace::Writing;
        Some(self.details.clone())
    }

    fn take_alarm<A>(&mut self, alarms: &Alarms<A>) {
        if let Pace::Resting(alarm) = std::mem::replace(&mut self.pace, Pace::Ready) {
            alarms.cancel(alarm);
        }
    }
}
