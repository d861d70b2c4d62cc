//! The scheduler's part of a process: its state, its wakeup flag, and the events that no step has taken.

use std::vec::Drain;

/// State of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The process waits for an event.
    #[default]
    Idle,
    /// The process is in a queue.
    Ready,
    /// A lane runs the process.
    Running,
    /// The process waits for something of its own (its commit, a page of its history) and cannot run.
    Blocked,
    /// The process is over; no event wakes it.
    Complete,
}

impl State {
    /// True if the process does nothing by itself.
    pub(crate) const fn is_at_rest(self) -> bool {
        matches!(self, State::Idle | State::Complete)
    }
}

/// The next action for a process. The caller that received it must carry it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum NextAction<N> {
    /// No action.
    Rest,
    /// A step: push the process to a queue.
    Step,
    /// The process is blocked: get it this need, then [resume](Control::resume) it.
    Needs(N),
}

/// State, wakeup flag and event queue of a process. The owner keeps them behind the same lock as the core of the
/// process: a holder of the lock may put events in, and the thread that runs the process takes them.
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
    /// State of the process.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// True if the process can be set aside: it waits and nothing has happened.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Keeps an event for a step, without making the process ready.
    pub fn put(&mut self, event: E) {
        self.events.push(event);
    }

    /// Events that no step has taken, in order of arrival.
    #[must_use]
    pub fn events(&self) -> &[E] {
        &self.events
    }

    /// Takes the events, each once.
    pub fn take(&mut self) -> Drain<'_, E> {
        self.events.drain(..)
    }

    /// Drops the events that are not wanted.
    pub fn retain(&mut self, is_wanted: impl FnMut(&E) -> bool) {
        self.events.retain(is_wanted);
    }

    /// Notes that something happened while the process was running or blocked: it gets another step afterwards (L2).
    pub(crate) fn notify(&mut self) {
        self.notified |= matches!(self.state, State::Running | State::Blocked);
    }

    /// Begins a step after a lane took the process from its queue. `false`: the process has ended in the meantime, and
    /// there is nothing to run.
    pub(crate) fn begin(&mut self) -> bool {
        if self.state != State::Ready {
            return false;
        }
        self.state = State::Running;
        self.notified = false;
        true
    }

    /// Ends a step or a block; `action` is the next action. If something happened in the meantime, the next action is a
    /// step (L2).
    pub(crate) fn go_on<N>(&mut self, action: NextAction<N>) -> NextAction<N> {
        if self.state == State::Complete {
            return NextAction::Rest;
        }
        let is_notified = std::mem::take(&mut self.notified);
        let action = match action {
            NextAction::Rest if is_notified => NextAction::Step,
            action => action,
        };
        self.state = match action {
            NextAction::Rest => State::Idle,
            NextAction::Step => State::Ready,
            NextAction::Needs(_) => State::Blocked,
        };
        action
    }

    /// Blocks the process: it now waits for something of its own. `false`: the process has ended in the meantime.
    #[must_use]
    pub fn block(&mut self) -> bool {
        if self.state == State::Complete {
            return false;
        }
        self.state = State::Blocked;
        true
    }

    /// Ends a block; the next step of the process follows. `true`: the caller must push it.
    #[must_use]
    pub fn resume(&mut self) -> bool {
        let is_blocked = self.state == State::Blocked;
        if is_blocked {
            self.state = State::Ready;
        }
        is_blocked
    }

    /// Completes the process: no event wakes it from here on. Its core stays: it may be [renewed](Self::renew), or
    /// [stopped](crate::Process::stop).
    pub fn complete(&mut self) {
        self.state = State::Complete;
    }

    /// Makes a complete process wait again. Earlier events are kept.
    pub fn renew(&mut self) {
        self.state = State::Idle;
        self.notified = false;
    }
}
