//! A session: one start of a runtime, with a worker, the instances that it owns, and their activities.
//!
//! A session ends when the runtime shuts down or loses its lease. A runtime that lost its lease starts another session
//! by itself.
//!
//! Lock order: table, then starting or probations, then an instance's core, then activities, then the open requests to give
//! back. A lane and the alarms may be called with any of them locked; the committer with none, because its provider may
//! answer at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use perdure_engine::{AttemptResult, Bug, Completion, Effect, EventId, is_planted};
use perdure_provider::{
    AcquiredInstance, Clock, Epoch, InstanceKey, MessagePage, NewInstance, NextExecution, Revoked, Suspicion, WorkerId,
};
use perdure_scheduler::{Class, Drain, LaneId, NextAction, Process};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::activity::attempts::Activities;
use crate::client::store::LocalWorker;
use crate::commit::committer::WriteDone;
use crate::instance::starts::Starting;
use crate::instance::suspects::Probations;
use crate::instance::table::Table;
use crate::lane::job::Queued;
use crate::log::Level;
use crate::options::{LOAD_BYTES_MAX, OWNED_INSTANCES_MAX};
use crate::platform::alarms::Alarms;
use crate::platform::byte_budget::ByteBudget;
use crate::platform::panics::{contained, guarded};
use crate::report::Report;
use crate::shared::{MAIN, Shared};
use crate::state::alarm::Alarm;
use crate::state::attempt::{AbortReason, ActivityToken, Attempt, Origin};
use crate::state::heartbeats::Heartbeats;
use crate::state::{Instance, Needs};
use crate::worker::lease::Lease;
use crate::worker::owned::{Owned, Ownership};
use crate::worker::release_requests::GivingBack;

pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: WorkerId,
    pub(crate) lease: Lease,
    pub(crate) table: Mutex<Table>,
    pub(crate) activities: Mutex<Activities>,
    /// The instances whose start is not written yet.
    pub(crate) starting: Mutex<Starting>,
    pub(crate) alarms: Arc<Alarms<Alarm>>,
    pub(crate) probations: Mutex<Probations>,
    pub(crate) ownership: Ownership,
    /// The histories that were read and are not replayed yet.
    pub(crate) loads: Arc<ByteBudget>,
    /// The instances that were terminated or suspended while a request for work is under way, each with the last epoch
    /// that this concerns.
    acquiring: Mutex<Option<FxHashMap<InstanceKey, Epoch>>>,
    /// The time of the next look for due instances, ms since 1970. `None`: no look until something asks for one.
    pub(crate) next_acquire_ms: Mutex<Option<i64>>,
    pub(crate) acquire_wanted: Notify,
    pub(crate) inbox_wanted: Notify,
    pub(crate) renewal_wanted: Notify,
    /// Notified when the [cache](crate::instance::cache) holds something again.
    pub(crate) cache_used: Notify,
    pub(crate) tasks_wanted: Notify,
    pub(crate) giving_back: GivingBack,
    /// True while tasks may wait in the store for a slot here.
    pub(crate) wants_room: AtomicBool,
    /// The activities that were offered because they are not registered here, by name, until it is checked if another
    /// worker has them.
    pub(crate) strange: Mutex<BTreeSet<String>>,
    /// The activities that other workers have, or may have, by name.
    pub(crate) expected: Mutex<BTreeSet<String>>,
    /// True if other workers use the store.
    pub(crate) has_company: AtomicBool,
    /// The number of operations that the store [is at](Self::at_store) and that a shutdown waits for.
    at_store: Mutex<usize>,
    /// Notified when an orchestration was registered that suspended instances may wait for.
    pub(crate) resume_wanted: Notify,
    /// A drain that has begun: the session takes no new work; see
    /// [`Runtime::begin_shutdown`](crate::Runtime::begin_shutdown).
    pub(crate) draining: Drain,
    ended: AtomicBool,
    over: Notify,
    /// The tasks of the session; aborted when it ends.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// An operation of the store that a shutdown waits for. It is over when this is dropped.
pub(crate) struct AtStore(Arc<Session>);

impl Drop for AtStore {
    fn drop(&mut self) {
        *self.0.at_store.lock() -= 1;
        self.0.draining.tell();
    }
}

