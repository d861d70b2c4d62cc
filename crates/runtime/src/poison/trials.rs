//! Trials of suspects: of instances that lost their workers again and again before they got on (P14).
//!
//! Of which of its instances a dead worker died is known of none of them. So those that have lost two workers in a row are tried: what they do
//! is announced to the store, a few at a time, and those that were among the few when a worker died, alone.
//!
//! - **T1** A suspect is read from the store, and its turn begins, when its trial is announced: what it holds may be what its worker died of. The trial is over when the turn has got on, or is over and the activities of
//!   the instance have run for [`PROBATION_MS`] without harm.
//! - **T2** At most [`TRIED_MAX`](crate::options::TRIED_MAX) suspects of a worker are tried at once; one that is accused is tried alone, and so is one that nobody else waits
//!   with. The death of a worker is evidence against an instance only when it was tried alone, and an acquittal takes back what is none.
//! - **T3** A worker that dies at any other time leaves no evidence: an instance that waits, also for an activity that runs for long, is not
//!   suspended however many workers are killed under it; nor are those that an instance takes with it each time it ends its process.
//! - **T4** A store that is slow or gone kills no worker. One that loses its lease because of that gives back what it owned, in good order,
//!   as soon as it reaches the store, unless another has found it missing before.
//! - **T5** Instances that are no suspects have their turns as ever; they cost no write more.

use std::sync::Arc;

use perdure_provider::{Outcome, ProviderError, ProviderErrorKind, Trial, TrialStep, Write};
use perdure_scheduler::State;

use crate::activity::attempt::AbortReason;
use crate::commit::committer::{Patience, WriteDone};
use crate::instance::Instance;
use crate::options::PROBATION_MS;
use crate::worker::alarm::Alarm;
use crate::worker::session::Session;

impl Session {
    /// A suspect, which is blocked, is to have a turn.
    pub(crate) fn await_trial(self: &Arc<Self>, instance: Arc<Instance>) {
        self.trials.lock().waiting.push_back(instance);
        self.next_trials();
    }

    fn next_trials(self: &Arc<Self>) {
        loop {
            let next = self.trials.lock().next();
            let Some((instance, step)) = next else { return };
            let (this, tried) = (Arc::clone(self), Arc::clone(&instance));
            let done = Box::new(move |answer| this.announced(tried, answer));
            self.write_trial(&instance, step, done);
        }
    }

    fn write_trial(&self, instance: &Instance, step: TrialStep, done: WriteDone) {
        let trial = Trial {
            step,
            key: instance.key(),
            worker: self.worker.clone(),
            epoch: instance.lock().epoch,
        };
        let committer = &self.shared.store.committer;
        committer.submit(Write::Trial(trial), Patience::Endless, done);
    }

    fn announced(self: &Arc<Self>, instance: Arc<Instance>, answer: Result<Outcome, ProviderError>) {
        let is_its_own = match answer {
            Ok(outcome) => outcome == Outcome::Noted,
            // What the store refuses for good must not keep the instance from going on.
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

    /// A turn is over, and durable if there was anything to store. If it was a suspect's: how its trial goes on.
    pub(crate) fn turn_done(self: &Arc<Self>, instance: &Arc<Instance>) {
        if !self.trials.lock().tried.contains_key(&instance.token) {
            return;
        }
        let (state, on_trial) = {
            let core = instance.lock();
            (core.control.state(), core.on_trial)
        };
        match state {
            // It got on, or was given back, with or without its generator.
            _ if !on_trial => self.trial_over(instance),
            State::Complete => self.trial_over(instance),
            State::Idle if self.activities.lock().runs_any(instance) => {
                if let Some(alarm) = self.trials.lock().tried.get_mut(&instance.token) {
                    let end = || Alarm::Trial(Arc::downgrade(instance));
                    alarm.get_or_insert_with(|| self.alarms.set(self.now_ms() + PROBATION_MS, end()));
                }
            }
            State::Idle => self.acquit(instance),
            // Its next turn follows.
            State::Ready | State::Running | State::Blocked => {}
        }
    }

    /// Nothing has happened so far.
    pub(crate) fn acquit(self: &Arc<Self>, instance: &Arc<Instance>) {
        if let Some(alarm) = self.trials.lock().tried.get_mut(&instance.token) {
            *alarm = None;
        }
        {
            let mut core = instance.lock();
            if !core.control.is_idle() || !core.on_trial {
                // It has a turn, with which this comes again.
                return;
            }
            core.on_trial = false;
            core.suspicion = core.suspicion.after_acquittal();
        }
        let (this, tried) = (Arc::clone(self), Arc::clone(instance));
        let done = Box::new(move |_| this.trial_over(&tried));
        self.write_trial(instance, TrialStep::End, done);
    }

    /// It got on, was acquitted, or is gone: others have their trials.
    pub(crate) fn trial_over(self: &Arc<Self>, instance: &Instance) {
        let was_tried = {
            let mut trials = self.trials.lock();
            let tried = trials.tried.remove(&instance.token);
            if let Some(Some(alarm)) = tried {
                self.alarms.cancel(alarm);
            }
            trials.is_alone &= !trials.tried.is_empty();
            tried.is_some()
        };
        if was_tried {
            self.next_trials();
        }
    }
}
