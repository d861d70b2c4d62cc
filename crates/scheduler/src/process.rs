//! A process: the methods that it provides to the scheduler, and those that the scheduler provides for it.
//!
//! A step is not a call but the time between two calls, [`begin`](Process::begin) and [`rest`](Process::rest): the code
//! of a step may be in another language, which asks for its steps by itself. The scheduler does not push jobs either:
//! it returns the next action ([`Then`]), because the owner must release its locks first, and knows the lanes on which
//! the process may run.

use std::ops::DerefMut;

use crate::control::{Control, State, Then};
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
    /// Surroundings in which the process runs.
    type Around;

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
    fn next(&self, core: &mut Self::Core, around: &Self::Around) -> Then<Self::Need>;

    /// Begins a step, on the thread of a lane. Returns a need if one shows only now; the step then does not begin.
    fn step(&self, core: &mut Self::Core, around: &Self::Around, lane: LaneId) -> Option<Self::Need>;

    /// Ends the process: releases all that it holds. It may have ended before.
    fn close(&self, core: &mut Self::Core, around: &Self::Around);

    /// Starts a process that is present and idle, with its first step.
    fn start(&self, core: &mut Self::Core) -> Then<Self::Need> {
        debug_assert!(Self::control(core).is_idle(), "nobody else has found it");
        let then = self.init(core).map_or(Then::Step, Then::Needs);
        Self::control(core).go_on(then)
    }

    /// Sends an event to the process (L6).
    fn send(&self, core: &mut Self::Core, around: &Self::Around, event: Self::Event) -> Then<Self::Need> {
        if self.keep(core, event) {
            self.wake(core, around)
        } else {
            Then::Rest
        }
    }

    /// Notes that something happened to the process (L1, L2).
    fn wake(&self, core: &mut Self::Core, around: &Self::Around) -> Then<Self::Need> {
        if Self::control(core).is_idle() {
            let then = self.next(core, around);
            Self::control(core).go_on(then)
        } else {
            Self::control(core).notify();
            Then::Rest
        }
    }

    /// Begins a step after a lane took the process from its queue. [`Then::Step`]: the step has begun. [`Then::Rest`]:
    /// the process has ended in the meantime, and there is nothing to run.
    fn begin(&self, core: &mut Self::Core, around: &Self::Around, lane: LaneId) -> Then<Self::Need> {
        if !Self::control(core).begin() {
            return Then::Rest;
        }
        match self.step(core, around, lane) {
            None => Then::Step,
            Some(need) => Self::control(core).go_on(Then::Needs(need)),
        }
    }

    /// Ends a step, and the block that may have followed it. `more`: another step follows.
    fn rest(&self, core: &mut Self::Core, around: &Self::Around, more: bool) -> Then<Self::Need> {
        if !matches!(Self::control(core).state(), State::Running | State::Blocked) {
            return Then::Rest;
        }
        let then = match self.next(core, around) {
            Then::Rest if more => Then::Step,
            then => then,
        };
        Self::control(core).go_on(then)
    }

    /// Ends the process, in any state.
    fn stop(&self, around: &Self::Around) {
        let mut core = self.lock();
        Self::control(&mut core).complete();
        self.close(&mut core, around);
    }
}