impl Session {
    /// Returns the session of a worker. Its registration was asked for at `asked`.
    pub(crate) fn new(shared: Arc<Shared>, worker: WorkerId, asked: Instant) -> Arc<Self> {
        let clock = Arc::clone(&shared.clock);
        let slots = shared.options.activity_concurrency;
        let alarms = Arc::new(Alarms::new(clock));
        let lease = Lease::new(shared.options.lease, asked);
        Arc::new(Self {
            shared,
            worker,
            lease,
            table: Mutex::default(),
            activities: Mutex::new(Activities::new(slots, Arc::clone(&alarms))),
            starting: Mutex::default(),
            alarms,
            probations: Mutex::default(),
            ownership: Ownership::default(),
            loads: ByteBudget::new(LOAD_BYTES_MAX),
            acquiring: Mutex::default(),
            next_acquire_ms: Mutex::new(Some(0)),
            acquire_wanted: Notify::new(),
            inbox_wanted: Notify::new(),
            renewal_wanted: Notify::new(),
            cache_used: Notify::new(),
            tasks_wanted: Notify::new(),
            giving_back: GivingBack::default(),
            wants_room: AtomicBool::new(false),
            strange: Mutex::default(),
            expected: Mutex::default(),
            has_company: AtomicBool::new(false),
            at_store: Mutex::default(),
            resume_wanted: Notify::new(),
            draining: Drain::default(),
            ended: AtomicBool::new(false),
            over: Notify::new(),
            tasks: Mutex::default(),
        })
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    // ---- instances come ----

    /// Returns the table, unless the session has ended: then all that was this worker's is released in the store by
    /// now, or will be. An instance that is added under this lock is found by [`end`](Self::end), which clears the
    /// table after it has marked the session as ended.
    fn live_table(&self) -> Option<MutexGuard<'_, Table>> {
        let table = self.table.lock();
        (!self.has_ended()).then_some(table)
    }

    /// Notes that a request for work is made. An instance that is taken away before the [answer](Self::acquired) may
    /// still come with it.
    pub(crate) fn acquire(&self) {
        *self.acquiring.lock() = Some(FxHashMap::default());
    }

    /// Takes the answer to a request for work.
    pub(crate) fn acquired(self: &Arc<Self>, instances: Vec<AcquiredInstance>) {
        let taken = |key, epoch| {
            let acquiring = self.acquiring.lock();
            let until = acquiring.as_ref().and_then(|taken| taken.get(&key).copied());
            until.filter(|until| epoch <= *until)
        };
        let mut unread = Vec::new();
        for instance in instances {
            let (key, epoch) = (instance.key, instance.epoch);
            if taken(key, epoch).is_some() {
                continue;
            }
            // This comes first: the answer to a start that comes later then finds that its instance is taken away,
            // although the instance is here.
            self.starting.lock().taken_away(key);
            unread.extend(self.take_up(instance));
            // The instance may have been taken away before it could be found in the table.
            if let Some(until) = taken(key, epoch) {
                self.forget_taken(key, until, AbortReason::Cancelled);
            }
        }
        *self.acquiring.lock() = None;
        self.load_all(unread);
    }

    /// Takes an instance that was started and claimed, or whose next execution begins.
    pub(crate) fn insert(self: &Arc<Self>, acquired: AcquiredInstance) {
        if let Some(unread) = self.take_up(acquired) {
            self.follow(&unread, NextAction::Needs(Needs::Stored));
        }
    }

    /// Makes an instance this worker's. Returns it if its stored part is to be read next.
    fn take_up(self: &Arc<Self>, acquired: AcquiredInstance) -> Option<Arc<Instance>> {
        let stale = {
            let mut table = self.live_table()?;
            match table.take_released(acquired.key, acquired.epoch, acquired.next_event_id) {
                Some((instance, true)) => {
                    // The lock is held until the instance is owned, or its engine could be set aside in between.
                    instance.lock().reuse(acquired);
                    self.shared.metrics.cache_hits.add(1);
                    return self.own(table, instance);
                }
                Some((stale, false)) => Some(stale),
                // A known instance with an earlier epoch was suspended from elsewhere and resumed, and this worker has
                // not heard of that. It may be at a turn that will be fenced off when it is stored, or at one that was
                // stored before and is not answered yet: the activities that this turn asked for belong to the acquired
                // instance.
                None => table
                    .get(acquired.key)
                    .filter(|owned| owned.lock().epoch < acquired.epoch)
                    .cloned(),
            }
        };
        if let Some(stale) = stale.filter(|_| !is_planted(Bug::AttemptInTheWay)) {
            self.forget(&stale, AbortReason::LeaseLost);
        }
        match Instance::new(self.shared.next_token(), acquired, &self.shared.options) {
            Ok(instance) => {
                let table = self.live_table()?;
                self.own(table, instance)
            }
            Err((instance, problem)) => {
                self.suspend(&instance, Report::of_problem(&problem));
                None
            }
        }
    }

