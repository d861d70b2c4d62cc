//! The activities of the instances that this worker owns: those that run, those that wait for a slot, and those that
//! wait for their retry.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use perdure_engine::{Bug, EventId, ExecutionId, is_planted};
use perdure_provider::{InstanceKey, TaskName};
use perdure_scheduler::LaneId;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::activity::completion_rate::CompletionRate;
use crate::platform::alarms::{AlarmId, Alarms};
use crate::state::Instance;
use crate::state::alarm::Alarm;
use crate::state::attempt::{ActivityToken, Attempt, Origin, StartLimit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The attempt waits for its time.
    Delayed,
    /// The attempt waits for a slot.
    Queued,
    /// The attempt has a slot.
    Admitted,
}

struct Entry {
    attempt: Attempt,
    place: Place,
    /// The time from which the attempt could begin; the time it was added until then.
    ready: Instant,
    /// The lane whose thread was given the attempt.
    begun: Option<LaneId>,
    /// The alarm of an attempt that waits: at its time while it is delayed, and when it must have begun while it waits
    /// for a slot.
    alarm: Option<AlarmId>,
}

impl Entry {
    /// Returns the time at which the attempt no longer waits for a slot, ms since 1970.
    fn waits_until_ms(&self) -> Option<i64> {
        let StartLimit { at_ms, is_over } = self.attempt.start;
        if is_over {
            Some(0)
        } else {
            at_ms.or(self.attempt.task.deadline_ms)
        }
    }
}

/// The schedule that an attempt belongs to. The execution is part of it because each execution of an instance counts
/// its events from 1, and an attempt of the last execution may still run here when the next one schedules an activity.
type Schedule = (InstanceKey, ExecutionId, EventId);

/// The table of attempts. The owner of the table carries out what its methods return.
pub(crate) struct Attempts {
    alarms: Arc<Alarms<Alarm>>,
    slots: usize,
    used: usize,
    /// True if no attempt gets a slot any more.
    closed: bool,
    entries: FxHashMap<ActivityToken, Entry>,
    by_schedule: BTreeMap<Schedule, ActivityToken>,
    /// The attempts that wait for a slot, by priority, then in the order of their arrival.
    queue: BTreeSet<(Reverse<i32>, ActivityToken)>,
    /// The completion rate of each activity that is or was registered here, by the activity's name.
    completion_rate: FxHashMap<String, CompletionRate>,
}

impl Attempts {
    pub(crate) fn new(slots: usize, alarms: Arc<Alarms<Alarm>>) -> Self {
        Self {
            alarms,
            slots,
            used: 0,
            closed: false,
            entries: FxHashMap::default(),
            by_schedule: BTreeMap::new(),
            queue: BTreeSet::new(),
            completion_rate: FxHashMap::default(),
        }
    }

    /// Adds an attempt, to be admitted now or, if it is `delayed` until a time, after [`due`](Self::due). Returns
    /// `false` if the schedule has an attempt here already, because its instance was loaded again.
    pub(crate) fn add(&mut self, token: ActivityToken, attempt: Attempt, delayed: Option<i64>) -> bool {
        let schedule = schedule_of(&attempt);
        if self.by_schedule.contains_key(&schedule) {
            return false;
        }
        self.by_schedule.insert(schedule, token);
        let place = if delayed.is_some() {
            Place::Delayed
        } else {
            Place::Queued
        };
        if delayed.is_none() {
            self.queue.insert(waiting(token, &attempt));
        }
        let mut entry = Entry {
            attempt,
            place,
            ready: Instant::now(),
            begun: None,
            alarm: None,
        };
        let at_ms = delayed.or(entry.waits_until_ms());
        entry.alarm = at_ms.map(|at_ms| self.alarms.set(at_ms, Alarm::Attempt(token)));
        self.entries.insert(token, entry);
        true
    }

