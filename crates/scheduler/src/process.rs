//! A process: the methods that it provides to the scheduler, and those that the scheduler provides for it.
//!
//! A step is not a call but the time between two calls, [`begin`](Process::begin) and [`rest`](Process::rest): the code
//! of a step may be in another language, which asks for its steps by itself. The scheduler does not push jobs either:
//! it returns the next action ([`NextAction`]), because the owner must release its locks first, and knows the lanes on
//! which the process may run.

use std::ops::DerefMut;

use crate::control::{Control, NextAction, State};
use crate::lane::LaneId;

/// A unit of work that runs in steps. It provides the first methods; the scheduler provides the ones below. No method
/// locks the process but [`lock`](Self::lock) and [`stop`](Self::stop).
pub trait Process {
    /// Event that can be sent to the process.
    type Event;
    /// Resource that the process may need before a step.
    type Need;
    /// State of the process, with its [`Control`].
    type Core;
    /// Services that the process uses, such as a clock.
    type Services;

    /// Locks the core of the process.
    fn lock(&self) -> impl DerefMut<Target = Self::Core>;

    /// The part of the core that belongs to the scheduler.
    fn control(core: &mut Self::Core) -> &mut Control<Self::Event>;

    /// Initializes a process that was made or has come back. Returns what it needs before its first step, if anything.
    fn init(&self, core: &mut Self::Core) -> Option<Self::Need>;

    /// Keeps an event that was sent: [puts](Control::put) it into the queue of the process, which holds as many events
    /// as the process allows. `false`: the event changes nothing.
    fn keep(&self, core: &mut Self::Core, event: Self::Event) -> bool;

    /// Decides the next action of a process that no lane runs, given the events that have come.
    fn next(&self, core: &mut Self::Core, services: &Self::Services) -> NextAction<Self::Need>;

    /// Begins a step, on the thread of a lane. Returns a need if one shows only now; the step then does not begin.
    fn step(&self, core: &mut Self::Core, services: &Self::Services, lane: LaneId) -> Option<Self::Need>;

    /// Ends the process: releases all that it holds. It may have ended before.
    fn close(&self, core: &mut Self::Core, services: &Self::Services);

    /// Starts a process that is present and idle, with its first step.
    fn start(&self, core: &mut Self::Core) -> NextAction<Self::Need> {
        debug_assert!(Self::control(core).is_idle(), "nobody else has found it");
        let action = self.init(core).map_or(NextAction::Step, NextAction::Needs);
        Self::control(core).go_on(action)
    }

    /// Sends an event to the process (L6).
    fn send(&self, core: &mut Self::Core, services: &Self::Services, event: Self::Event) -> NextAction<Self::Need> {
        if self.keep(core, event) {
            self.wake(core, services)
        } else {
            NextAction::Rest
        }
    }

    /// Notes that something happened to the process (L1, L2).
    fn wake(&self, core: &mut Self::Core, services: &Self::Services) -> NextAction<Self::Need> {
        if Self::control(core).is_idle() {
            let action = self.next(core, services);
            Self::control(core).go_on(action)
        } else {
            Self::control(core).notify();
            NextAction::Rest
        }
    }

    /// Begins a step after a lane took the process from its queue. [`NextAction::Step`]: the step has begun.
    /// [`NextAction::Rest`]: the process has ended in the meantime, and there is nothing to run.
    fn begin(&self, core: &mut Self::Core, services: &Self::Services, lane: LaneId) -> NextAction<Self::Need> {
        if !Self::control(core).begin() {
            return NextAction::Rest;
        }
        match self.step(core, services, lane) {
            None => NextAction::Step,
            Some(need) => Self::control(core).go_on(NextAction::Needs(need)),
        }
    }

    /// Ends a step, and the block that may have followed it. `more`: another step follows.
    fn rest(&self, core: &mut Self::Core, services: &Self::Services, more: bool) -> NextAction<Self::Need> {
        if !matches!(Self::control(core).state(), State::Running | State::Blocked) {
            return NextAction::Rest;
        }
        let action = match self.next(core, services) {
            NextAction::Rest if more => NextAction::Step,
            action => action,
        };
        Self::control(core).go_on(action)
    }

    /// Ends the process, in any state.
    fn stop(&self, services: &Self::Services) {
        let mut core = self.lock();
        Self::control(&mut core).complete();
        self.close(&mut core, services);
    }
}
