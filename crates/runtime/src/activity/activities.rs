//! Activities of the instances that this worker owns: those that run, those that wait for a slot, those that wait for their retry.

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

use crate::activity::attempt::{ActivityToken, Attempt, Origin};
use crate::activity::turnover::Turnover;
use crate::instance::Instance;
use crate::platform::alarms::{AlarmId, Alarms};
use crate::worker::alarm::Alarm;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It waits for its time.
    Delayed,
    /// It waits for a slot.
    Queued,
    /// It has a slot.
    Admitted,
}

struct Entry {
    attempt: Attempt,
    place: Place,
    /// When it could begin, once it can.
    ready: Instant,
    /// The lane whose thread has it.
    begun: Option<LaneId>,
    /// While it waits: when it is to begin or, once it waits for a slot alone, when it is over without one.
    alarm: Option<AlarmId>,
}

/// What an attempt is of. Each execution of an instance counts its events from 1, and what was asked for in one may still run here when the
/// next one asks for something.
type Schedule = (InstanceKey, ExecutionId, EventId);

/// The table of attempts. What it returns, its owner must carry out.
pub(crate) struct Activities {
    alarms: Arc<Alarms<Alarm>>,
    slots: usize,
    used: usize,
    /// No attempt gets a slot any more.
    closed: bool,
    entries: FxHashMap<ActivityToken, Entry>,
    by_schedule: BTreeMap<Schedule, ActivityToken>,
    /// Those that wait for a slot, by priority and then as they came.
    queue: BTreeSet<(Reverse<i32>, ActivityToken)>,
    /// By the name of an activity that is registered here, or was.
    turnover: FxHashMap<String, Turnover>,
}

impl Activities {
    pub(crate) fn new(slots: usize, alarms: Arc<Alarms<Alarm>>) -> Self {
        Self {
            alarms,
            slots,
            used: 0,
            closed: false,
            entries: FxHashMap::default(),
            by_schedule: BTreeMap::new(),
            queue: BTreeSet::new(),
            turnover: FxHashMap::default(),
        }
    }

