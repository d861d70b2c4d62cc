//! The activities of a worker: which attempt runs, which one waits, and the jobs that lanes get for them.
//!
//! Lock order: the core of an instance, then the attempts, then the release requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use perdure_engine::{AttemptResult, Bug, Effect, is_planted};
use perdure_scheduler::{Class, LaneId};
use tokio::sync::Notify;

use crate::activity::attempts::Attempts;
use crate::lane::job::{ActivityJob, Queued};
use crate::platform::alarms::Alarms;
use crate::shared::Shared;
use crate::state::Instance;
use crate::state::alarm::Alarm;
use crate::state::attempt::{AbortReason, ActivityToken, Attempt, Origin, StartLimit, TakenTask};
use crate::state::heartbeats::Heartbeats;
use crate::worker::Worker;
use crate::worker::owned::Owned;
use crate::worker::release_requests::OpenRequest;
use crate::worker::slots::Slots;

/// The attempts that a worker runs for its own instances and for those of others.
pub(crate) struct Activities {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) alarms: Arc<Alarms<Alarm>>,
    pub(crate) attempts: Mutex<Attempts>,
    pub(crate) tasks_wanted: Notify,
    /// The slots of queues that tasks wait for.
    pub(crate) queue_slots: Slots,
    /// The time at which tasks are looked for next, ms since 1970, if that is known.
    pub(crate) next_tasks_ms: Mutex<Option<i64>>,
    /// True while tasks may wait in the store for a slot here.
    pub(crate) tasks_may_wait: AtomicBool,
    /// The activities that were offered because they are not registered here, by name, until it is checked if another
    /// worker has them.
    pub(crate) unregistered: Mutex<BTreeSet<String>>,
    /// The activities that other workers have, or may have, by name.
    pub(crate) registered_elsewhere: Mutex<BTreeSet<String>>,
    /// True if other workers use the store.
    pub(crate) has_other_workers: AtomicBool,
}

impl Activities {
    pub(crate) fn new(worker: Arc<Worker>, alarms: Arc<Alarms<Alarm>>) -> Arc<Self> {
        let shared = Arc::clone(&worker.shared);
        let slots = shared.options.activity_concurrency;
        Arc::new(Self {
            shared,
            worker,
            attempts: Mutex::new(Attempts::new(slots, Arc::clone(&alarms))),
            alarms,
            tasks_wanted: Notify::new(),
            queue_slots: Slots::default(),
            next_tasks_ms: Mutex::default(),
            tasks_may_wait: AtomicBool::new(false),
            unregistered: Mutex::default(),
            registered_elsewhere: Mutex::default(),
            has_other_workers: AtomicBool::new(false),
        })
    }

    // ---- attempts begin ----

    /// Carries out the effects of a turn that is durable. The caller holds the lock of the instance's core, and the
    /// instance was not forgotten: a thread that forgets it from here on finds the attempts.
    pub(crate) fn carry_out(&self, instance: &Arc<Instance>, heartbeats: &Heartbeats, effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        let now = self.worker.now_ms();
        let mut attempts = self.attempts.lock();
        for effect in effects {
            match effect {
                Effect::StartActivity {
                    task,
                    attempt,
                    not_before_ms,
                    is_untried,
                } => {
                    let start = StartLimit {
                        at_ms: task.start_by_ms(not_before_ms.max(now)),
                        is_over: false,
                    };
                    let attempt = Attempt {
                        start,
                        origin: Origin::Instance(Arc::clone(instance)),
                        last_heartbeat: heartbeats.latest(task.scheduled),
                        task,
                        number: attempt,
                        is_untried,
                    };
                    let delayed = (not_before_ms > now).then_some(not_before_ms);
                    self.take_on(&mut attempts, attempt, delayed);
                }
                Effect::AbortActivity { scheduled } => {
                    if let Some((token, lane)) = attempts.cancel(instance.key(), instance.execution, scheduled) {
                        self.shared
                            .push(Class::First, Queued::Abort(token, AbortReason::Cancelled, lane));
                    }
                }
            }
        }
        self.admit(&mut attempts);
    }

    /// Adds an attempt that is to be run here, unless it is here already.
    pub(crate) fn take_on(&self, attempts: &mut Attempts, attempt: Attempt, delayed: Option<i64>) {
        if let Some((token, lane)) = attempts.cancel_stale(&attempt) {
            self.shared
                .push(Class::First, Queued::Abort(token, AbortReason::LeaseLost, lane));
        }
        attempts.add(self.shared.next_activity(), attempt, delayed);
    }

    /// Gives the free slots to attempts that wait.
    pub(crate) fn admit(&self, attempts: &mut Attempts) {
        while let Some(token) = attempts.admit() {
            self.hand_out(attempts, token);
        }
        if !is_planted(Bug::SlotsGivenBackInSilence) {
            self.look_for_tasks(attempts);
        }
    }

    /// Wakes the task that acquires tasks, because tasks in the store may wait for the slot that is free now.
    fn look_for_tasks(&self, attempts: &Attempts) {
        // The condition is the one under which that task acquires. Otherwise its own work would wake it again and
        // again.
        if self.tasks_may_wait.load(Ordering::Acquire) && self.worker.takes_work() && attempts.room() > 0 {
            self.tasks_wanted.notify_one();
        }
    }

    /// Queues the call of an attempt that has a slot.
    pub(crate) fn hand_out(&self, attempts: &Attempts, token: ActivityToken) {
        if let Some(job) = self.job_of(attempts, token) {
            self.shared.push(Class::Later, job);
        }
    }

