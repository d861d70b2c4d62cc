//! One start of a runtime: a worker, the instances it owns, and their activities.
//!
//! A session ends when the runtime shuts down or loses its lease; a runtime that lost its lease starts another by itself.
//!
//! Lock order: table, then starting or trials, then an instance's core, then activities, then what is being given back. A lane and the alarms may be called with any of them locked; the
//! committer, whose provider may answer at once, with none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use perdure_engine::{AttemptResult, Bug, Completion, Effect, EventId, is_planted};
use perdure_provider::{
    AcquiredInstance, Clock, Epoch, InstanceKey, MessagePage, NewInstance, NextExecution, Revoked, Suspicion, WorkerId,
};
use perdure_scheduler::{Class, Drain, LaneId, Process, Then};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::activity::activities::Activities;
use crate::activity::attempt::{AbortReason, ActivityToken, Attempt, Origin};
use crate::activity::beats::Heartbeats;
use crate::client::store::LocalWorker;
use crate::commit::committer::WriteDone;
use crate::instance::table::Table;
use crate::instance::{Instance, Needs};
use crate::lane::job::Queued;
use crate::lane::log_record::Level;
use crate::options::{LOAD_BYTES_MAX, OWNED_INSTANCES_MAX};
use crate::platform::alarms::Alarms;
use crate::platform::byte_budget::ByteBudget;
use crate::platform::panics::{contained, guarded};
use crate::poison::report::Report;
use crate::poison::suspects::Trials;
use crate::shared::{MAIN, Shared};
use crate::turn::starts::Starting;
use crate::worker::alarm::Alarm;
use crate::worker::lease::Lease;
use crate::worker::open_requests::GivingBack;
use crate::worker::owned::{Owned, Ownership};

pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: WorkerId,
    pub(crate) lease: Lease,
    pub(crate) table: Mutex<Table>,
    pub(crate) activities: Mutex<Activities>,
    /// Instances whose start is not written yet.
    pub(crate) starting: Mutex<Starting>,
    pub(crate) alarms: Arc<Alarms<Alarm>>,
    pub(crate) trials: Mutex<Trials>,
    pub(crate) ownership: Ownership,
    /// Histories that were read and not replayed yet.
    pub(crate) loads: Arc<ByteBudget>,
    /// While a request for work is under way: what was terminated or suspended meanwhile, up to which epoch.
    acquiring: Mutex<Option<FxHashMap<InstanceKey, Epoch>>>,
    /// When the next look for due instances is needed, ms since 1970; `None`: not before something tells.
    pub(crate) next_acquire_ms: Mutex<Option<i64>>,
    pub(crate) acquire_wanted: Notify,
    pub(crate) inbox_wanted: Notify,
    pub(crate) renewal_wanted: Notify,
    /// The [cache](crate::instance::cache) holds something again.
    pub(crate) cache_used: Notify,
    pub(crate) tasks_wanted: Notify,
    pub(crate) giving_back: GivingBack,
    /// Tasks may wait in the store for a slot here.
    pub(crate) wants_room: AtomicBool,
    /// Names of activities that were offered because they are not registered here, and nobody has looked yet whether anybody has them.
    pub(crate) strange: Mutex<BTreeSet<String>>,
    /// Those that others have, or may have.
    pub(crate) expected: Mutex<BTreeSet<String>>,
    /// Other workers use the store.
    pub(crate) has_company: AtomicBool,
    /// How much of what a shutdown waits for the store [is at](Self::at_store).
    at_store: Mutex<usize>,
    /// An orchestration was registered, which suspended instances may wait for.
    pub(crate) resume_wanted: Notify,
    /// Begun: it takes no new work; see [`Runtime::begin_shutdown`](crate::Runtime::begin_shutdown).
    pub(crate) draining: Drain,
    ended: AtomicBool,
    over: Notify,
    /// What runs for it; aborted when it ends.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// While it is there, the store is at something that a shutdown waits for.