    /// Handles the alarm of an attempt that waits. A delayed attempt is queued. An attempt that has waited for a slot
    /// until it must have begun is admitted, even if no slot is free, and its token is returned: all that is left to do
    /// is to tell it that its time is over.
    pub(crate) fn due(&mut self, token: ActivityToken) -> Option<ActivityToken> {
        let entry = self.entries.get_mut(&token)?;
        match entry.place {
            Place::Delayed => {
                entry.place = Place::Queued;
                entry.ready = Instant::now();
                entry.alarm = (entry.waits_until_ms()).map(|at_ms| self.alarms.set(at_ms, Alarm::Attempt(token)));
                self.queue.insert(waiting(token, &entry.attempt));
                None
            }
            Place::Queued if !self.closed && entry.alarm.take().is_some() => {
                self.queue.remove(&waiting(token, &entry.attempt));
                entry.place = Place::Admitted;
                self.used += 1;
                Some(token)
            }
            Place::Queued | Place::Admitted => None,
        }
    }

    /// Admits the next attempt that gets a slot, and returns its token.
    pub(crate) fn admit(&mut self) -> Option<ActivityToken> {
        while !self.closed && self.used < self.slots {
            let (_, token) = self.queue.pop_first()?;
            if let Some(entry) = self.entries.get_mut(&token) {
                entry.place = Place::Admitted;
                self.used += 1;
                if let Some(alarm) = entry.alarm.take() {
                    self.alarms.cancel(alarm);
                }
                return Some(token);
            }
        }
        None
    }

    /// Notes that the thread of a lane is given an attempt to run. Returns the attempt, and the time since it could
    /// begin. An attempt that begins in time may begin again later, if the thread is gone.
    pub(crate) fn begin(&mut self, token: ActivityToken, lane: LaneId, now_ms: i64) -> Option<(&Attempt, Duration)> {
        let entry = self.entries.get_mut(&token)?;
        entry.begun = Some(lane);
        if !entry.attempt.start.is_over(now_ms) || is_planted(Bug::LateAttemptBegins) {
            entry.attempt.start = StartLimit::default();
        }
        Some((&entry.attempt, entry.ready.elapsed()))
    }

    /// Notes that an attempt is about to end. Returns its origin, the name of its activity, and the time since it could
    /// begin.
    pub(crate) fn settling(&mut self, token: ActivityToken) -> Option<(Origin, String, Duration)> {
        let entry = self.entries.get(&token)?;
        let (task, now) = (&entry.attempt.task, Instant::now());
        // Inline activities are not counted: there is no limit to their names, and no other worker runs them.
        if !task.options.inline {
            match self.completion_rate.get_mut(&task.name) {
                Some(completion_rate) => completion_rate.note(now),
                None => drop(
                    self.completion_rate
                        .insert(task.name.clone(), CompletionRate::first(now)),
                ),
            }
        }
        let age = now.duration_since(entry.ready);
        Some((entry.attempt.origin.clone(), task.name.clone(), age))
    }

    /// Returns the attempts that the thread of a lane was given.
    pub(crate) fn begun_at(&self, lane: LaneId) -> impl Iterator<Item = &Attempt> {
        self.entries
            .values()
            .filter(move |e| e.begun == Some(lane))
            .map(|e| &e.attempt)
    }

    /// Returns all other attempts.
    pub(crate) fn not_begun_at(&self, lane: LaneId) -> impl Iterator<Item = &Attempt> {
        self.entries
            .values()
            .filter(move |e| e.begun != Some(lane))
            .map(|e| &e.attempt)
    }

    /// Returns the attempts that the thread of a lane was given. The thread is gone, so they are to be given to another
    /// one.
    pub(crate) fn take_from(&mut self, lane: LaneId) -> Vec<ActivityToken> {
        let mut taken: Vec<ActivityToken> = self
            .entries
            .iter_mut()
            .filter_map(|(token, entry)| {
                entry.begun.take_if(|begun| *begun == lane)?;
                entry.attempt.is_untried = false;
                Some(*token)
            })
            .collect();
        taken.sort_unstable();
        taken
    }

