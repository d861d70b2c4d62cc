//! Heartbeats of activities. The latest details are handed to the next attempt, on this worker or on the one where the
//! instance goes on.
//!
//! - **H1** One activity has one write at a time, and [`HEARTBEAT_INTERVAL_MS`] pass from the answer of a write to the
//!   next one. The next write has the latest details, if they differ from those that were written.
//! - **H2** The details that the store keeps of an activity are removed with the turn in which the activity ends. If
//!   they are being written at that time, a write of its own removes them afterwards: a store may carry out the two in
//!   any order.

use std::sync::Arc;

use perdure_engine::{EventId, Payload};
use perdure_provider::{Heartbeat, Outcome, ProviderError, ProviderErrorKind, Reporter, Write};
use perdure_scheduler::State;

use crate::activity::activities::Activities;
use crate::commit::committer::Patience;
use crate::log::Level;
use crate::options::HEARTBEAT_INTERVAL_MS;
use crate::platform::alarms::AlarmId;
use crate::state::Core;
use crate::state::alarm::Alarm;
use crate::state::attempt::{ActivityToken, Attempt, Origin};
use crate::state::heartbeats::Heartbeats;

impl Activities {
    /// Takes the heartbeat of a running attempt.
    pub(crate) fn heartbeat(self: &Arc<Self>, token: ActivityToken, details: String) {
        let attempt = self.attempts.lock().get(token).cloned();
        let Some(Attempt { origin, task, .. }) = attempt else {
            return;
        };
        let scheduled = task.scheduled;
        // An activity that a turn has given up is told to stop only when the turn is durable. Its heartbeats are
        // ignored until then.
        let is_over = |core: &Core| {
            let engine = core.engine.as_ref();
            engine.is_some_and(|engine| !engine.may_await_activity(scheduled))
        };
        if matches!(&origin, Origin::Instance(instance) if is_over(&instance.lock())) {
            return;
        }
        self.change(&origin, scheduled, |heartbeats| heartbeats.update(scheduled, details));
    }

    /// Notes that the pause after a write is over, so that the activity's next heartbeat may be written.
    pub(crate) fn heartbeat_pause_over(self: &Arc<Self>, origin: &Origin, scheduled: EventId, alarm: AlarmId) {
        self.change(origin, scheduled, |heartbeats| heartbeats.pause_over(scheduled, alarm));
    }

    /// Changes the heartbeats of an attempt's origin, and writes the details that `change` returns.
    fn change(
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
                (change(&mut core.heartbeats), Reporter::Owner(core.epoch))
            }
            Origin::Task(taken) => {
                let attempt = taken.task.attempt;
                (change(&mut taken.heartbeats.lock()), Reporter::Runner { attempt })
            }
        };
        if let Some(details) = write {
            self.write_heartbeat(origin.clone(), by, scheduled, details);
        }
    }

    fn write_heartbeat(self: &Arc<Self>, origin: Origin, by: Reporter, scheduled: EventId, details: Payload) {
        let heartbeat = Heartbeat {
            key: origin.key(),
            worker: self.worker.id.clone(),
            by,
            execution: origin.execution(),
            scheduled,
            details,
            time_ms: self.worker.now_ms(),
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
            // The instance has ended, or another worker owns it by now. Its next turn or the next renewal of the lease
            // shows which.
            Ok(_) => return,
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            Err(error) => self.shared.log_for(
                origin,
                Level::Warn,
                format!(
                    "a heartbeat of instance '{}' could not be stored: {error}",
                    origin.instance_id()
                ),
            ),
        }
        let pause = || {
            let alarm = Alarm::Heartbeat(origin.clone(), scheduled);
            self.alarms.set(self.worker.now_ms() + HEARTBEAT_INTERVAL_MS, alarm)
        };
        self.change(origin, scheduled, |heartbeats| heartbeats.written(scheduled, pause));
    }
}
