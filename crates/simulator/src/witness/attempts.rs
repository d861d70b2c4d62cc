//! The attempts of activities that begin and end outside the store.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{Task, WorkerId};
use perdure_runtime::ActivityJob;

use super::{Begun, Witness, task_of};
use crate::log::Log;

impl Witness {
    /// Something happened to a process, after which its attempts may begin anew elsewhere.
    pub(crate) fn disturb(&self, process: &str) {
        *self.0.lock().disturbances.entry(process.to_owned()).or_default() += 1;
    }

    /// An attempt begins.
    pub(crate) fn begins(&self, log: &Log, process: &str, job: &ActivityJob) {
        let (instance, execution, scheduled, attempt) = (&job.instance_id, job.execution, job.scheduled, job.attempt);
        let mut known = self.0.lock();
        let known = &mut *known;
        known.figures.attempts += 1;
        log.say(
            process,
            format_args!("attempt {attempt} of {instance} {execution} #{scheduled} begins"),
        );
        let Some(key) = known.keys.get(instance).copied() else {
            return known.violations.push(format!(
                "invariant 1: an activity of {instance} began before the instance was stored"
            ));
        };
        let step = (key, ExecutionId(execution), scheduled);
        let owner = known.instances[&key]
            .owner
            .as_ref()
            .and_then(|owner| known.processes.get(owner));
        if owner.is_none_or(|owner| owner != process) && known.unaware.contains_key(&(key, process.to_owned())) {
            known.figures.unaware += 1;
            return;
        }
        if known.completed.contains(&step) {
            known.violations.push(format!(
                "S5: {instance} {execution} #{scheduled} began again in {process} after its completion was recorded"
            ));
        }
        let taken = known.taken.remove(&(step, attempt)).filter(|(by, _)| by == process);
        let before = known.begun.get(&(step, attempt));
        if job.is_untried && (attempt > 1 || before.is_some()) {
            known.violations.push(format!(
                "S34: attempt {attempt} of {instance} {execution} #{scheduled} began in {process} as untried, after \
                 another one"
            ));
        }
        // A task that was handed to another thread of its process was taken before.
        let is_task = taken.is_some() || before.is_some_and(|before| before.by == process && before.is_task);
        let is_released = known.releasing.get(process).is_some_and(|kept| match is_task {
            true => !kept.tasks.contains(&task_of(&(step, attempt))),
            false => !kept.instances.contains(&key),
        });
        if let Some(before) = before {
            known.figures.repeated += 1;
            let by = &before.by;
            let is_unaware = known.unaware.contains_key(&(key, by.clone())) || before.is_unaware;
            let is_expected = is_unaware || is_released || before.is_released;
            if known.disturbed(by, key) == before.since && !is_expected {
                let violation = format!(
                    "S6: attempt {attempt} of {instance} {execution} #{scheduled} began in {process} although nothing \
                     had happened to {by}"
                );
                known.violations.push(violation);
            }
        }
        let begun = Begun {
            by: process.to_owned(),
            since: taken.map_or_else(|| known.disturbed(process, key), |(_, since)| since),
            is_task,
            has_ended: false,
            is_released,
            is_unaware: known.unaware.contains_key(&(key, process.to_owned())),
        };
        known.begun.insert((step, attempt), begun);
    }

    /// An attempt is over, and its process knows the result.
    pub(crate) fn ends(&self, process: &str, instance: &str, execution: u64, scheduled: EventId, attempt: u32) {
        let mut known = self.0.lock();
        let Some(key) = known.keys.get(instance).copied() else {
            return;
        };
        let step = (key, ExecutionId(execution), scheduled);
        if let Some(begun) = known
            .begun
            .get_mut(&(step, attempt))
            .filter(|begun| begun.by == process)
        {
            begun.has_ended = true;
        }
    }

    /// A process takes an attempt from a queue.
    pub(crate) fn takes(&self, log: &Log, process: &str, worker: &WorkerId, given: &Task) {
        let Task { task, instance_id, .. } = given;
        log.say(
            process,
            format_args!(
                "takes attempt {} of {instance_id} {} #{}",
                task.attempt, task.execution, task.scheduled
            ),
        );
        let mut known = self.0.lock();
        if !given.is_late {
            known.gives_slot(worker, given);
        }
        let disturbed = known.disturbed(process, task.key);
        let step = (task.key, task.execution, task.scheduled);
        known
            .taken
            .insert((step, task.attempt), (process.to_owned(), disturbed));
    }
}