    /// Returns an attempt, if it is here.
    pub(crate) fn get(&self, token: ActivityToken) -> Option<&Attempt> {
        self.entries.get(&token).map(|entry| &entry.attempt)
    }

    /// Removes an attempt that has ended. `None`: the attempt was given up before.
    pub(crate) fn remove(&mut self, token: ActivityToken) -> Option<Attempt> {
        let entry = self.entries.remove(&token)?;
        self.by_schedule.remove(&schedule_of(&entry.attempt));
        self.used -= usize::from(entry.place == Place::Admitted);
        if let Some(alarm) = entry.alarm {
            self.alarms.cancel(alarm);
        }
        if entry.place == Place::Queued {
            self.queue.remove(&waiting(token, &entry.attempt));
        }
        Some(entry.attempt)
    }

    /// Gives up the attempt of a schedule. Returns the attempt if the thread of a lane has it, which must then abort
    /// it.
    pub(crate) fn cancel(
        &mut self,
        key: InstanceKey,
        execution: ExecutionId,
        scheduled: EventId,
    ) -> Option<(ActivityToken, LaneId)> {
        let token = *self.by_schedule.get(&(key, execution, scheduled))?;
        let begun = self.entries.get(&token).and_then(|entry| entry.begun);
        self.remove(token);
        begun.map(|lane| (token, lane))
    }

    /// Gives up another attempt of the same schedule that is in the way. Such an attempt is left from an instance that
    /// this worker has lost and acquired again, or belongs to a task whose end this worker has not heard of yet.
    /// `Some`: the attempt must be aborted.
    pub(crate) fn cancel_stale(&mut self, attempt: &Attempt) -> Option<(ActivityToken, LaneId)> {
        let (key, execution, scheduled) = schedule_of(attempt);
        let token = *self.by_schedule.get(&(key, execution, scheduled))?;
        let is_its_own = matches!(&attempt.origin, Origin::Instance(instance) if self.is_of(token, instance));
        (!is_its_own && !is_planted(Bug::AttemptInTheWay))
            .then(|| self.cancel(key, execution, scheduled))
            .flatten()
    }

    /// Gives up a task that was withdrawn while it runs here. By now an attempt of the instance itself may have taken
    /// its place; that one is kept. `Some`: the attempt must be aborted.
    pub(crate) fn cancel_task(&mut self, name: TaskName) -> Option<(ActivityToken, LaneId)> {
        let TaskName {
            key,
            execution,
            scheduled,
            ..
        } = name;
        let entry = self.entries.get(self.by_schedule.get(&(key, execution, scheduled))?)?;
        let is_it = matches!(&entry.attempt.origin, Origin::Task(taken) if taken.task == name);
        (is_it || is_planted(Bug::WithdrawnTaskTakesAnother))
            .then(|| self.cancel(key, execution, scheduled))
            .flatten()
    }

    /// True if an attempt of the schedule is here.
    pub(crate) fn has(&self, key: InstanceKey, execution: ExecutionId, scheduled: EventId) -> bool {
        self.by_schedule.contains_key(&(key, execution, scheduled))
    }

    /// Gives up all attempts of an instance. Returns those that must be aborted.
    pub(crate) fn cancel_all(&mut self, instance: &Instance) -> Vec<(ActivityToken, LaneId)> {
        let schedules: Vec<Schedule> = self
            .by_schedule
            .range(schedules_of(instance))
            .filter(|(_, token)| self.is_of(**token, instance))
            .map(|(schedule, _)| *schedule)
            .collect();
        schedules
            .into_iter()
            .filter_map(|(key, execution, scheduled)| self.cancel(key, execution, scheduled))
            .collect()
    }