    fn own(self: &Arc<Self>, mut table: MutexGuard<'_, Table>, instance: Arc<Instance>) -> Option<Arc<Instance>> {
        let epoch = instance.lock().epoch;
        if table.has_later(instance.key(), epoch) {
            drop(table);
            self.forget(&instance, AbortReason::LeaseLost);
            return None;
        }
        let came_early = table.insert(Arc::clone(&instance));
        // The table is still locked, so no other thread has found the instance or makes it ready.
        let then = {
            let mut core = instance.lock();
            core.rereads |= came_early;
            instance.start(&mut core)
        };
        drop(table);
        if then == NextAction::Needs(Needs::Stored) {
            return Some(instance);
        }
        self.follow(&instance, then);
        None
    }

    /// Owns an instance that was started here in `epoch` and has its key now, unless it was acquired since.
    pub(crate) fn adopt(&self, instance: &Arc<Instance>, epoch: Epoch) {
        if let Some(mut table) = self.live_table()
            && !table.has_later(instance.key(), epoch)
        {
            self.touch(&mut table, instance);
            let came_early = table.insert(Arc::clone(instance));
            instance.lock().rereads |= came_early;
        }
    }

    /// Delivers messages of the inbox. Messages of instances that are not here yet are read again when the instances
    /// come.
    pub(crate) fn receive(self: &Arc<Self>, key: InstanceKey, completion: Completion) {
        // The table is locked until the message is kept: if the instance is released meanwhile, the next one with its
        // key must see that something came.
        let sent = self.table.lock().send(key, self, completion);
        if let Some((instance, then)) = sent {
            self.follow(&instance, then);
        }
    }

    /// Makes an instance read its waiting messages again. One of them cannot be read; the second read finds the reason
    /// and suspends the instance.
    pub(crate) fn reread(self: &Arc<Self>, key: InstanceKey) {
        let instance = {
            let mut table = self.table.lock();
            match table.get(key).cloned() {
                Some(instance) => instance,
                // The store suspends the instance when it is acquired.
                None => return table.came_early(key),
            }
        };
        instance.lock().rereads = true;
        self.wake(&instance);
    }

    // ---- activities ----

    /// Carries out the effects of a turn that is durable. The caller holds the lock of the instance's core, and the
    /// instance was not forgotten: a thread that forgets it from here on finds the attempts.
    pub(crate) fn carry_out(&self, instance: &Arc<Instance>, heartbeats: &Heartbeats, effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        let now = self.now_ms();
        let mut activities = self.activities.lock();
        for effect in effects {
            match effect {
                Effect::StartActivity {
                    task,
                    attempt,
                    not_before_ms,
                } => {
                    let attempt = Attempt {
                        origin: Origin::Instance(Arc::clone(instance)),
                        last_heartbeat: heartbeats.latest(task.scheduled),
                        task,
                        number: attempt,
                    };
                    let delayed = (not_before_ms > now).then_some(not_before_ms);
                    self.take_on(&mut activities, attempt, delayed);
                }
                Effect::AbortActivity { scheduled } => {
                    if let Some((token, lane)) = activities.cancel(instance.key(), instance.execution, scheduled) {
                        self.shared
                            .push(Class::First, Queued::Abort(token, AbortReason::Cancelled, lane));
                    }
                }
            }
        }
        self.admit(&mut activities);
    }

    /// Adds an attempt that is to be run here, unless it is here already.
    pub(crate) fn take_on(&self, activities: &mut Activities, attempt: Attempt, delayed: Option<i64>) {
        if let Some((token, lane)) = activities.make_way(&attempt) {
            self.shared
                .push(Class::First, Queued::Abort(token, AbortReason::LeaseLost, lane));
        }
        activities.add(self.shared.next_activity(), attempt, delayed);
    }

