//! P27 of the providers: attempts that have slots of the queue of activities. They begin within its limits.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, Rate, Task, TaskName, WorkerId};

use super::{Slot, WitnessState};
use crate::code::QUEUE;

impl WitnessState {
    /// A worker was given an attempt. If it is new, it got a slot.
    pub(super) fn gives_slot(&mut self, worker: &WorkerId, task: &Task) {
        let Some(options) = task.options.as_deref() else {
            return;
        };
        let Some(key) = key_of(options) else {
            return;
        };
        let is_late = field(options, "session").is_some() || self.misses_answers;
        let slot = Slot {
            key: key.to_owned(),
            worker: worker.clone(),
            is_late,
        };
        let now_ms = self.now_ms();
        if self.attempt_slots.insert(task.task, slot).is_some() {
            return;
        }
        for wrong in self.exceeded_by_attempt(key, worker, now_ms, is_late) {
            let (id, scheduled) = (&task.instance_id, task.task.scheduled);
            self.violations.push(format!(
                "P27: an attempt of {id} #{scheduled} was given a slot ({key}): {wrong}"
            ));
        }
    }

    /// Returns the limits that the last attempt with a slot has exceeded. When a late one got its slot is not known.
    fn exceeded_by_attempt(&mut self, key: &str, worker: &WorkerId, now_ms: i64, is_late: bool) -> Vec<String> {
        let slots: Vec<&Slot> = self.attempt_slots.values().collect();
        let of_key = slots.iter().filter(|slot| slot.key == key).count();
        let is_own = |slot: &&&Slot| slot.worker == *worker && !slot.is_late;
        let own = slots.iter().filter(is_own).count();
        let all = slots.len();
        let Some(line) = self.lines.queues.get_mut(QUEUE) else {
            return Vec::new();
        };
        if !is_late {
            line.admitted.push((now_ms, key.to_owned()));
        }
        let settings = &line.settings;
        let of_rate = |rate: Option<Rate>| rate.map(|rate| rate.limit);
        let recent = line.recent(0, settings.rate, now_ms, 0, |_| true);
        let recent_of_key = line.recent(0, settings.key_rate, now_ms, 0, |its| its == key);
        let mut limits = vec![
            ("slots", all, settings.concurrency),
            // Attempts that were given back keep their slots, so a worker may have more than it would be given.
            ("slots of the worker", own, settings.per_worker.filter(|_| !is_late)),
            ("admissions", recent, of_rate(settings.rate)),
        ];
        if !key.is_empty() {
            limits.push(("slots of the key", of_key, settings.key_concurrency));
            limits.push(("admissions of the key", recent_of_key, of_rate(settings.key_rate)));
        }
        let exceeded =
            |&(_, count, limit): &(&str, usize, Option<u32>)| limit.is_some_and(|most| count > most as usize);
        let tell = |(what, count, limit): (&str, usize, Option<u32>)| {
            format!("{what} {count}, and the limit is {}", limit.unwrap_or_default())
        };
        let paused = (line.is_paused && !is_late).then(|| "the queue is paused".to_owned());
        limits.into_iter().filter(exceeded).map(tell).chain(paused).collect()
    }

    /// An attempt has ended.
    pub(super) fn frees_slot(&mut self, task: &TaskName) {
        self.attempt_slots.remove(task);
    }

    /// A turn no longer waits for activities.
    pub(super) fn frees_slots_of(&mut self, key: InstanceKey, execution: ExecutionId, withdrawn: &[EventId]) {
        let is_gone =
            |task: &TaskName| (task.key, task.execution) == (key, execution) && withdrawn.contains(&task.scheduled);
        self.attempt_slots.retain(|task, _| !is_gone(task));
    }
}

/// Returns the key of an activity of the queue, from its options as they are recorded.
fn key_of(options: &str) -> Option<&str> {
    (field(options, "queue") == Some(QUEUE)).then(|| field(options, "key").unwrap_or_default())
}

/// Returns an option that is a text without quotes.
fn field<'o>(options: &'o str, name: &str) -> Option<&'o str> {
    let (_, rest) = options.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(value, _)| value)
}