    /// True if an attempt of the instance has a slot.
    pub(crate) fn runs_any(&self, instance: &Instance) -> bool {
        let mut of = self
            .by_schedule
            .range(schedules_of(instance))
            .filter_map(|(_, token)| self.entries.get(token).filter(|_| self.is_of(*token, instance)));
        of.any(|entry| entry.place == Place::Admitted)
    }

    /// True if the attempt is of this instance, and not of a later one with the same key.
    fn is_of(&self, token: ActivityToken, instance: &Instance) -> bool {
        self.entries
            .get(&token)
            .is_some_and(|entry| matches!(&entry.attempt.origin, Origin::Instance(of) if of.token == instance.token))
    }

    /// Stops admission: no attempt gets a slot any more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Forgets all attempts. Returns those that must be aborted.
    pub(crate) fn clear(&mut self) -> Vec<(ActivityToken, LaneId)> {
        let begun = self
            .entries
            .iter()
            .filter_map(|(token, entry)| entry.begun.map(|lane| (*token, lane)))
            .collect();
        self.entries.clear();
        self.by_schedule.clear();
        self.queue.clear();
        self.used = 0;
        begun
    }

    /// Returns the number of attempts that could be added and have a slot at once.
    pub(crate) fn room(&self) -> usize {
        self.slots.saturating_sub(self.entries.len())
    }

    /// True if one more attempt of an activity is likely to have a slot within
    /// [`SLOT_SOON`](crate::options::SLOT_SOON), behind the attempts that wait and `more` others: at least that many
    /// attempts of the activity have ended within that time lately.
    pub(crate) fn has_slot_soon(&self, name: &str, more: usize) -> bool {
        let per_period = self
            .completion_rate
            .get(name)
            .map_or(0, |completion_rate| completion_rate.per_period(Instant::now()));
        per_period > self.queue.len() + more
    }

    /// Returns the tasks among the attempts.
    pub(crate) fn taken_tasks(&self) -> Vec<TaskName> {
        let tasks = self.entries.values().filter_map(|entry| match &entry.attempt.origin {
            Origin::Task(taken) => Some(taken.task),
            Origin::Instance(_) => None,
        });
        tasks.collect()
    }

    /// Returns the number of attempts that have a slot.
    pub(crate) fn running(&self) -> usize {
        self.used
    }

    /// Returns the number of all attempts.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

fn schedule_of(attempt: &Attempt) -> Schedule {
    (attempt.origin.key(), attempt.origin.execution(), attempt.task.scheduled)
}

/// Returns the range of all schedules of an instance in its current execution.
fn schedules_of(instance: &Instance) -> RangeInclusive<Schedule> {
    let (key, execution) = (instance.key(), instance.execution);
    (key, execution, EventId(0))..=(key, execution, EventId(u64::MAX))
}

/// Returns the place of an attempt among those that wait. Tokens rise, so they keep the order of arrival.
fn waiting(token: ActivityToken, attempt: &Attempt) -> (Reverse<i32>, ActivityToken) {
    (Reverse(attempt.task.options.priority), token)
}

#[cfg(test)]
mod tests {
    use perdure_engine::{
        ActivityOptions, ActivityTask, EventRecord, ExecutionId, ExecutionStarted, MessageSeq, StateValues,
    };
    use perdure_provider::{AcquiredInstance, Epoch, ManualClock, MessagePage, Suspicion};

    use super::*;
    use crate::RuntimeOptions;
    use crate::state::Token;
    use crate::state::attempt::TakenTask;

