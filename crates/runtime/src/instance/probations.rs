//! Probations of suspects: of instances that lost their workers again and again before they got on (P14).
//!
//! When a worker dies, it is not known which of its instances it died of. So instances that have lost two workers in a
//! row are tried: their turns are announced to the store, a few at a time. Those that were among the few when a worker
//! died are tried alone.
//!
//! - **T1** A suspect is read from the store, and its turn begins, only when its probation is announced, because its worker
//!   may have died of the data that it holds. The probation is over when the turn has got on, or when the turn is over and
//!   the activities of the instance have run for [`PROBATION_MS`] without harm.
//! - **T2** At most [`TRIED_MAX`](crate::options::TRIED_MAX) suspects of a worker are tried at once. An accused one is
//!   tried alone, and so is one that no other suspect waits with. The death of a worker is evidence against an instance
//!   only if the instance was tried alone, and an acquittal takes back all that is no evidence.
//! - **T3** A worker that dies at any other time leaves no evidence. An instance that waits, also for an activity that
//!   runs for long, is not suspended however many workers are killed under it; nor are those that an instance takes
//!   with it each time it ends its process.
//! - **T4** A store that is slow or gone kills no worker. A worker that loses its lease because of that gives back what
//!   it owned, in good order, as soon as it reaches the store, unless another worker has found it missing before.
//! - **T5** Instances that are no suspects have their turns as ever; they cost no more writes.

use std::sync::Arc;

use perdure_provider::{Outcome, Probation, ProbationStep, ProviderError, ProviderErrorKind, Write};
use perdure_scheduler::State;

use crate::commit::committer::{Patience, WriteDone};
use crate::instance::instances::Instances;
use crate::options::PROBATION_MS;
use crate::state::Instance;
use crate::state::alarm::Alarm;
use crate::state::attempt::AbortReason;

impl Instances {
    /// Queues the probation of a suspect that is blocked and is to have a turn.
    pub(crate) fn await_trial(self: &Arc<Self>, instance: Arc<Instance>) {
        self.probations.lock().waiting.push_back(instance);
        self.next_trials();
    }

    fn next_trials(self: &Arc<Self>) {
        loop {
            let next = self.probations.lock().next();
            let Some((instance, step)) = next else { return };
            let (this, tried) = (Arc::clone(self), Arc::clone(&instance));
            let done = Box::new(move |answer| this.announced(tried, answer));
            self.write_trial(&instance, step, done);
        }
    }

    fn write_trial(&self, instance: &Instance, step: ProbationStep, done: WriteDone) {
        let probation = Probation {
            step,
            key: instance.key(),
            worker: self.worker.id.clone(),
            epoch: instance.lock().epoch,
        };
        let committer = &self.shared.store.committer;
        committer.submit(Write::Probation(probation), Patience::Endless, done);
    }

    fn announced(self: &Arc<Self>, instance: Arc<Instance>, answer: Result<Outcome, ProviderError>) {
        let is_its_own = match answer {
            Ok(outcome) => outcome == Outcome::Noted,
            // A probation that the store refuses for good must not keep the instance from going on.
            Err(error) => error.kind != ProviderErrorKind::Closed,
        };
        if !is_its_own {
            return self.forget(&instance, AbortReason::LeaseLost);
        }
        instance.lock().on_trial = true;
        if !self.go_on(&instance) {
            self.trial_over(&instance);
        }
    }

    /// Continues the probation of an instance after its turn, if it is on probation. The turn is durable if it had anything to
    /// store.
    pub(crate) fn turn_done(self: &Arc<Self>, instance: &Arc<Instance>) {
        if !self.probations.lock().tried.contains_key(&instance.token) {
            return;
        }
        let (state, on_trial) = {
            let core = instance.lock();
            (core.control.state(), core.on_trial)
        };
        match state {
            // The instance got on, or was given back, with or without its generator.
            _ if !on_trial => self.trial_over(instance),
            State::Complete => self.trial_over(instance),
            State::Idle if self.activities.attempts.lock().runs_any(instance) => {
                if let Some(alarm) = self.probations.lock().tried.get_mut(&instance.token) {
                    let end = || Alarm::Probation(Arc::downgrade(instance));
                    alarm.get_or_insert_with(|| self.services.alarms.set(self.now_ms() + PROBATION_MS, end()));
                }
            }
            State::Idle => self.acquit(instance),
            // Another turn of the instance follows.
            State::Ready | State::Running | State::Blocked => {}
        }
    }

    /// Acquits an instance, because nothing has happened so far.
    pub(crate) fn acquit(self: &Arc<Self>, instance: &Arc<Instance>) {
        if let Some(alarm) = self.probations.lock().tried.get_mut(&instance.token) {
            *alarm = None;
        }
        {
            let mut core = instance.lock();
            if !core.control.is_idle() || !core.on_trial {
                // The instance has a turn, after which it is acquitted.
                return;
            }
            core.on_trial = false;
            core.suspicion = core.suspicion.after_probation();
        }
        let (this, tried) = (Arc::clone(self), Arc::clone(instance));
        let done = Box::new(move |_| this.trial_over(&tried));
        self.write_trial(instance, ProbationStep::End, done);
    }

    /// Ends the probation of an instance that got on, was acquitted, or is gone, and begins the probations of others.
    pub(crate) fn trial_over(self: &Arc<Self>, instance: &Instance) {
        let was_tried = {
            let mut probations = self.probations.lock();
            let tried = probations.tried.remove(&instance.token);
            if let Some(Some(alarm)) = tried {
                self.services.alarms.cancel(alarm);
            }
            probations.is_alone &= !probations.tried.is_empty();
            tried.is_some()
        };
        if was_tried {
            self.next_trials();
        }
    }
}
