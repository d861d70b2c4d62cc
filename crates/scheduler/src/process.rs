//! A process: what the scheduler asks of it, and what it does with it.
//!
//! A step is not a call but what is between two, [`begin`](Process::begin) and [`rest`](Process::rest): the code that it runs may be another
//! language's, which asks for its steps by itself. Nor does the scheduler push: what is to be done next it returns ([`Then`]), because
//! the owner has its locks to let go of first, and knows on which lane that may run.

use std::ops::DerefMut;

use crate::control::{Control, State, Then};
use crate::lane::LaneId;

/// A thing that is run in steps. It provides the first methods; the scheduler's own are below. No method locks it but [`lock`](Self::lock)
/// and [`stop`](Self::stop).
pub trait Process {
    /// What is sent to it.
    type Event;
    /// What it may have to be given before a step.
    type Need;
    /// What it works on, and its [`Control`].
    type Core;
    /// What it is run in.
    type Around;

    /// Its core, locked.
    fn lock(&self) -> impl DerefMut<Target = Self::Core>;

    /// The part of its core that is the scheduler's.
    fn control(core: &mut Self::Core) -> &mut Control<Self::Event>;

    /// It was made, or comes back, and is here from now on. What it needs before its first step.
    fn init(&self, core: &mut Self::Core) -> Option<Self::Need>;

    /// An event was sent to it: [put](Control::put) it into its queue, which holds as many as the process lets it. `false`: the event
    /// changes nothing.
    fn keep(&self, core: &mut Self::Core, event: Self::Event) -> bool;

    /// Nobody runs it: what it does about what has come.
    fn next(&self, core: &mut Self::Core, around: &Self::Around) -> Then<Self::Need>;

    /// Its step begins, on the thread of a lane. What it needs before, if that shows only now: then the step does not begin.
    fn step(&self, core: &mut Self::Core, around: &Self::Around, lane: LaneId) -> Option<Self::Need>;

    /// It is over: let go of what it holds. It may have been over before.
    fn close(&self, core: &mut Self::Core, around: &Self::Around);

    /// It is here, and idle: its first step.
    fn start(&self, core: &mut Self::Core) -> Then<Self::Need> {
        debug_assert!(Self::control(core).is_idle(), "nobody else has found it");
        let then = self.init(core).map_or(Then::Step, Then::Needs);
        Self::control(core).go_on(then)
    }

    /// Send it an event (L6).
    fn send(&self, core: &mut Self::Core, around: &Self::Around, event: Self::Event) -> Then<Self::Need> {
        if self.keep(core, event) {
            self.wake(core, around)
        } else {
            Then::Rest
        }
    }

    /// Something happened to it (L1, L2).
    fn wake(&self, core: &mut Self::Core, around: &Self::Around) -> Then<Self::Need> {
        if Self::control(core).is_idle() {
            let then = self.next(core, around);
            Self::control(core).go_on(then)
        } else {
            Self::control(core).notify();
            Then::Rest
        }
    }

    /// A lane took it from its queue. [`Then::Step`]: the step has begun. [`Then::Rest`]: it is over meanwhile, there is nothing to run.
    fn begin(&self, core: &mut Self::Core, around: &Self::Around, lane: LaneId) -> Then<Self::Need> {
        if !Self::control(core).begin() {
            return Then::Rest;
        }
        match self.step(core, around, lane) {
            None => Then::Step,
            Some(need) => Self::control(core).go_on(Then::Needs(need)),
        }
    }

    /// Its step is over, with all that it was blocked for. `more`: another one follows.
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

    /// End it, wherever it is.
    fn stop(&self, around: &Self::Around) {
        let mut core = self.lock();
        Self::control(&mut core).complete();
        self.close(&mut core, around);
    }
}