    fn instance(token: u64) -> Arc<Instance> {
        let started = ExecutionStarted {
            name: "main".into(),
            version: "1.0.0".into(),
            input: None,
            seed: 0,
            incarnation: None,
            parent: None,
            custom_status: None,
            state: StateValues::new(),
            closed_streams: Default::default(),
            time_limit: None,
            trace: None,
        };
        let acquired = AcquiredInstance {
            key: InstanceKey(1),
            id: "i".into(),
            name: "main".into(),
            version: "1.0.0".into(),
            parent_id: None,
            tags: None,
            execution: ExecutionId::FIRST,
            epoch: Epoch(1),
            next_event_id: EventId(2),
            fresh: true,
            history: vec![EventRecord::new(EventId::FIRST, 0, started)],
            messages: MessagePage::default(),
            seen: MessageSeq(0),
            heartbeats: Vec::new(),
            tasks: Vec::new(),
            page_bytes: 0,
            suspicion: Suspicion::default(),
        };
        Instance::new(Token(token), acquired, &RuntimeOptions::default())
            .ok()
            .expect("its history can be read")
    }

    fn attempt(instance: &Arc<Instance>, scheduled: u64) -> Attempt {
        let task = ActivityTask {
            scheduled: EventId(scheduled),
            name: "a".into(),
            input: None,
            options: ActivityOptions::default(),
            deadline_ms: None,
        };
        Attempt {
            origin: Origin::Instance(Arc::clone(instance)),
            task: Arc::new(task),
            number: 1,
            is_untried: true,
            last_heartbeat: None,
            start: StartLimit::default(),
        }
    }

    fn attempts(slots: usize) -> Attempts {
        Attempts::new(slots, Arc::new(Alarms::new(Arc::new(ManualClock::new(0)))))
    }

    #[test]
    fn a_schedule_is_here_once() {
        let (mut attempts, i) = (attempts(10), instance(1));
        assert!(attempts.add(ActivityToken(1), attempt(&i, 2), None));
        assert!(!attempts.add(ActivityToken(2), attempt(&i, 2), None));
        assert_eq!((attempts.admit(), attempts.admit()), (Some(ActivityToken(1)), None));
        assert!(attempts.remove(ActivityToken(1)).is_some());
        assert!(attempts.remove(ActivityToken(1)).is_none());
        assert!(attempts.add(ActivityToken(3), attempt(&i, 2), None));
    }

    fn task_attempt(execution: u64, scheduled: u64) -> Attempt {
        let task = TaskName {
            key: InstanceKey(1),
            execution: ExecutionId(execution),
            scheduled: EventId(scheduled),
            attempt: 1,
        };
        let origin = Origin::Task(Arc::new(TakenTask {
            task,
            instance_id: "i".into(),
            orchestration: "main".into(),
            version: "1.0.0".into(),
            tags: None,
            incarnation: None,
            heartbeats: parking_lot::Mutex::default(),
        }));
        Attempt {
            origin,
            ..attempt(&instance(1), scheduled)
        }
    }

    /// Regression test. An instance had an activity run by another worker, gave it up and continued as new, and its
    /// next execution scheduled an activity with the same event number. The other worker took the new task before it
    /// had seen that the first one was given up. It found an attempt of that schedule in its table and dropped the new
    /// task. The store listed the task as that worker's for as long as the worker lived, and the instance waited for
    /// ever.
    #[test]
    fn attempts_of_two_executions_with_the_same_event_differ() {
        let mut attempts = attempts(10);
        let (former, next) = (ActivityToken(1), ActivityToken(2));
        assert!(attempts.add(former, task_attempt(1, 2), None));
        assert_eq!(attempts.admit(), Some(former));
        assert!(attempts.begin(former, LaneId(0), 0).is_some());
        assert!(attempts.add(next, task_attempt(2, 2), None));
        assert_eq!(attempts.admit(), Some(next));
        let aborted = attempts.cancel(InstanceKey(1), ExecutionId(1), EventId(2));
        assert_eq!(aborted, Some((former, LaneId(0))));
        assert!(attempts.has(InstanceKey(1), ExecutionId(2), EventId(2)));
        assert_eq!((attempts.running(), attempts.len()), (1, 1));
    }