pub(crate) struct AtStore(Arc<Session>);

impl Drop for AtStore {
    fn drop(&mut self) {
        *self.0.at_store.lock() -= 1;
        self.0.draining.tell();
    }
}

impl Session {
    /// A session of a worker whose registration was asked for at a time.
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
            trials: Mutex::default(),
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

    /// The table, unless the session has ended: then whatever was this worker's is released in the store by now, or will be.
    /// What is put into it under this lock is found by [`end`](Self::end), which clears it after it has said that it is over.
    fn live_table(&self) -> Option<MutexGuard<'_, Table>> {
        let table = self.table.lock();
        (!self.has_ended()).then_some(table)
    }

    /// A request for work is made: what is taken away until it is [answered](Self::acquired) may come with the answer all the same.
    pub(crate) fn acquire(&self) {
        *self.acquiring.lock() = Some(FxHashMap::default());
    }

    /// The answer to a request for work.
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
            // First: a start that is answered later finds that it is another's by now, although that is here.
            self.starting.lock().taken_away(key);
            unread.extend(self.take_up(instance));
            // It may have been taken away before it could be found.
            if let Some(until) = taken(key, epoch) {
                self.forget_taken(key, until, AbortReason::Cancelled);
            }
        }
        *self.acquiring.lock() = None;
        self.load_all(unread);
    }

    /// An instance was started and claimed, or its next execution begins.
    pub(crate) fn insert(self: &Arc<Self>, acquired: AcquiredInstance) {
        if let Some(unread) = self.take_up(acquired) {
            self.follow(&unread, Then::Needs(Needs::Stored));
        }
    }

    /// An instance is this worker's from now on. It is returned when what is stored of it is to be read next.
    fn take_up(self: &Arc<Self>, acquired: AcquiredInstance) -> Option<Arc<Instance>> {
        let stale = {
            let mut table = self.live_table()?;
            match table.take_released(acquired.key, acquired.epoch, acquired.next_event_id) {
                Some((instance, true)) => {
                    // In one go with what follows, or its engine could be set aside in between.
                    instance.lock().reuse(acquired);
                    self.shared.metrics.cache_hits.add(1);
                    return self.own(table, instance);
                }
                Some((stale, false)) => Some(stale),
                // It was suspended from elsewhere and resumed, and this worker has not heard of that. It may be at a turn that is fenced off
                // when it is stored, or at one that was stored before and is not answered yet: what that asked for is the next one's.
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
        // Still under the table's lock: nobody else has found it, so nobody else makes it ready.
        let then = {
            let mut core = instance.lock();
            core.rereads |= came_early;
            instance.start(&mut core)
        };
        drop(table);
        if then == Then::Needs(Needs::Stored) {
            return Some(instance);
        }
        self.follow(&instance, then);
        None
    }

    /// An instance that was started here in an epoch has its key: own it, unless it was acquired since.
    pub(crate) fn adopt(&self, instance: &Arc<Instance>, epoch: Epoch) {
        if let Some(mut table) = self.live_table()
            && !table.has_later(instance.key(), epoch)
        {
            self.touch(&mut table, instance);
            let came_early = table.insert(Arc::clone(instance));
            instance.lock().rereads |= came_early;
        }
    }

    /// Messages of the inbox. Those of instances that are not here yet are fetched again when they are.
    pub(crate) fn receive(self: &Arc<Self>, key: InstanceKey, completion: Completion) {
        // The table is locked until it is kept: an instance that is released meanwhile must see that something came for the next one with its key.
        let sent = self.table.lock().send(key, self, completion);
        if let Some((instance, then)) = sent {
            self.follow(&instance, then);
        }
    }

    /// A message came for an instance and cannot be read: let it read what waits for it, which says why and suspends it.
    pub(crate) fn reread(self: &Arc<Self>, key: InstanceKey) {
        let instance = {
            let mut table = self.table.lock();
            match table.get(key).cloned() {
                Some(instance) => instance,
                // The store suspends it when it is acquired.
                None => return table.came_early(key),
            }
        };
        instance.lock().rereads = true;
        self.wake(&instance);
    }

    // ---- activities ----

    /// Carry out the effects of a turn that is durable. The instance's core is locked, and it was not forgotten: whoever forgets
    /// it from here on finds the attempts.
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

    /// An attempt is to be run here, unless it is already.
    pub(crate) fn take_on(&self, activities: &mut Activities, attempt: Attempt, delayed: Option<i64>) {
        if let Some((token, lane)) = activities.make_way(&attempt) {
            self.shared
                .push(Class::First, Queued::Abort(token, AbortReason::LeaseLost, lane));
        }
        activities.add(self.shared.next_activity(), attempt, delayed);
    }

    /// An attempt is over. Called on a lane's thread. `true`: the lane was parked and has work now.
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
                Then::Step => drain |= self.shared.push_from(lane, Class::First, Queued::Turn(instance)),
                then => self.follow(&instance, then),
            },
            Some(Origin::Task(borrowed)) => {
                // First: whoever does not find the attempt any more, a shutdown or a comparison, finds this.
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

    /// Give attempts that wait the slots that are free.
    pub(crate) fn admit(&self, activities: &mut Activities) {
        while let Some(token) = activities.admit() {
            self.hand_out(activities, token);
        }
        if !is_planted(Bug::SlotsGivenBackInSilence) {
            self.look_for_tasks(activities);
        }
    }

    /// A slot may be free again: tasks may wait for it in the store.
    fn look_for_tasks(&self, activities: &Activities) {
        // As the one who looks has it: else it would be told again and again by what it does.
        if self.wants_room.load(Ordering::Acquire) && self.takes_work() && activities.room() > 0 {
            self.tasks_wanted.notify_one();
        }
    }

    /// Have an attempt called that has a slot.
    pub(crate) fn hand_out(&self, activities: &Activities, token: ActivityToken) {
        if let Some(job) = self.job_of(activities, token) {
            self.shared.push(Class::Later, job);
        }
    }

    fn job_of(&self, activities: &Activities, token: ActivityToken) -> Option<Queued> {
        let place = self.shared.place_of_attempt(activities.get(token)?);
        Some(Queued::Activity(token, place))
    }

    /// An attempt of an instance is over. In one go: whoever has the core locked sees the attempt, or what came of it.
    fn completed(&self, instance: &Instance, token: ActivityToken, result: AttemptResult) -> Then<Needs> {
        let mut core = instance.lock();
        let attempt = self.activities.lock().remove(token);
        attempt.map_or(Then::Rest, |attempt| {
            instance.send(&mut core, self, result.into_completion(attempt.task.scheduled))
        })
    }

    /// Wait for alarms until the session ends.
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
                (_, Alarm::Trial(instance)) => {
                    if let Some(instance) = instance.upgrade() {
                        self.acquit(&instance);
                    }
                }
                (id, Alarm::Heartbeat(origin, scheduled)) => self.heartbeat_rested(&origin, scheduled, id),
            }
        }
    }

    // ---- instances go ----

    /// An instance is not this worker's any more if it acquired it in this epoch or before.
    pub(crate) fn take_away(self: &Arc<Self>, key: InstanceKey, until: Epoch, reason: AbortReason) {
        // First: one that is not in the table yet is found there when it comes.
        self.starting.lock().taken_away(key);
        if let Some(taken) = &mut *self.acquiring.lock() {
            taken.insert(key, until);
        }
        self.forget_taken(key, until, reason);
    }

    /// A client of another process has terminated or suspended an instance, or one of this process, which has told that by itself.
    pub(crate) fn revoked(self: &Arc<Self>, Revoked { key, epoch }: Revoked) {
        self.take_away(key, epoch, AbortReason::Cancelled);
        self.let_go(key, epoch);
    }

    /// Forget an instance that was taken away, unless it is this worker's again.
    fn forget_taken(self: &Arc<Self>, key: InstanceKey, until: Epoch, reason: AbortReason) {
        let instance = self.table.lock().any(key).cloned();
        if let Some(instance) = instance.filter(|instance| instance.lock().epoch <= until) {
            self.forget(&instance, reason);
        }
    }

    /// The instance has ended, or is another's by now: forget it and abort what it still runs.
    pub(crate) fn forget(self: &Arc<Self>, instance: &Arc<Instance>, reason: AbortReason) {
        // First, so that a turn which begins meanwhile either finds that, or has entered what is removed next.
        instance.stop(self);
        self.table.lock().remove(instance);
        self.abort_activities(instance, reason);
        self.trial_over(instance);
        self.shared.store.watch.look(&instance.id);
        self.draining.tell();
    }

    /// The instance has continued as new: its next execution takes its place, here or wherever it is acquired.
    pub(crate) fn succeed(self: &Arc<Self>, instance: &Arc<Instance>, next: NextExecution) {
        if !next.hold {
            return self.forget(instance, AbortReason::Cancelled);
        }
        let (epoch, seen) = {
            let core = instance.lock();
            (core.epoch, core.seen)
        };
        // Before the next one has any: both number theirs from the same start.
        instance.stop(self);
        self.abort_activities(instance, AbortReason::Cancelled);
        // It replaces the former one in the table, and reads the messages that may have gone to that.
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
            // What may still be on its way from the inbox, and was consumed since, is no new one.
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

    /// Take no new work and start no new activity.
    pub(crate) fn drain(&self) {
        self.draining.begin();
        self.activities.lock().close();
    }

    /// Whether new work has a place here at all.
    pub(crate) fn takes_work(&self) -> bool {
        !self.draining.has_begun() && !self.shared.store.is_held_up()
    }

    /// Whether nothing runs and nothing is being committed.
    pub(crate) fn is_drained(&self) -> bool {
        // Each lock by itself: they would be taken in the wrong order.
        let running = self.activities.lock().running();
        let at_store = *self.at_store.lock();
        let starting = self.starting.lock().len();
        running + at_store + starting == 0 && self.table.lock().is_at_rest()
    }

    /// The store is to do something that a shutdown waits for.
    pub(crate) fn at_store(self: &Arc<Self>) -> AtStore {
        *self.at_store.lock() += 1;
        AtStore(Arc::clone(self))
    }

    /// Run something for the session. A panic in it ends the session: what it worked on may be half done, and another worker goes on from
    /// what is stored.
    pub(crate) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let this = Arc::clone(self);
        self.shared.store.tokio.spawn(async move {
            if let Err(reason) = guarded(work).await {
                this.broken(&reason);
            }
        })
    }

    /// Carry out an answer of the store. A panic in it ends the session, as in a task of it.
    pub(crate) fn carry(self: &Arc<Self>, answer: impl FnOnce()) {
        if let Err(reason) = contained(answer) {
            self.broken(&reason);
        }
    }

    /// Something that works for the session has panicked.
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

    /// Until it has ended.
    pub(crate) async fn over(&self) {
        self.over.notified().await;
    }

    /// Forget everything; late results and commits find nothing.
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
        self.trials.lock().clear(&self.alarms);
        self.shared.store.watch.look_at_all();
        // Last: the next session begins when nothing of this one can be found any more.
        self.over.notify_one();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// How many more instances it may own.
    pub(crate) fn room(&self) -> usize {
        if !self.takes_work() {
            0
        } else {
            OWNED_INSTANCES_MAX.saturating_sub(self.table.lock().len() + self.starting.lock().len())
        }
    }

    /// An instance is due at a time and nobody owns it, or one that was due already can be run from now on.
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
