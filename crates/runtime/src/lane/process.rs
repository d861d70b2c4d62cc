//! An instance as the scheduler sees it: a turn is a step, and the completions for the engine are its events.

use std::ops::DerefMut;
use std::sync::Arc;

use perdure_engine::{Bug, Completion, is_planted};
use perdure_provider::Clock;
use perdure_scheduler::{Class, Control, LaneId, Lanes, NextAction, Place, Process, State};

use crate::lane::job::Queued;
use crate::platform::alarms::Alarms;
use crate::platform::store_clock::StoreClock;
use crate::state::alarm::Alarm;
use crate::state::{Core, Instance, TurnNeed};

/// The services that an instance uses as a process.
pub(crate) struct Services {
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) alarms: Arc<Alarms<Alarm>>,
    pub(crate) lanes: Arc<Lanes<Queued>>,
}

impl Process for Instance {
    type Event = Completion;
    type Need = TurnNeed;
    type Core = Core;
    type Services = Services;

    fn lock(&self) -> impl DerefMut<Target = Core> {
        Instance::lock(self)
    }

    fn control(core: &mut Core) -> &mut Control<Completion> {
        &mut core.control
    }

    /// The instance has a turn regardless of what it waits for. At the end of the turn it is released again if nothing
    /// has come.
    fn init(&self, core: &mut Core) -> Option<TurnNeed> {
        core.lacks()
    }

    fn keep(&self, core: &mut Core, completion: Completion) -> bool {
        let is_lost = is_planted(Bug::LostWakeup) && core.control.state() == State::Blocked;
        !is_lost && core.keep(completion)
    }

    fn next(&self, core: &mut Core, services: &Services) -> NextAction<TurnNeed> {
        core.next(services.clock.now_ms())
    }

    fn step(&self, core: &mut Core, services: &Services, lane: LaneId) -> Option<TurnNeed> {
        if core.awaits_probation() || core.engine.is_none() {
            return core.lacks();
        }
        // A request to cancel that waits lets the code exceed its limits from its first command on.
        core.take_in();
        if let Some(engine) = &mut core.engine {
            engine.begin_turn(services.clock.now_ms());
        }
        self.pin(lane);
        None
    }

    fn close(&self, core: &mut Core, services: &Services) {
        if let Some(alarm) = core.alarm.take() {
            services.alarms.cancel(alarm);
        }
        core.heartbeats.clear(&services.alarms);
        core.held = None;
        if let Some(lane) = self.unpin() {
            let drop = Queued::Drop(self.token, lane);
            services.lanes.push(Place::At(lane), Class::First, drop);
        }
    }
}