    fn job_of(&self, attempts: &Attempts, token: ActivityToken) -> Option<Queued> {
        let place = self.shared.place_of_attempt(attempts.get(token)?);
        Some(Queued::Activity(token, place))
    }

    /// Hands an attempt that has a slot to the thread of a lane. `None`: the attempt is over, or must not begin now.
    pub(crate) fn begin(&self, token: ActivityToken, lane: LaneId) -> Option<ActivityJob> {
        // A process that stood still may come here before it hears that it was taken over. Its session is about to end.
        if !self.worker.lease.holds() {
            return None;
        }
        let mut attempts = self.attempts.lock();
        if self.withholds(&attempts, token) {
            return None;
        }
        let now_ms = self.worker.now_ms();
        let (attempt, waited) = attempts.begin(token, lane, now_ms)?;
        self.shared.metrics.queue_age.note(waited);
        let Attempt {
            origin, task, start, ..
        } = attempt;
        let owner = match origin {
            Origin::Instance(instance) => Some(instance.token),
            Origin::Task(_) => None,
        };
        let options = &task.options;
        let is_late = start.is_over(now_ms);
        let is_past_total = is_late && task.deadline_ms.is_some() && task.deadline_ms == start.at_ms;
        // The clock of the store may have found the time over a little earlier than this one.
        let left_max_ms = if is_past_total { 0 } else { i64::MAX };
        let left_ms = |deadline_ms: i64| deadline_ms.saturating_sub(now_ms).min(left_max_ms);
        let schedule_to_start_timeout_ms = options.schedule_to_start_timeout_ms;
        Some(ActivityJob {
            token,
            name: task.name.clone(),
            input: task.input.clone(),
            attempt: attempt.number,
            is_untried: attempt.is_untried,
            timeout_ms: options.timeout_ms,
            schedule_to_start_timeout_ms: schedule_to_start_timeout_ms.filter(|_| is_late && !is_past_total),
            total_timeout: options.total_timeout_ms.zip(task.deadline_ms.map(left_ms)),
            heartbeat_timeout_ms: options.heartbeat_timeout_ms,
            last_heartbeat: attempt.last_heartbeat.clone(),
            owner,
            inline: owner.filter(|_| options.inline),
            queue: options.queue.clone(),
            session: options.session.clone(),
            trace: options.trace.clone(),
            instance_id: origin.instance_id().to_owned(),
            execution: origin.execution().0,
            incarnation: origin.incarnation(),
            orchestration: origin.orchestration().to_owned(),
            version: origin.version().to_owned(),
            tags: origin.tags().map(str::to_owned),
            scheduled: task.scheduled,
        })
    }

    /// True if an attempt that is about to begin has to wait for the answer to a release request (B1). The request
    /// then withholds the attempt.
    fn withholds(&self, attempts: &Attempts, token: ActivityToken) -> bool {
        let Some(attempt) = attempts.get(token) else {
            return false;
        };
        let mut requests = self.worker.releases.requests.lock();
        let takes = |open: &&mut OpenRequest| open.kept.as_ref().is_some_and(|kept| !kept.has(&attempt.origin));
        let asked = requests.open.iter_mut().find(takes);
        asked.map(|open| open.withheld.push(token)).is_some()
    }

    // ---- attempts end ----

    /// Counts an attempt that is about to end. Returns its origin.
    pub(crate) fn settling(&self, token: ActivityToken, result: &AttemptResult) -> Option<Origin> {
        let (origin, name, age) = self.attempts.lock().settling(token)?;
        let counters = &self.shared.metrics;
        counters.step_latency.note(age);
        counters.attempt_ended(&name, result);
        Some(origin)
    }

    /// Ends the attempt of a task, and reports its result.
    pub(crate) fn settle_task(self: &Arc<Self>, token: ActivityToken, task: &TakenTask, result: AttemptResult) {
        // This comes first: a shutdown or a comparison that does not find the attempt any more finds these two.
        let writing = self.worker.begin_operation();
        let _releasing = self.worker.releasing(Owned::Task(task.task));
        if self.attempts.lock().remove(token).is_some() {
            self.report(task, result, writing);
        }
    }

    /// Gives the slot of an attempt that has ended to the next one, from the thread of `lane`. Returns `true` if the
    /// lane was parked and has work now.
    pub(crate) fn refill(&self, lane: LaneId) -> bool {
        let mut has_work = false;
        let mut attempts = self.attempts.lock();
        while let Some(job) = attempts.admit().and_then(|token| self.job_of(&attempts, token)) {
            has_work |= self.shared.push_from(lane, Class::Later, job);
        }
        self.look_for_tasks(&attempts);
        has_work
    }

    /// Gives up all attempts of an instance.
    pub(crate) fn abort_all(&self, instance: &Instance, reason: AbortReason) {
        let mut attempts = self.attempts.lock();
        for (token, lane) in attempts.cancel_all(instance) {
            self.shared.push(Class::First, Queued::Abort(token, reason, lane));
        }
        self.admit(&mut attempts);
    }

    /// Admits the attempts whose alarm has gone off.
    pub(crate) fn due(&self, token: ActivityToken) {
        let mut attempts = self.attempts.lock();
        if let Some(expired) = attempts.due(token) {
            self.hand_out(&attempts, expired);
        }
        self.admit(&mut attempts);
    }

    /// Forgets all attempts, because the session ends, and aborts those that run.
    pub(crate) fn end(&self, reason: AbortReason) {
        for (token, lane) in self.attempts.lock().clear() {
            self.shared.push(Class::First, Queued::Abort(token, reason, lane));
        }
    }
}
