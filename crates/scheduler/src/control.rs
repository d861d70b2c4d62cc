//! What the scheduler has of a process: where it is, whether something happened meanwhile, and the events that no step has taken.

use std::vec::Drain;

/// Where a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It waits for an event.
    #[default]
    Idle,
    /// It is in a queue.
    Ready,
    /// A lane runs it.
    Running,
    /// It waits for something of its own (its commit, a page of its history) and cannot run.
    Blocked,
    /// It is over; nothing wakes it.
    Complete,
}

impl State {
    /// Whether it does nothing by itself.
    pub(crate) const fn is_at_rest(self) -> bool {
        matches!(self, State::Idle | State::Complete)
    }
}

/// What becomes of a process, and what whoever has brought that about does for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Then<N> {
    /// Nothing.
    Rest,
    /// A step: push it to a queue.
    Step,
    /// It is blocked: get it this, then [resume](Control::resume) it.
    Needs(N),
}

/// State, wakeup flag and event queue of a process. Its owner keeps them behind the same lock as what the process works on: whoever has that
/// lock may put events in, and the one that runs the process takes them.
#[derive(Debug)]
pub struct Control<E> {
    state: State,
    notified: bool,
    events: Vec<E>,
}

impl<E> Default for Control<E> {
    fn default() -> Self {
        Self {
            state: State::default(),
            notified: false,
            events: Vec::new(),
        }
    }
}

impl<E> Control<E> {
    /// Where it is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether it can be set aside: it waits and nothing has happened.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Keep an event for a step, without making it ready.
    pub fn put(&mut self, event: E) {
        self.events.push(event);
    }

    /// Events that no step has taken, in the order in which they came.
    #[must_use]
    pub fn events(&self) -> &[E] {
        &self.events
    }

    /// Take them, each once.
    pub fn take(&mut self) -> Drain<'_, E> {
        self.events.drain(..)
    }

    /// Forget those that are not wanted.
    pub fn retain(&mut self, is_wanted: impl FnMut(&E) -> bool) {
        self.events.retain(is_wanted);
    }

    /// Something happened while it was not idle: it is seen to later (L2).
    pub(crate) fn notify(&mut self) {
        self.notified |= matches!(self.state, State::Running | State::Blocked);
    }

    /// A lane took it from its queue. `false`: it is over meanwhile, there is nothing to run.
    pub(crate) fn begin(&mut self) -> bool {
        if self.state != State::Ready {
            return false;
        }
        self.state = State::Running;
        self.notified = false;
        true
    }

    /// Its step is over, or what blocked it is, and this is next. What has happened meanwhile is a step (L2).
    pub(crate) fn go_on<N>(&mut self, then: Then<N>) -> Then<N> {
        if self.state == State::Complete {
            return Then::Rest;
        }
        let is_notified = std::mem::take(&mut self.notified);
        let then = match then {
            Then::Rest if is_notified => Then::Step,
            then => then,
        };
        self.state = match then {
            Then::Rest => State::Idle,
            Then::Step => State::Ready,
            Then::Needs(_) => State::Blocked,
        };
        then
    }

    /// It now waits for something of its own. `false`: it is over meanwhile.
    #[must_use]
    pub fn block(&mut self) -> bool {
        if self.state == State::Complete {
            return false;
        }
        self.state = State::Blocked;
        true
    }

    /// What blocked it is here, and its next step follows. `true`: the caller must push it.
    #[must_use]
    pub fn resume(&mut self) -> bool {
        let is_blocked = self.state == State::Blocked;
        if is_blocked {
            self.state = State::Ready;
        }
        is_blocked
    }

    /// Nothing wakes it from here on. What it holds stays: it may be [renewed](Self::renew), or [stopped](crate::Process::stop).
    pub fn complete(&mut self) {
        self.state = State::Complete;
    }

    /// It was complete and waits again. What came before is kept.
    pub fn renew(&mut self) {
        self.state = State::Idle;
        self.notified = false;
    }
}
