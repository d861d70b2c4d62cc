//! The state of a process: whether it is queued, and whether something happened meanwhile.

/// Where a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It waits for a notification.
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

/// State and wakeup flag of a process. The owner keeps it behind the same lock as what the process works on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    state: State,
    notified: bool,
}

impl Process {
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

    /// Something happened. `true`: the caller must push it to a queue (L1, L2).
    #[must_use]
    pub fn notify(&mut self) -> bool {
        match self.state {
            State::Idle => {
                self.state = State::Ready;
                true
            }
            State::Running | State::Blocked => {
                self.notified = true;
                false
            }
            State::Ready | State::Complete => false,
        }
    }

    /// A lane took it from its queue. `false`: it is over meanwhile, there is nothing to run.
    #[must_use]
    pub fn begin(&mut self) -> bool {
        if self.state != State::Ready {
            return false;
        }
        self.state = State::Running;
        self.notified = false;
        true
    }

    /// It now waits for something of its own. `false`: it is over meanwhile.
    pub fn block(&mut self) -> bool {
        if self.state == State::Complete {
            return false;
        }
        self.state = State::Blocked;
        true
    }

    /// Its step is over, or what blocked it is. `true`: it was notified meanwhile or has `more` to do; the caller must push it.
    #[must_use]
    pub fn end(&mut self, more: bool) -> bool {
        match self.state {
            State::Running | State::Blocked => {
                let ready = more || self.notified;
                self.notified = false;
                self.state = if ready { State::Ready } else { State::Idle };
                ready
            }
            State::Idle | State::Ready | State::Complete => false,
        }
    }

    /// It is over.
    pub fn complete(&mut self) {
        self.state = State::Complete;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_pushed_once_however_often_it_is_notified() {
        let mut process = Process::default();
        assert!(process.notify());
        assert!(!process.notify());
        assert!(process.begin());
        assert_eq!(process.state(), State::Running);
    }

    #[test]
    fn a_notification_during_a_step_or_a_block_is_not_lost() {
        for block in [false, true] {
            let mut process = Process::default();
            assert!(process.notify() && process.begin());
            if block {
                assert!(process.block());
            }
            assert!(!process.notify());
            assert!(process.end(false), "notified meanwhile");
            assert!(process.begin());
            assert!(!process.end(false), "the notification was used up");
            assert!(process.is_idle());
        }
    }

    #[test]
    fn nothing_wakes_what_is_complete() {
        let mut process = Process::default();
        assert!(process.notify());
        process.complete();
        assert!(!process.begin());
        assert!(!process.notify());
        assert!(!process.end(true));
        assert!(!process.block());
    }
}
