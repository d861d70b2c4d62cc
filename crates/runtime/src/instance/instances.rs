//! The instances of a worker: how they come, how they go on, and how they go.
//!
//! Lock order: the reservation of places, then table, then starting or probations, then an instance's core, then the
//! attempts of activities, then the open release requests. A lane and the alarms may be called with any of them locked;
//! the committer with none, because its provider may answer at once.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use perdure_engine::{AttemptResult, Bug, Completion, EventId, is_planted};
use perdure_provider::{AcquiredInstance, Clock, Epoch, InstanceKey, MessagePage, NextExecution, Revoked, Suspicion};
use perdure_scheduler::{Class, LaneId, NextAction, Process};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::activity::activities::Activities;
use crate::instance::places::Places;
use crate::instance::starts::Starting;
use crate::instance::suspects::Probations;
use crate::instance::table::Table;
use crate::lane::job::Queued;
use crate::lane::process::Services;
use crate::options::LOAD_BYTES_MAX;
use crate::platform::byte_budget::ByteBudget;
use crate::report::Report;
use crate::shared::Shared;
use crate::state::attempt::{AbortReason, ActivityToken, Origin};
use crate::state::{Instance, TurnNeed};
use crate::worker::Worker;

/// The instances that a worker owns.
pub(crate) struct Instances {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) activities: Arc<Activities>,
    pub(crate) services: Services,
    pub(crate) table: Mutex<Table>,
    /// The instances whose start is not written yet.
    pub(crate) starting: Mutex<Starting>,
    pub(crate) probations: Mutex<Probations>,
    pub(crate) places: Arc<Places>,
    /// The histories that were read and are not replayed yet.
    pub(crate) loads: Arc<ByteBudget>,
    /// The instances that were terminated or suspended while a request for work is under way, each with the last epoch
    /// that this concerns.
    acquiring: Mutex<Option<FxHashMap<InstanceKey, Epoch>>>,
    /// Notified when the [cache](crate::instance::cache) holds something again.
    pub(crate) cache_used: Notify,
}

impl Instances {
    pub(crate) fn new(activities: Arc<Activities>) -> Arc<Self> {
        let shared = Arc::clone(&activities.shared);
        let services = Services {
            clock: Arc::clone(&shared.clock),
            alarms: Arc::clone(&activities.alarms),
            lanes: Arc::clone(&shared.lanes),
        };
        Arc::new(Self {
            places: Places::new(Arc::clone(&activities.worker), shared.options.orchestration_concurrency),
            shared,
            worker: Arc::clone(&activities.worker),
            activities,
            services,
            table: Mutex::default(),
            starting: Mutex::default(),
            probations: Mutex::default(),
            loads: ByteBudget::new(LOAD_BYTES_MAX),
            acquiring: Mutex::default(),
            cache_used: Notify::new(),
        })
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.services.clock.now_ms()
    }

    // ---- instances come ----