    #[test]
    fn a_delayed_one_waits_for_its_time_and_can_be_given_up_before() {
        let (mut attempts, i) = (attempts(10), instance(1));
        assert!(attempts.add(ActivityToken(1), attempt(&i, 2), Some(5)));
        assert_eq!(attempts.admit(), None);
        attempts.due(ActivityToken(1));
        attempts.due(ActivityToken(1));
        assert_eq!((attempts.admit(), attempts.admit()), (Some(ActivityToken(1)), None));
        assert!(attempts.add(ActivityToken(2), attempt(&i, 3), Some(5)));
        assert_eq!(
            attempts.cancel(i.key(), ExecutionId::FIRST, EventId(3)),
            None,
            "it does not run"
        );
        attempts.due(ActivityToken(2));
        assert_eq!(attempts.admit(), None);
    }

    #[test]
    fn an_instance_takes_its_own_attempts_with_it_and_not_those_of_the_next_with_its_key() {
        let (mut attempts, old, new) = (attempts(1), instance(1), instance(2));
        for (token, i) in [(1, &old), (2, &old), (3, &new)] {
            assert!(attempts.add(ActivityToken(token), attempt(i, 1 + token), None));
        }
        assert_eq!(attempts.admit(), Some(ActivityToken(1)));
        assert!(attempts.begin(ActivityToken(1), LaneId(3), 0).is_some());
        assert_eq!(attempts.cancel_all(&old), [(ActivityToken(1), LaneId(3))]);
        assert_eq!((attempts.admit(), attempts.len()), (Some(ActivityToken(3)), 1));
    }

    #[test]
    fn an_attempt_of_a_lost_instance_makes_way_for_the_same_attempt() {
        let (mut attempts, lost, again) = (attempts(1), instance(1), instance(2));
        assert!(attempts.add(ActivityToken(1), attempt(&lost, 2), None));
        assert_eq!(attempts.admit(), Some(ActivityToken(1)));
        assert!(attempts.begin(ActivityToken(1), LaneId(3), 0).is_some());
        assert_eq!(attempts.cancel_stale(&attempt(&lost, 2)), None, "it is its own");
        assert_eq!(
            attempts.cancel_stale(&attempt(&again, 2)),
            Some((ActivityToken(1), LaneId(3)))
        );
        assert!(attempts.add(ActivityToken(2), attempt(&again, 2), None));
        assert_eq!(attempts.admit(), Some(ActivityToken(2)));
    }

    #[test]
    fn an_attempt_that_another_thread_had_is_not_untried() {
        let (mut attempts, i) = (attempts(1), instance(1));
        let token = ActivityToken(1);
        assert!(attempts.add(token, attempt(&i, 2), None));
        assert_eq!(attempts.admit(), Some(token));
        let is_untried = |begun: Option<(&Attempt, Duration)>| begun.map(|(attempt, _)| attempt.is_untried);
        assert_eq!(is_untried(attempts.begin(token, LaneId(3), 0)), Some(true));
        assert_eq!(attempts.take_from(LaneId(3)), [token]);
        assert_eq!(is_untried(attempts.begin(token, LaneId(4), 0)), Some(false));
    }

    /// Regression test: the queue kept the tokens of attempts that were given up for as long as no attempt got a slot.
    #[test]
    fn the_queue_does_not_grow_behind_one_that_never_ends() {
        let (mut attempts, i) = (attempts(1), instance(1));
        for token in 1..10_000 {
            assert!(attempts.add(ActivityToken(token), attempt(&i, token), None));
            attempts.admit();
            if token > 1 {
                attempts.cancel(i.key(), ExecutionId::FIRST, EventId(token));
            }
        }
        assert_eq!(attempts.len(), 1);
        assert_eq!(attempts.queue.len(), 0);
    }

    #[test]
    fn nothing_is_admitted_once_it_is_closed() {
        let (mut attempts, i) = (attempts(10), instance(1));
        assert!(attempts.add(ActivityToken(1), attempt(&i, 2), None));
        attempts.close();
        assert_eq!(attempts.admit(), None);
        assert_eq!((attempts.clear(), attempts.len()), (vec![], 0));
    }
}