    /// Ends an attempt. Called on the thread of `lane`. Returns `true` if the lane was parked and has work now.
    pub(crate) fn settle(self: &Arc<Self>, lane: LaneId, token: ActivityToken, result: AttemptResult) -> bool {
        let settling = self.activities.lock().settling(token);
        let origin = settling.map(|(origin, age)| {
            let counters = &self.shared.metrics;
            counters.step_latency.note(age);
            match result {
                AttemptResult::Completed(_) => counters.attempts_completed.add(1),
                AttemptResult::Failed { .. } => counters.attempts_failed.add(1),
            }
            origin
        });
        let mut drain = false;
        match origin {
            Some(Origin::Instance(instance)) => match self.completed(&instance, token, result) {
                NextAction::Step => drain |= self.shared.push_from(lane, Class::First, Queued::Turn(instance)),
                then => self.follow(&instance, then),
            },
            Some(Origin::Task(borrowed)) => {
                // This comes first: a shutdown or a comparison that does not find the attempt any more finds these two.
                let writing = self.at_store();
                let _leaving = self.leaving(Owned::Task(borrowed.task));
                if self.activities.lock().remove(token).is_some() {
                    self.report(&borrowed, result, writing);
                }
            }
            None => {}
        }
        let mut activities = self.activities.lock();
        while let Some(job) = activities.admit().and_then(|token| self.job_of(&activities, token)) {
            drain |= self.shared.push_from(lane, Class::Later, job);
        }
        self.look_for_tasks(&activities);
        drop(activities);
        self.draining.tell();
        drain
    }

    /// Gives the free slots to attempts that wait.
    pub(crate) fn admit(&self, activities: &mut Activities) {
        while let Some(token) = activities.admit() {
            self.hand_out(activities, token);
        }
        if !is_planted(Bug::SlotsGivenBackInSilence) {
            self.look_for_tasks(activities);
        }
    }

    /// Wakes the task that acquires tasks, because tasks in the store may wait for the slot that is free now.
    fn look_for_tasks(&self, activities: &Activities) {
        // The condition is the one under which that task acquires. Otherwise its own work would wake it again and
        // again.
        if self.wants_room.load(Ordering::Acquire) && self.takes_work() && activities.room() > 0 {
            self.tasks_wanted.notify_one();
        }
    }

    /// Queues the call of an attempt that has a slot.
    pub(crate) fn hand_out(&self, activities: &Activities, token: ActivityToken) {
        if let Some(job) = self.job_of(activities, token) {
            self.shared.push(Class::Later, job);
        }
    }

    fn job_of(&self, activities: &Activities, token: ActivityToken) -> Option<Queued> {
        let place = self.shared.place_of_attempt(activities.get(token)?);
        Some(Queued::Activity(token, place))
    }

    /// Ends an attempt of an instance. The core stays locked, so that each thread that locks it sees either the attempt
    /// or its result.
    fn completed(&self, instance: &Instance, token: ActivityToken, result: AttemptResult) -> NextAction<Needs> {
        let mut core = instance.lock();
        let attempt = self.activities.lock().remove(token);
        attempt.map_or(NextAction::Rest, |attempt| {
            instance.send(&mut core, self, result.into_completion(attempt.task.scheduled))
        })
    }

    /// Handles alarms until the session ends.
    pub(crate) async fn run_alarms(self: Arc<Self>) {
        loop {
            match self.alarms.next().await {
                (id, Alarm::Timer(instance)) => {
                    if let Some(instance) = instance.upgrade() {
                        instance.lock().alarm.take_if(|alarm| *alarm == id);
                        self.wake(&instance);
                    }
                }
                (_, Alarm::Attempt(token)) => {
                    let mut activities = self.activities.lock();
                    if let Some(expired) = activities.due(token) {
                        self.hand_out(&activities, expired);
                    }
                    self.admit(&mut activities);
                }
                (_, Alarm::Probation(instance)) => {
                    if let Some(instance) = instance.upgrade() {
                        self.acquit(&instance);
                    }
                }
                (id, Alarm::Heartbeat(origin, scheduled)) => self.heartbeat_rested(&origin, scheduled, id),
            }
        }
    }