    /// Returns the table, unless the session has ended: then all that was this worker's is released in the store by
    /// now, or will be. An instance that is added under this lock is found by [`end`](Self::end), which clears the
    /// table after the worker was marked as ended.
    fn live_table(&self) -> Option<MutexGuard<'_, Table>> {
        let table = self.table.lock();
        (!self.worker.has_ended()).then_some(table)
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
            self.starting.lock().revoke(key);
            if !self.adopt_woken(&instance) {
                unread.extend(self.add_acquired(instance));
            }
            // The instance may have been taken away before it could be found in the table.
            if let Some(until) = taken(key, epoch) {
                self.forget_revoked(key, until, AbortReason::Cancelled);
            }
        }
        *self.acquiring.lock() = None;
        self.load_all(unread);
    }

    /// Takes an instance that was started and claimed, or whose next execution begins.
    pub(crate) fn insert(self: &Arc<Self>, acquired: AcquiredInstance) {
        if let Some(unread) = self.add_acquired(acquired) {
            self.follow(&unread, NextAction::Needs(TurnNeed::Stored));
        }
    }

    /// Makes an instance this worker's. Returns it if its stored part is to be read next.
    fn add_acquired(self: &Arc<Self>, acquired: AcquiredInstance) -> Option<Arc<Instance>> {
        let stale = {
            let mut table = self.live_table()?;
            match table.take_released(acquired.key, acquired.epoch, acquired.next_event_id) {
                Some((instance, true)) => {
                    // The lock is held until the instance is owned, or its engine could be evicted in between.
                    instance.lock().reuse(acquired);
                    self.shared.metrics.cache_hits.add(1);
                    return self.own(table, instance);
                }
                Some((stale, false)) => Some(stale),
                // A known instance with an earlier epoch was suspended from elsewhere and resumed, and this worker has
                // not heard of that. It may be at a turn that will be fenced off when it is stored, or at one that was
                // stored before and is not answered yet: the activities that this turn asked for belong to the acquired
                // instance. The turn of an instance that is waking will be fenced off, too.
                None => table
                    .get(acquired.key)
                    .filter(|owned| {
                        let core = owned.lock();
                        core.epoch < acquired.epoch || core.is_waking
                    })
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
        if then == NextAction::Needs(TurnNeed::Stored) {
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
        let sent = self.table.lock().send(key, &self.services, completion);
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

    // ---- instances go on ----

    /// Wakes an instance to which something has happened.
    pub(crate) fn wake(self: &Arc<Self>, instance: &Arc<Instance>) {
        let then = instance.wake(&mut instance.lock(), &self.services);
        self.follow(instance, then);
    }

    /// Carries out the next step of an instance. The core must not be locked.
    pub(crate) fn follow(self: &Arc<Self>, instance: &Arc<Instance>, then: NextAction<TurnNeed>) {
        match then {
            NextAction::Rest => {}
            NextAction::Step => self.shared.push(Class::First, Queued::Turn(Arc::clone(instance))),
            NextAction::Needs(needs) => self.provide(Arc::clone(instance), needs),
        }
    }

    /// Provides the need of a blocked instance, which goes on afterwards.
    pub(crate) fn provide(self: &Arc<Self>, instance: Arc<Instance>, needs: TurnNeed) {
        match needs {
            TurnNeed::Messages => self.load_messages(instance),
            TurnNeed::Found => self.search(instance),
            TurnNeed::Stored => self.load_one(instance),
            TurnNeed::History(from) => self.load(instance, from),
            TurnNeed::Probation => self.queue_probation(instance),
        }
    }

    /// Queues the turn of an instance whose need is met. Returns `false` if the instance is over meanwhile.
    pub(crate) fn resume(&self, instance: &Arc<Instance>) -> bool {
        let is_ready = instance.lock().control.resume();
        if is_ready {
            self.shared.push(Class::First, Queued::Turn(Arc::clone(instance)));
        }
        is_ready
    }

    /// Ends an attempt. Called on the thread of `lane`. Returns `true` if the lane was parked and has work now.
    pub(crate) fn settle(self: &Arc<Self>, lane: LaneId, token: ActivityToken, result: AttemptResult) -> bool {
        let mut has_work = false;
        match self.activities.settling(token, &result) {
            Some(Origin::Instance(instance)) => match self.completed(&instance, token, result) {
                NextAction::Step => has_work |= self.shared.push_from(lane, Class::First, Queued::Turn(instance)),
                action => self.follow(&instance, action),
            },
            Some(Origin::Task(taken)) => self.activities.settle_task(token, &taken, result),
            None => {}
        }
        has_work |= self.activities.refill(lane);
        self.worker.draining.tell();
        has_work
    }

    /// Ends an attempt of an instance. The core stays locked, so that each thread that locks it sees either the attempt
    /// or its result.
    fn completed(&self, instance: &Instance, token: ActivityToken, result: AttemptResult) -> NextAction<TurnNeed> {
        let mut core = instance.lock();
        let attempt = self.activities.attempts.lock().remove(token);
        attempt.map_or(NextAction::Rest, |attempt| {
            instance.send(
                &mut core,
                &self.services,
                result.into_completion(attempt.task.scheduled),
            )
        })
    }

    // ---- instances go ----

    /// Takes an instance away that this worker acquired in `until` or an earlier epoch.
    pub(crate) fn revoke(self: &Arc<Self>, key: InstanceKey, until: Epoch, reason: AbortReason) {
        // This comes first: an instance that is not in the table yet is found there when it comes.
        self.starting.lock().revoke(key);
        if let Some(taken) = &mut *self.acquiring.lock() {
            taken.insert(key, until);
        }
        self.forget_revoked(key, until, reason);
    }

    /// Takes an instance away that a client has terminated or suspended. A client of this process has also told this
    /// session directly.
    pub(crate) fn revoked(self: &Arc<Self>, Revoked { key, epoch }: Revoked) {
        self.revoke(key, epoch, AbortReason::Cancelled);
        self.worker.release_instance(key, epoch);
    }

    /// Forgets an instance that was taken away, unless this worker has acquired it again since.
    fn forget_revoked(self: &Arc<Self>, key: InstanceKey, until: Epoch, reason: AbortReason) {
        let instance = self.table.lock().any(key).cloned();
        if let Some(instance) = instance.filter(|instance| instance.lock().epoch <= until) {
            self.forget(&instance, reason);
        }
    }

    /// Forgets an instance that has ended or is another worker's by now, and aborts its activities.
    pub(crate) fn forget(self: &Arc<Self>, instance: &Arc<Instance>, reason: AbortReason) {
        // This comes first: a turn that begins meanwhile either sees that, or has entered the table that is cleaned
        // next.
        instance.stop(&self.services);
        let wake = instance.lock().wake.take();
        self.table.lock().remove(instance);
        self.places.freed();
        drop(wake);
        self.activities.abort_all(instance, reason);
        self.probation_over(instance);
        self.shared.store.mark_changed(&instance.id);
        self.worker.draining.tell();
    }

    /// Replaces an instance that has continued as new by its next execution, here or on the worker that acquires it.
    pub(crate) fn begin_next_execution(self: &Arc<Self>, instance: &Arc<Instance>, next: NextExecution) {
        if !next.hold {
            return self.forget(instance, AbortReason::Cancelled);
        }
        let (epoch, seen) = {
            let core = instance.lock();
            (core.epoch, core.seen)
        };
        // The attempts are aborted before the next execution has any: both number their events from the same start.
        instance.stop(&self.services);
        self.activities.abort_all(instance, AbortReason::Cancelled);
        // The next execution replaces the last one in the table, and reads the messages that may have gone to the last
        // one.
        let next = AcquiredInstance {
            key: instance.key(),
            id: instance.id.clone(),
            name: instance.name.clone(),
            version: next.version,
            parent_id: instance.parent_id.clone(),
            tags: instance.tags.clone(),
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
        self.places.freed();
        self.worker.draining.tell();
    }

    // ---- the end ----

    /// Forgets all instances, because the session ends.
    pub(crate) fn end(self: &Arc<Self>) {
        let all = self.table.lock().clear();
        for instance in all {
            instance.stop(&self.services);
            let wake = instance.lock().wake.take();
            drop(wake);
        }
        self.end_starts();
        self.probations.lock().clear(&self.services.alarms);
    }

    /// True if nothing runs and nothing is being committed.
    pub(crate) fn is_drained(&self) -> bool {
        // Each lock is taken by itself: together they would be taken in the wrong order.
        let running = self.activities.attempts.lock().running();
        let at_store = self.worker.pending_operations();
        let starting = self.starting.lock().len();
        running + at_store + starting == 0 && self.table.lock().is_at_rest()
    }
}
