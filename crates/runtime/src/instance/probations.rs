//! Probations of suspects: of instances that lost their workers again and again before they got on (P14).
//!
//! When a worker dies, it is not known which of its instances it died of. So instances that have lost two workers in a
//! row go on probation: their turns are announced to the store, a few at a time. Those that were among the few when a
//! worker died go on probation alone.
//!
//! - **T1** A suspect is read from the store, and its turn begins, only when its probation is announced, because its
//!   worker may have died of the data that it holds. The probation is over when the turn has got on, or when the turn
//!   is over and the activities of the instance have run for [`PROBATION_MS`] without harm.
//! - **T2** At most [`PROBATIONS_MAX`](crate::options::PROBATIONS_MAX) suspects of a worker are on probation at once. A
//!   suspect that needs isolation is on probation alone, and so is one that no other suspect waits with. The death of a
//!   worker is evidence against an instance only if the instance was on probation alone. A probation without harm takes
//!   back all that is no evidence.
//! - **T3** A worker that dies at any other time leaves no evidence. An instance that waits, also for an activity that
//!   runs for long, is not suspended however many workers are killed under it; nor are those that an instance takes
//!   with it each time it ends its process.
//! - **T4** A store that is slow or gone kills no worker. A worker that loses its lease because of that releases what
//!   it owned, in good order, as soon as it reaches the store, unless another worker has found it missing before.
//! - **T5** Instances that are no suspects have their turns as ever; they cost no more writes.

use std::sync::Arc;

use perdure_provider::{Outcome, Probation, ProbationStep, ProviderError, ProviderErrorKind, Write};
use perdure_scheduler::State;

use crate::commit::committer::{Patience, WriteDone};
use crate::instance::instances::Instances;
use crate::instance::suspects::Stage;
use crate::options::PROBATION_MS;
use crate::state::Instance;
use crate::state::alarm::Alarm;
use crate::state::attempt::AbortReason;

impl Instances {
    /// Queues the probation of a suspect that is blocked and is to have a turn.
    pub(crate) fn queue_probation(self: &Arc<Self>, instance: Arc<Instance>) {
        self.probations.lock().waiting.push_back(instance);
        self.begin_probations();
    }

    fn begin_probations(self: &Arc<Self>) {
        loop {
            let next = self.probations.lock().next();
            let Some((instance, step)) = next else { return };
            let (this, suspect) = (Arc::clone(self), Arc::clone(&instance));
            let done = Box::new(move |answer| this.probation_announced(suspect, answer));
            self.write_probation(&instance, step, done);
        }
    }

    fn write_probation(&self, instance: &Instance, step: ProbationStep, done: WriteDone) {
        let probation = Probation {
            step,
            key: instance.key(),
            worker: self.worker.id.clone(),
            epoch: instance.lock().epoch,
        };
        let committer = &self.shared.store.committer;
        committer.submit(Write::Probation(probation), Patience::Endless, done);
    }

    fn probation_announced(self: &Arc<Self>, instance: Arc<Instance>, answer: Result<Outcome, ProviderError>) {
        let is_its_own = match answer {
            Ok(outcome) => outcome == Outcome::Noted,
            // A probation that the store refuses for good must not keep the instance from going on.
            Err(error) => error.kind != ProviderErrorKind::Closed,
        };
        if !is_its_own {
            return self.forget(&instance, AbortReason::LeaseLost);
        }
        instance.lock().on_probation = true;
        if !self.go_on(&instance) {
            self.probation_over(&instance);
        }
    }

    /// Continues the probation of an instance after its turn, if it is on probation. The turn is durable if it had
    /// anything to store.
    pub(crate) fn continue_probation(self: &Arc<Self>, instance: &Arc<Instance>) {
        if !self.probations.lock().on_probation.contains_key(&instance.token) {
            return;
        }
        let (state, on_probation) = {
            let core = instance.lock();
            (core.control.state(), core.on_probation)
        };
        match state {
            // The instance got on, or was released, with or without its generator.
            _ if !on_probation => self.probation_over(instance),
            State::Complete => self.probation_over(instance),
            State::Idle => self.continue_after_turn(instance),
            // Another turn of the instance follows.
            State::Ready | State::Running | State::Blocked => {}
        }
    }

    /// Continues the probation of an instance that has no turn, for a time if its activities run.
    fn continue_after_turn(self: &Arc<Self>, instance: &Arc<Instance>) {
        let runs_any = self.activities.attempts.lock().runs_any(instance);
        let announces = {
            let mut probations = self.probations.lock();
            let is_alone = probations.is_alone;
            let Some(stage) = probations.on_probation.get_mut(&instance.token) else {
                return;
            };
            match *stage {
                // The answer to the announcement continues the probation.
                Stage::Announcing => return,
                Stage::Turn if runs_any && is_alone => {
                    *stage = Stage::Announcing;
                    true
                }
                Stage::Turn | Stage::Activities(None) if runs_any => {
                    let end = Alarm::Probation(Arc::downgrade(instance));
                    *stage = Stage::Activities(Some(self.services.alarms.set(self.now_ms() + PROBATION_MS, end)));
                    return;
                }
                Stage::Activities(Some(_)) if runs_any => return,
                Stage::Turn | Stage::Activities(_) => false,
            }
        };
        if !announces {
            return self.pass_probation(instance);
        }
        let (this, suspect) = (Arc::clone(self), Arc::clone(instance));
        let done = Box::new(move |_| this.activities_announced(&suspect));
        self.write_probation(instance, ProbationStep::Activities, done);
    }

    fn activities_announced(self: &Arc<Self>, instance: &Arc<Instance>) {
        if let Some(stage @ Stage::Announcing) = self.probations.lock().on_probation.get_mut(&instance.token) {
            *stage = Stage::Activities(None);
        }
        self.continue_probation(instance);
    }

    /// Ends the probation of an instance, because it has done no harm so far.
    pub(crate) fn pass_probation(self: &Arc<Self>, instance: &Arc<Instance>) {
        if let Some(stage) = self.probations.lock().on_probation.get_mut(&instance.token) {
            *stage = Stage::Activities(None);
        }
        {
            let mut core = instance.lock();
            if !core.control.is_idle() || !core.on_probation {
                // The instance has a turn, after which its probation ends.
                return;
            }
            core.on_probation = false;
            core.suspicion = core.suspicion.after_probation();
        }
        let (this, suspect) = (Arc::clone(self), Arc::clone(instance));
        let done = Box::new(move |_| this.probation_over(&suspect));
        self.write_probation(instance, ProbationStep::End, done);
    }

    /// Ends the probation of an instance that got on, did no harm, or is gone, and begins the probations of others.
    pub(crate) fn probation_over(self: &Arc<Self>, instance: &Instance) {
        let was_on_probation = {
            let mut probations = self.probations.lock();
            let stage = probations.on_probation.remove(&instance.token);
            if let Some(stage) = stage {
                stage.cancel(&self.services.alarms);
            }
            probations.is_alone &= !probations.on_probation.is_empty();
            stage.is_some()
        };
        if was_on_probation {
            self.begin_probations();
        }
    }
}
