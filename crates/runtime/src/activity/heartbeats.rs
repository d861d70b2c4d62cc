//! What activities tell of their progress: the latest details are handed to the next attempt, here or wherever the instance goes on.
//!
//! - **H1** Of one activity there is one write at a time, and [`HEARTBEAT_INTERVAL_MS`] pass from its answer to the next. The latest
//!   details are written then, if they are not what was written.
//! - **H2** What the store keeps of an activity goes with the turn in which that is over. While it is being written it goes by a
//!   write of its own afterwards: a store may write the two in any order.

use std::collections::BTreeMap;
use std::sync::Arc;

use perdure_engine::{EventId, EventKind, EventRecord, Payload};
use perdure_provider::{Heartbeat, Outcome, ProviderError, ProviderErrorKind, Teller, Write};
use perdure_scheduler::State;

use crate::activity::attempt::{ActivityToken, Attempt, Origin};
use crate::commit::committer::Patience;
use crate::instance::Core;
use crate::lane::log_record::Level;
use crate::options::HEARTBEAT_INTERVAL_MS;
use crate::platform::alarms::{AlarmId, Alarms};
use crate::worker::alarm::Alarm;
use crate::worker::session::Session;

/// The heartbeats of one instance, by the schedules of its open activities.
#[derive(Default)]
pub(crate) struct Heartbeats(BTreeMap<EventId, Beat>);

struct Beat {
    /// What was told last; `None`: the activity is over.
    details: Payload,
    /// The store has, or is being given, something else.
    is_news: bool,
    pace: Pace,
}

enum Pace {
    Ready,
    Writing,
    /// Until this alarm.
    Resting(AlarmId),
}

impl Heartbeats {
    /// Those that the store keeps.
    pub(crate) fn stored(kept: Vec<(EventId, String)>) -> Self {
        let beat = |details| Beat {
            details: Some(details),
            is_news: false,
            pace: Pace::Ready,
        };
        Self(kept.into_iter().map(|(id, details)| (id, beat(details))).collect())
    }

    /// What an activity told last.
    pub(crate) fn latest(&self, scheduled: EventId) -> Payload {
        self.0.get(&scheduled).and_then(|beat| beat.details.clone())
    }

    /// Take details in; what is to be written now, if anything.
    fn tell(&mut self, scheduled: EventId, details: String) -> Option<Payload> {
        let beat = self.0.entry(scheduled).or_insert(Beat {
            details: None,
            is_news: false,
            pace: Pace::Ready,
        });
        (beat.details, beat.is_news) = (Some(details), true);
        beat.next()
    }

    /// A write was answered; what is to be written now, if anything.
    fn written(&mut self, scheduled: EventId, rest: impl FnOnce() -> AlarmId) -> Option<Payload> {
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

    /// It has rested; what is to be written now, if anything.
    fn rested(&mut self, scheduled: EventId, alarm: AlarmId) -> Option<Payload> {
        let beat = self.0.get_mut(&scheduled)?;
        if !matches!(beat.pace, Pace::Resting(until) if until == alarm) {
            return None;
        }
        beat.pace = Pace::Ready;
        beat.next()
    }

    /// Those whose activities are over by these events, or all when the execution `ends`: they go with the turn (H2).
    pub(crate) fn over(&mut self, events: &[EventRecord], ends: bool, alarms: &Alarms<Alarm>) -> Vec<EventId> {
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

    fn forget(&mut self, scheduled: EventId, alarms: &Alarms<Alarm>) -> bool {
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

    /// The instance leaves this worker.
    pub(crate) fn clear(&mut self, alarms: &Alarms<Alarm>) {
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

    fn take_alarm(&mut self, alarms: &Alarms<Alarm>) {
        if let Pace::Resting(alarm) = std::mem::replace(&mut self.pace, Pace::Ready) {
            alarms.cancel(alarm);
        }
    }
}

impl Session {
    /// A running attempt tells of its progress.
    pub(crate) fn heartbeat(self: &Arc<Self>, token: ActivityToken, details: String) {
        let attempt = self.activities.lock().get(token).cloned();
        let Some(Attempt { origin, task, .. }) = attempt else {
            return;
        };
        let scheduled = task.scheduled;
        // What a turn has given up is told to stop only when that is durable.
        let is_over = |core: &Core| {
            let engine = core.engine.as_ref();
            engine.is_some_and(|engine| !engine.may_await_activity(scheduled))
        };
        if matches!(&origin, Origin::Instance(instance) if is_over(&instance.lock())) {
            return;
        }
        self.beat(&origin, scheduled, |heartbeats| heartbeats.tell(scheduled, details));
    }

    /// An activity that has written may write again.
    pub(crate) fn heartbeat_rested(self: &Arc<Self>, origin: &Origin, scheduled: EventId, alarm: AlarmId) {
        self.beat(origin, scheduled, |heartbeats| heartbeats.rested(scheduled, alarm));
    }

    /// Do something to the heartbeats that an attempt belongs to, and write what is to be written then.
    fn beat(
        self: &Arc<Self>,
        origin: &Origin,
        scheduled: EventId,
        change: impl FnOnce(&mut Heartbeats) -> Option<Payload>,
    ) {
        let (write, by) = match origin {
            Origin::Instance(instance) => {
                let mut core = instance.lock();
                if core.control.state() == State::Complete {
                    return;
                }
                (change(&mut core.heartbeats), Teller::Owner(core.epoch))
            }
            Origin::Task(borrowed) => {
                let attempt = borrowed.task.attempt;
                (change(&mut borrowed.heartbeats.lock()), Teller::Runner { attempt })
            }
        };
        if let Some(details) = write {
            self.write_heartbeat(origin.clone(), by, scheduled, details);
        }
    }

    fn write_heartbeat(self: &Arc<Self>, origin: Origin, by: Teller, scheduled: EventId, details: Payload) {
        let heartbeat = Heartbeat {
            key: origin.key(),
            worker: self.worker.clone(),
            by,
            execution: origin.execution(),
            scheduled,
            details,
        };
        let this = Arc::clone(self);
        self.shared.store.committer.submit(
            Write::Heartbeat(Box::new(heartbeat)),
            Patience::Endless,
            Box::new(move |answer| this.heartbeat_written(&origin, scheduled, answer)),
        );
    }

    fn heartbeat_written(
        self: &Arc<Self>,
        origin: &Origin,
        scheduled: EventId,
        answer: Result<Outcome, ProviderError>,
    ) {
        match answer {
            Ok(Outcome::Noted) => {}
            // It has ended, or is another's by now: its next turn or the worker's next renewal shows that.
            Ok(_) => return,
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            Err(error) => self.shared.log_about(
                origin,
                Level::Warn,
                format!(
                    "a heartbeat of instance '{}' could not be stored: {error}",
                    origin.instance_id()
                ),
            ),
        }
        let rest = || {
            let alarm = Alarm::Heartbeat(origin.clone(), scheduled);
            self.alarms.set(self.now_ms() + HEARTBEAT_INTERVAL_MS, alarm)
        };
        self.beat(origin, scheduled, |heartbeats| heartbeats.written(scheduled, rest));
    }
}
