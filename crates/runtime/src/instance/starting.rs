//! Starts of instances that this worker runs itself: the first turn is run before anything is written, and both are one
//! commit.
//!
//! Nothing of the turn leaves the process before that (invariant 1). A start that is refused because its id is in use
//! takes its turn with it. A start that the session cannot finish is written without a turn.

use std::sync::Arc;

use perdure_engine::{EventId, ExecutionId, MessageSeq};
use perdure_provider::{AcquiredInstance, Epoch, MessagePage, NewInstance, Outcome, ProviderError, Suspicion, Write};
use perdure_scheduler::{Class, LaneId, NextAction, Process, State};

use crate::commit::committer::{Patience, WriteDone};
use crate::instance::instances::Instances;
use crate::lane::job::Queued;
use crate::log::LogRecord;
use crate::report::Report;
use crate::state::attempt::AbortReason;
use crate::state::pending_start::PendingStart;
use crate::state::{Instance, NO_KEY};

impl Instances {
    /// Starts an instance here. `done` receives the outcome.
    pub(crate) fn start_here(self: &Arc<Self>, mut new: Box<NewInstance>, done: WriteDone) {
        new.claim = Some(self.worker.id.clone());
        let fresh = AcquiredInstance {
            // The store has not given the instance a key or an epoch yet.
            key: NO_KEY,
            epoch: Epoch(0),
            id: new.id.clone(),
            name: new.name.clone(),
            version: new.version.clone(),
            parent_id: new.parent_id.clone(),
            tags: new.tags.clone(),
            execution: ExecutionId::FIRST,
            next_event_id: EventId::FIRST.next(),
            fresh: true,
            history: vec![new.first_event.clone()],
            messages: MessagePage::default(),
            seen: MessageSeq(0),
            heartbeats: Vec::new(),
            tasks: Vec::new(),
            page_bytes: 0,
            suspicion: Suspicion::default(),
        };
        let start = PendingStart::new(new, done, Arc::clone(&self.shared.store.committer));
        // The place is reserved until the instance is among the starting ones.
        let Some(place) = self.reserve_for_starts(1) else {
            return drop(start);
        };
        let Ok(instance) = Instance::new(self.shared.next_token(), fresh, &self.shared.options) else {
            // The worker that acquires the instance suspends it.
            return drop(start);
        };
        {
            let mut starting = self.starting.lock();
            if self.worker.has_ended() {
                drop(starting);
                return drop(start);
            }
            let mut core = instance.lock();
            core.start = Some(start);
            core.was_started_here = true;
            let then = instance.start(&mut core);
            debug_assert!(then == NextAction::Step, "its history is its start");
            starting.instances.insert(instance.token, Arc::clone(&instance));
        }
        drop(place);
        self.shared.push(Class::New, Queued::Turn(instance));
    }

    /// Handles the answer to a start. Returns true if the instance is this worker's from now on. The result is false if
    /// the instance is another worker's, was lost with its thread, or was already terminated, suspended or acquired
    /// again. Also returns the outcome of the first turn, if that turn was written with the start.
    pub(crate) fn started(
        self: &Arc<Self>,
        instance: &Arc<Instance>,
        logs: Vec<LogRecord>,
        done: WriteDone,
        mut answer: Result<Outcome, ProviderError>,
    ) -> (bool, Option<Outcome>) {
        let (claimed, turn) = match &mut answer {
            Ok(Outcome::Started {
                key,
                claimed: Some(epoch),
                turn,
                ..
            }) => (Some((*key, *epoch)), turn.take().map(|turn| *turn)),
            _ => (None, None),
        };
        if let Some((key, epoch)) = claimed {
            instance.set_key(key);
            instance.lock().epoch = epoch;
            self.adopt(instance, epoch);
        }
        let is_revoked = self.starting.lock().remove(instance);
        self.places.freed();
        if is_revoked && matches!(turn, Some(Outcome::Committed { .. })) {
            // No other turn logs these lines again.
            self.tell(logs);
            self.forget(instance, AbortReason::Cancelled);
            done(answer);
            return (false, turn);
        }
        if claimed.is_none() || is_revoked {
            self.forget(instance, AbortReason::Cancelled);
            done(answer);
            return (false, turn);
        }
        // The thread that ran the first turn is gone, and the generator with it.
        let is_lost = instance.lock().control.state() == State::Complete && !self.worker.has_ended();
        if is_lost {
            let epoch = instance.lock().epoch;
            self.forget(instance, AbortReason::LeaseLost);
            self.worker.release_instance(instance.key(), epoch);
            done(answer);
            return (false, turn);
        }
        self.tell(logs);
        done(answer);
        self.worker.draining.tell();
        (true, turn)
    }

    pub(crate) fn tell(&self, logs: Vec<LogRecord>) {
        for record in logs {
            self.shared.push(Class::First, Queued::Log(record));
        }
    }

    /// Suspends an instance whose first turn ended in no way that can be stored: writes the start alone, then suspends
    /// the instance.
    pub(crate) fn suspend_start(self: &Arc<Self>, instance: &Arc<Instance>, start: PendingStart, report: Report) {
        let (new, done, logs) = start.take();
        let (this, instance) = (Arc::clone(self), Arc::clone(instance));
        let claim = self.worker.claim();
        self.shared.store.committer.submit(
            Write::Start(new),
            Patience::Limited,
            Box::new(move |answer| {
                let (is_here, _) = this.started(&instance, logs, done, answer);
                if is_here {
                    this.suspend(&instance, report);
                }
                drop(claim);
            }),
        );
    }

    /// Leaves the starts that wait for their first turns to the workers that acquire them, because the thread does not
    /// come to run these turns. A start that is being written stays.
    pub(crate) fn release_starts(self: &Arc<Self>) {
        let waiting: Vec<Arc<Instance>> = {
            let mut starting = self.starting.lock();
            let waits = starting
                .instances
                .extract_if(|_, instance| instance.lock().start.is_some());
            waits.map(|(_, instance)| instance).collect()
        };
        self.places.freed();
        for instance in waiting {
            instance.stop(&self.services);
            let start = instance.lock().start.take();
            drop(start);
        }
    }

    /// Gives up starts of a lane whose thread is gone, and which has run their first turns or is in one. A start that
    /// is being written is given up when its answer is [known](Self::started). The others are left to the workers that
    /// acquire them.
    pub(crate) fn drop_starts_of(self: &Arc<Self>, lane: LaneId) {
        let pinned: Vec<Arc<Instance>> = {
            let starting = self.starting.lock();
            let pinned = |instance: &&Arc<Instance>| instance.lane() == Some(lane);
            starting.instances.values().filter(pinned).cloned().collect()
        };
        for instance in pinned {
            instance.stop(&self.services);
            let Some(start) = instance.lock().start.take() else {
                continue;
            };
            self.starting.lock().instances.remove(&instance.token);
            self.table.lock().remove(&instance);
            self.places.freed();
            drop(start);
        }
    }

    /// Leaves the starts that wait for their first turns to the workers that acquire them, because the session has
    /// ended.
    pub(crate) fn end_starts(self: &Arc<Self>) {
        let starting = std::mem::take(&mut self.starting.lock().instances);
        for instance in starting.into_values() {
            instance.stop(&self.services);
            let start = instance.lock().start.take();
            drop(start);
        }
    }
}