    /// Take an attempt in, to be admitted now or, when it is `delayed` until a time, by [`due`](Self::due). `false`: it is here
    /// already (its instance was loaded again).
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
        let at_ms = delayed.or(attempt.task.deadline_ms);
        let alarm = at_ms.map(|at_ms| self.alarms.set(at_ms, Alarm::Attempt(token)));
        if delayed.is_none() {
            self.queue.insert(waiting(token, &attempt));
        }
        self.entries.insert(
            token,
            Entry {
                attempt,
                place,
                ready: Instant::now(),
                begun: None,
                alarm,
            },
        );
        true
    }

    /// The alarm of an attempt that waits. One that was delayed is queued from now on. One that has waited for a slot until its
    /// deadline is returned: it has nothing left but to be told so, for which it needs none.
    pub(crate) fn due(&mut self, token: ActivityToken) -> Option<ActivityToken> {
        let entry = self.entries.get_mut(&token)?;
        match entry.place {
            Place::Delayed => {
                entry.place = Place::Queued;
                entry.ready = Instant::now();
                let deadline_ms = entry.attempt.task.deadline_ms;
                entry.alarm = deadline_ms.map(|at_ms| self.alarms.set(at_ms, Alarm::Attempt(token)));
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

    /// The next attempt that gets a slot.
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

    /// The thread of a lane is given an attempt to run, which could begin so long ago.
    pub(crate) fn begin(&mut self, token: ActivityToken, lane: LaneId) -> Option<(&Attempt, Duration)> {
        let entry = self.entries.get_mut(&token)?;
        entry.begun = Some(lane);
        Some((&entry.attempt, entry.ready.elapsed()))
    }

    /// An attempt is about to be over: who waits for it, and how long ago it could begin.
    pub(crate) fn settling(&mut self, token: ActivityToken) -> Option<(Origin, Duration)> {
        let entry = self.entries.get(&token)?;
        let (task, now) = (&entry.attempt.task, Instant::now());
        // The names of inline ones are without number, and nobody else runs them.
        if !task.options.inline {
            match self.turnover.get_mut(&task.name) {
                Some(turnover) => turnover.note(now),
                None => drop(self.turnover.insert(task.name.clone(), Turnover::first(now))),
            }
        }
        Some((entry.attempt.origin.clone(), now.duration_since(entry.ready)))
    }

    /// Attempts that a lane's thread was given.
    pub(crate) fn begun_at(&self, lane: LaneId) -> impl Iterator<Item = &Attempt> {
        self.entries
            .values()
            .filter(move |e| e.begun == Some(lane))
            .map(|e| &e.attempt)
    }

    /// All others.
    pub(crate) fn not_begun_at(&self, lane: LaneId) -> impl Iterator<Item = &Attempt> {
        self.entries
            .values()
            .filter(move |e| e.begun != Some(lane))
            .map(|e| &e.attempt)
    }

    /// The thread of a lane is gone: what it was given is to be given to another one.
    pub(crate) fn take_from(&mut self, lane: LaneId) -> Vec<ActivityToken> {
        let mut taken: Vec<ActivityToken> = self
            .entries
            .iter_mut()
            .filter_map(|(token, entry)| entry.begun.take_if(|begun| *begun == lane).map(|_| *token))
            .collect();
        taken.sort_unstable();
        taken
    }

    /// An attempt that is here.
    pub(crate) fn get(&self, token: ActivityToken) -> Option<&Attempt> {
        self.entries.get(&token).map(|entry| &entry.attempt)
    }

    /// An attempt is over; `None`: nobody waits for it any more.
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

    /// Give one schedule up. Its attempt, when a lane's thread has it, which must abort it.
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

    /// Give up an attempt of the same schedule that is another's: left of an instance that this worker has lost and had again, or of a task,
    /// before it has heard of that. `Some`: it must be aborted.
    pub(crate) fn make_way(&mut self, attempt: &Attempt) -> Option<(ActivityToken, LaneId)> {
        let (key, execution, scheduled) = schedule_of(attempt);
        let token = *self.by_schedule.get(&(key, execution, scheduled))?;
        let is_its_own = matches!(&attempt.origin, Origin::Instance(instance) if self.is_of(token, instance));
        (!is_its_own && !is_planted(Bug::AttemptInTheWay))
            .then(|| self.cancel(key, execution, scheduled))
            .flatten()
    }

    /// Nobody waits any more for a task that runs here; by now an attempt of the instance itself may have taken its place. `Some`: it must be
    /// aborted.
    pub(crate) fn cancel_borrowed(&mut self, name: TaskName) -> Option<(ActivityToken, LaneId)> {
        let TaskName {
            key,
            execution,
            scheduled,
            ..
        } = name;
        let entry = self.entries.get(self.by_schedule.get(&(key, execution, scheduled))?)?;
        let is_it = matches!(&entry.attempt.origin, Origin::Task(borrowed) if borrowed.task == name);
        (is_it || is_planted(Bug::WithdrawnTaskTakesAnother))
            .then(|| self.cancel(key, execution, scheduled))
            .flatten()
    }

    /// Whether an attempt of a schedule is here.
    pub(crate) fn has(&self, key: InstanceKey, execution: ExecutionId, scheduled: EventId) -> bool {
        self.by_schedule.contains_key(&(key, execution, scheduled))
    }

    /// Give all of an instance up. The attempts that must be aborted.
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

    /// Whether an attempt of an instance has a slot.
    pub(crate) fn runs_any(&self, instance: &Instance) -> bool {
        let mut of = self
            .by_schedule
            .range(schedules_of(instance))
            .filter_map(|(_, token)| self.entries.get(token).filter(|_| self.is_of(*token, instance)));
        of.any(|entry| entry.place == Place::Admitted)
    }

    /// Not of a later instance with the same key.
    fn is_of(&self, token: ActivityToken, instance: &Instance) -> bool {
        self.entries
            .get(&token)
            .is_some_and(|entry| matches!(&entry.attempt.origin, Origin::Instance(of) if of.token == instance.token))
    }

    /// Admit nothing more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Forget everything. The attempts that must be aborted.
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

    /// How many more attempts could have a slot at once.
    pub(crate) fn room(&self) -> usize {
        self.slots.saturating_sub(self.entries.len())
    }

    /// Whether one more attempt of an activity would have a slot within [`SLOT_SOON`](crate::options::SLOT_SOON), behind those that wait and
    /// `more`: so many of it have ended in that time lately.
    pub(crate) fn has_slot_soon(&self, name: &str, more: usize) -> bool {
        let lately = self
            .turnover
            .get(name)
            .map_or(0, |turnover| turnover.lately(Instant::now()));
        lately > self.queue.len() + more
    }

    /// The tasks among them.
    pub(crate) fn borrowed(&self) -> Vec<TaskName> {
        let tasks = self.entries.values().filter_map(|entry| match &entry.attempt.origin {
            Origin::Task(borrowed) => Some(borrowed.task),
            Origin::Instance(_) => None,
        });
        tasks.collect()
    }

    /// Attempts that have a slot.
    pub(crate) fn running(&self) -> usize {
        self.used
    }

    /// Attempts in all.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

fn schedule_of(attempt: &Attempt) -> Schedule {
    (attempt.origin.key(), attempt.origin.execution(), attempt.task.scheduled)
}

/// All that an instance can ask for in the execution that it is in.
fn schedules_of(instance: &Instance) -> RangeInclusive<Schedule> {
    let (key, execution) = (instance.key(), instance.execution);
    (key, execution, EventId(0))..=(key, execution, EventId(u64::MAX))
}

/// Its place among those that wait: tokens rise.
fn waiting(token: ActivityToken, attempt: &Attempt) -> (Reverse<i32>, ActivityToken) {
    (Reverse(attempt.task.options.priority), token)
}

#[cfg(test)]
mod tests {
    use perdure_engine::{ActivityOptions, ActivityTask, Event, EventRecord, ExecutionId, MessageSeq};
    use perdure_provider::{AcquiredInstance, Epoch, ManualClock, MessagePage, Suspicion};

    use super::*;
    use crate::RuntimeOptions;
    use crate::activity::attempt::Borrowed;
    use crate::instance::Token;

    fn instance(token: u64) -> Arc<Instance> {
        let started = Event::ExecutionStarted {
            name: "main".into(),
            version: "1.0.0".into(),
            input: None,
            seed: 0,
            incarnation: None,
            parent: None,
            custom_status: None,
            trace: None,
        };
        let acquired = AcquiredInstance {
            key: InstanceKey(1),
            id: "i".into(),
            name: "main".into(),
            version: "1.0.0".into(),
            parent_id: None,
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
            last_heartbeat: None,
        }
    }

    fn activities(slots: usize) -> Activities {
        Activities::new(slots, Arc::new(Alarms::new(Arc::new(ManualClock::new(0)))))
    }

    #[test]
    fn a_schedule_is_here_once() {
        let (mut activities, i) = (activities(10), instance(1));
        assert!(activities.add(ActivityToken(1), attempt(&i, 2), None));
        assert!(!activities.add(ActivityToken(2), attempt(&i, 2), None));
        assert_eq!((activities.admit(), activities.admit()), (Some(ActivityToken(1)), None));
        assert!(activities.remove(ActivityToken(1)).is_some());
        assert!(activities.remove(ActivityToken(1)).is_none());
        assert!(activities.add(ActivityToken(3), attempt(&i, 2), None));
    }

    fn borrowed(execution: u64, scheduled: u64) -> Attempt {
        let task = TaskName {
            key: InstanceKey(1),
            execution: ExecutionId(execution),
            scheduled: EventId(scheduled),
            attempt: 1,
        };
        let origin = Origin::Task(Arc::new(Borrowed {
            task,
            instance_id: "i".into(),
            orchestration: "main".into(),
            incarnation: None,
            heartbeats: parking_lot::Mutex::default(),
        }));
        Attempt {
            origin,
            ..attempt(&instance(1), scheduled)
        }
    }

    /// An instance had an activity run by another worker, gave it up and continued as new, and its next execution asked for one with the
    /// event of the same number. The other worker took that as well before it had seen that the first was given up, found that it had
    /// "it" already, and forgot it: it was that worker's in the store for as long as that lived, and the instance waited for ever.
    #[test]
    fn what_two_executions_asked_for_with_the_same_event_is_not_the_same() {
        let mut activities = activities(10);
        let (former, next) = (ActivityToken(1), ActivityToken(2));
        assert!(activities.add(former, borrowed(1, 2), None));
        assert_eq!(activities.admit(), Some(former));
        assert!(activities.begin(former, LaneId(0)).is_some());
        assert!(activities.add(next, borrowed(2, 2), None));
        assert_eq!(activities.admit(), Some(next));
        let aborted = activities.cancel(InstanceKey(1), ExecutionId(1), EventId(2));
        assert_eq!(aborted, Some((former, LaneId(0))));
        assert!(activities.has(InstanceKey(1), ExecutionId(2), EventId(2)));
        assert_eq!((activities.running(), activities.len()), (1, 1));
    }

    #[test]
    fn a_delayed_one_waits_for_its_time_and_can_be_given_up_before() {
        let (mut activities, i) = (activities(10), instance(1));
        assert!(activities.add(ActivityToken(1), attempt(&i, 2), Some(5)));
        assert_eq!(activities.admit(), None);
        activities.due(ActivityToken(1));
        activities.due(ActivityToken(1));
        assert_eq!((activities.admit(), activities.admit()), (Some(ActivityToken(1)), None));
        assert!(activities.add(ActivityToken(2), attempt(&i, 3), Some(5)));
        assert_eq!(
            activities.cancel(i.key(), ExecutionId::FIRST, EventId(3)),
            None,
            "it does not run"
        );
        activities.due(ActivityToken(2));
        assert_eq!(activities.admit(), None);
    }

    #[test]
    fn an_instance_takes_its_own_attempts_with_it_and_not_those_of_the_next_with_its_key() {
        let (mut activities, old, new) = (activities(1), instance(1), instance(2));
        for (token, i) in [(1, &old), (2, &old), (3, &new)] {
            assert!(activities.add(ActivityToken(token), attempt(i, 1 + token), None));
        }
        assert_eq!(activities.admit(), Some(ActivityToken(1)));
        assert!(activities.begin(ActivityToken(1), LaneId(3)).is_some());
        assert_eq!(activities.cancel_all(&old), [(ActivityToken(1), LaneId(3))]);
        assert_eq!((activities.admit(), activities.len()), (Some(ActivityToken(3)), 1));
    }

    #[test]
    fn what_a_lost_instance_left_makes_way_for_the_same_attempt() {
        let (mut activities, lost, again) = (activities(1), instance(1), instance(2));
        assert!(activities.add(ActivityToken(1), attempt(&lost, 2), None));
        assert_eq!(activities.admit(), Some(ActivityToken(1)));
        assert!(activities.begin(ActivityToken(1), LaneId(3)).is_some());
        assert_eq!(activities.make_way(&attempt(&lost, 2)), None, "it is its own");
        assert_eq!(
            activities.make_way(&attempt(&again, 2)),
            Some((ActivityToken(1), LaneId(3)))
        );
        assert!(activities.add(ActivityToken(2), attempt(&again, 2), None));
        assert_eq!(activities.admit(), Some(ActivityToken(2)));
    }

    /// Names of what was given up stayed in the queue for as long as nothing got a slot.
    #[test]
    fn the_queue_does_not_grow_behind_one_that_never_ends() {
        let (mut activities, i) = (activities(1), instance(1));
        for token in 1..10_000 {
            assert!(activities.add(ActivityToken(token), attempt(&i, token), None));
            activities.admit();
            if token > 1 {
                activities.cancel(i.key(), ExecutionId::FIRST, EventId(token));
            }
        }
        assert_eq!(activities.len(), 1);
        assert_eq!(activities.queue.len(), 0);
    }

    #[test]
    fn nothing_is_admitted_once_it_is_closed() {
        let (mut activities, i) = (activities(10), instance(1));
        assert!(activities.add(ActivityToken(1), attempt(&i, 2), None));
        activities.close();
        assert_eq!(activities.admit(), None);
        assert_eq!((activities.clear(), activities.len()), (vec![], 0));
    }
}