    // ---- instances go ----

    /// Takes an instance away that this worker acquired in `until` or an earlier epoch.
    pub(crate) fn take_away(self: &Arc<Self>, key: InstanceKey, until: Epoch, reason: AbortReason) {
        // This comes first: an instance that is not in the table yet is found there when it comes.
        self.starting.lock().taken_away(key);
        if let Some(taken) = &mut *self.acquiring.lock() {
            taken.insert(key, until);
        }
        self.forget_taken(key, until, reason);
    }

    /// Takes an instance away that a client has terminated or suspended. A client of this process has also told this
    /// session directly.
    pub(crate) fn revoked(self: &Arc<Self>, Revoked { key, epoch }: Revoked) {
        self.take_away(key, epoch, AbortReason::Cancelled);
        self.let_go(key, epoch);
    }

    /// Forgets an instance that was taken away, unless this worker has acquired it again since.
    fn forget_taken(self: &Arc<Self>, key: InstanceKey, until: Epoch, reason: AbortReason) {
        let instance = self.table.lock().any(key).cloned();
        if let Some(instance) = instance.filter(|instance| instance.lock().epoch <= until) {
            self.forget(&instance, reason);
        }
    }

    /// Forgets an instance that has ended or is another worker's by now, and aborts its activities.
    pub(crate) fn forget(self: &Arc<Self>, instance: &Arc<Instance>, reason: AbortReason) {
        // This comes first: a turn that begins meanwhile either sees that, or has entered the table that is cleaned
        // next.
        instance.stop(self);
        self.table.lock().remove(instance);
        self.abort_activities(instance, reason);
        self.trial_over(instance);
        self.shared.store.watch.look(&instance.id);
        self.draining.tell();
    }

    /// Replaces an instance that has continued as new by its next execution, here or on the worker that acquires it.
    pub(crate) fn succeed(self: &Arc<Self>, instance: &Arc<Instance>, next: NextExecution) {
        if !next.hold {
            return self.forget(instance, AbortReason::Cancelled);
        }
        let (epoch, seen) = {
            let core = instance.lock();
            (core.epoch, core.seen)
        };
        // The attempts are aborted before the next execution has any: both number their events from the same start.
        instance.stop(self);
        self.abort_activities(instance, AbortReason::Cancelled);
        // The next execution replaces the last one in the table, and reads the messages that may have gone to the last
        // one.
        let next = AcquiredInstance {
            key: instance.key(),
            id: instance.id.clone(),
            name: instance.name.clone(),
            version: next.version,
            parent_id: instance.parent_id.clone(),
            execution: instance.execution.next(),
            epoch,
            next_event_id: EventId::FIRST.next(),
            fresh: true,
            history: vec![next.first_event],
            messages: MessagePage::default(),
            // Messages that may still come from the inbox and were consumed before are not new.
            seen,
            heartbeats: Vec::new(),
            tasks: Vec::new(),
            suspicion: Suspicion::default(),
            page_bytes: 0,
        };
        self.insert(next);
        self.table.lock().remove(instance);
        self.draining.tell();
    }

    fn abort_activities(&self, instance: &Instance, reason: AbortReason) {
        let mut activities = self.activities.lock();
        for (token, lane) in activities.cancel_all(instance) {
            self.shared.push(Class::First, Queued::Abort(token, reason, lane));
        }
        self.admit(&mut activities);
    }

    // ---- the session ends ----

    /// Stops new work: no instance is taken and no activity starts.
    pub(crate) fn drain(&self) {
        self.draining.begin();
        self.activities.lock().close();
    }

    /// True if this worker takes new work at all.
    pub(crate) fn takes_work(&self) -> bool {
        !self.draining.has_begun() && !self.shared.store.is_held_up()
    }

    /// True if nothing runs and nothing is being committed.
    pub(crate) fn is_drained(&self) -> bool {
        // Each lock is taken by itself: together they would be taken in the wrong order.
        let running = self.activities.lock().running();
        let at_store = *self.at_store.lock();
        let starting = self.starting.lock().len();
        running + at_store + starting == 0 && self.table.lock().is_at_rest()
    }

