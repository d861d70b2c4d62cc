//! An instance as the scheduler sees it: a turn is a step, and the completions for the engine are its events.

use std::ops::DerefMut;
use std::sync::Arc;

use perdure_engine::{Bug, Completion, is_planted};
use perdure_provider::InstanceKey;
use perdure_scheduler::{Class, Control, LaneId, NextAction, Process, State};

use crate::instance::table::Table;
use crate::lane::job::Queued;
use crate::session::session::Session;
use crate::state::{Core, Instance, Needs};

impl Process for Instance {
    type Event = Completion;
    type Need = Needs;
    type Core = Core;
    type Services = Session;

    fn lock(&self) -> impl DerefMut<Target = Core> {
        Instance::lock(self)
    }

    fn control(core: &mut Core) -> &mut Control<Completion> {
        &mut core.control
    }

    /// The instance has a turn regardless of what it waits for. At the end of the turn it is released again if nothing
    /// has come.
    fn init(&self, core: &mut Core) -> Option<Needs> {
        core.lacks()
    }

    fn keep(&self, core: &mut Core, completion: Completion) -> bool {
        let is_lost = is_planted(Bug::LostWakeup) && core.control.state() == State::Blocked;
        !is_lost && core.keep(completion)
    }

    fn next(&self, core: &mut Core, session: &Session) -> NextAction<Needs> {
        core.next(session.now_ms())
    }

    fn step(&self, core: &mut Core, session: &Session, lane: LaneId) -> Option<Needs> {
        if core.awaits_trial() || core.engine.is_none() {
            return core.lacks();
        }
        // A request to cancel that waits lets the code exceed its limits from its first command on.
        core.take_in();
        if let Some(engine) = &mut core.engine {
            engine.begin_turn(session.now_ms());
        }
        self.sit(lane);
        None
    }

    fn close(&self, core: &mut Core, session: &Session) {
        if let Some(alarm) = core.alarm.take() {
            session.alarms.cancel(alarm);
        }
        core.heartbeats.clear(&session.alarms);
        core.held = None;
        if let Some(lane) = self.stand() {
            session.shared.push(Class::First, Queued::Drop(self.token, lane));
        }
    }
}

impl Table {
    /// Hands a completion to an instance. Returns the instance and its next step. `None`: the instance is not here, and
    /// its messages are read again when it comes.
    #[must_use]
    pub(crate) fn send(
        &mut self,
        key: InstanceKey,
        session: &Session,
        completion: Completion,
    ) -> Option<(Arc<Instance>, NextAction<Needs>)> {
        if let Some((instance, then)) = self.owned.send(&key, session, completion) {
            return Some((Arc::clone(instance), then));
        }
        self.came_early(key);
        None
    }
}

impl Session {
    /// Wakes an instance to which something has happened.
    pub(crate) fn wake(self: &Arc<Self>, instance: &Arc<Instance>) {
        let then = instance.wake(&mut instance.lock(), self);
        self.follow(instance, then);
    }

    /// Carries out the next step of an instance. The core must not be locked.
    pub(crate) fn follow(self: &Arc<Self>, instance: &Arc<Instance>, then: NextAction<Needs>) {
        match then {
            NextAction::Rest => {}
            NextAction::Step => self.shared.push(Class::First, Queued::Turn(Arc::clone(instance))),
            NextAction::Needs(needs) => self.provide(Arc::clone(instance), needs),
        }
    }

    /// Provides the need of a blocked instance, which goes on afterwards.
    pub(crate) fn provide(self: &Arc<Self>, instance: Arc<Instance>, needs: Needs) {
        match needs {
            Needs::Messages => self.load_messages(instance),
            Needs::Found => self.search(instance),
            Needs::Stored => self.load_one(instance),
            Needs::History(from) => self.load(instance, from),
            Needs::Probation => self.await_trial(instance),
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
}