    /// Notes that the store begins an operation that a shutdown waits for, until the returned value is dropped.
    pub(crate) fn at_store(self: &Arc<Self>) -> AtStore {
        *self.at_store.lock() += 1;
        AtStore(Arc::clone(self))
    }

    /// Runs a task of the session. A panic in it ends the session: the state that it worked on may be half changed, and
    /// another worker goes on from what is stored.
    pub(crate) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let this = Arc::clone(self);
        self.shared.store.tokio.spawn(async move {
            if let Err(reason) = guarded(work).await {
                this.broken(&reason);
            }
        })
    }

    /// Carries out an answer of the store. A panic in it ends the session, like a panic in one of its tasks.
    pub(crate) fn carry(self: &Arc<Self>, answer: impl FnOnce()) {
        if let Err(reason) = contained(answer) {
            self.broken(&reason);
        }
    }

    /// Ends the session after a panic in its work.
    pub(crate) fn broken(self: &Arc<Self>, reason: &str) {
        if self.has_ended() {
            return;
        }
        let message = format!(
            "worker {} starts over, what it owned goes on from what is stored: a task of it failed, which is a defect of Perdure: {reason}",
            self.worker
        );
        self.shared.log(Level::Error, message);
        self.end(AbortReason::LeaseLost);
    }

    pub(crate) fn keep_tasks(&self, tasks: Vec<JoinHandle<()>>) {
        let mut kept = self.tasks.lock();
        if self.has_ended() {
            tasks.iter().for_each(JoinHandle::abort);
        } else {
            *kept = tasks;
        }
    }

    /// Waits until the session has ended.
    pub(crate) async fn over(&self) {
        self.over.notified().await;
    }

    /// Ends the session and forgets all that it knows. Results and commits that come later find nothing.
    pub(crate) fn end(self: &Arc<Self>, reason: AbortReason) {
        self.ended.store(true, Ordering::Release);
        self.shared.store.detach(&self.worker);
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
        self.drain();
        for (token, lane) in self.activities.lock().clear() {
            self.shared.push(Class::First, Queued::Abort(token, reason, lane));
        }
        let all = self.table.lock().clear();
        for instance in all {
            instance.stop(self);
        }
        self.end_starts();
        self.probations.lock().clear(&self.alarms);
        self.shared.store.watch.look_at_all();
        // This comes last: the next session begins when nothing of this one can be found any more.
        self.over.notify_one();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns the number of instances that the session may still take.
    pub(crate) fn room(&self) -> usize {
        if !self.takes_work() {
            0
        } else {
            OWNED_INSTANCES_MAX.saturating_sub(self.table.lock().len() + self.starting.lock().len())
        }
    }

    /// Notes that an instance without an owner is due at a time, or that one that was due already can be run from now
    /// on.
    pub(crate) fn due_at(&self, at_ms: i64) {
        let mut next = self.next_acquire_ms.lock();
        if next.is_none_or(|n| at_ms <= n) {
            *next = Some(at_ms);
            drop(next);
            self.acquire_wanted.notify_one();
        }
    }
}

impl LocalWorker for Session {
    fn worker(&self) -> &WorkerId {
        &self.worker
    }

    fn can_take(&self, name: &str, version: &str) -> bool {
        self.room() > 0 && self.shared.registry.lock().has(name, version)
    }

    fn highest_version(&self, name: &str) -> Option<String> {
        self.shared.registry.lock().highest(name).map(str::to_owned)
    }

    fn start(self: Arc<Self>, new: Box<NewInstance>, done: WriteDone) {
        self.start_here(new, done);
    }

    fn is_held_up(&self) -> bool {
        self.shared.pulse(MAIN).is_held_up()
    }

    fn runs(&self, id: &str) -> bool {
        self.table.lock().owns_id(id)
    }

    fn taken_away(self: Arc<Self>, key: InstanceKey, until: Epoch) {
        self.take_away(key, until, AbortReason::Cancelled);
    }

    fn look_for_messages(&self) {
        self.inbox_wanted.notify_one();
    }

    fn look_at_lease(&self) {
        self.renewal_wanted.notify_one();
    }

    fn look_for_work(&self) {
        self.due_at(0);
    }

    fn look_at_tasks(&self) {
        self.tasks_wanted.notify_one();
    }
}
