//! The time limit of the instance, which cancels it.
//!
//! The cancellation is recorded as a request without a reason. Once the time is over, it comes before any other
//! request, so the first request at or after the deadline is that of the limit, also in a replay.

use std::mem;

use super::Engine;

impl Engine {
    /// The first turn is at this time, later than the start.
    pub(super) fn begins_at(&mut self, time_ms: i64) {
        self.time_ms = time_ms;
        if let Some(deadline) = &mut self.deadline {
            deadline.count_from(time_ms);
        }
    }

    /// The time at which the time limit is over, ms since 1970; `None`: there is no limit, or the instance was
    /// cancelled.
    pub(super) fn deadline_ms(&self) -> Option<i64> {
        let deadline = self.deadline.as_deref().filter(|_| !self.was_cancelled);
        deadline.map(|deadline| deadline.at_ms)
    }

    /// Returns true if the time is over, and the instance was not cancelled yet.
    pub(super) fn is_over(&self, now_ms: i64) -> bool {
        self.deadline_ms().is_some_and(|at_ms| at_ms <= now_ms)
    }

    /// Returns true if the time is over, once: the instance is cancelled then.
    pub(super) fn time_out(&mut self, now_ms: i64) -> bool {
        let is_over = self.is_over(now_ms);
        if let Some(deadline) = self.deadline.as_deref_mut().filter(|_| is_over) {
            deadline.has_passed = true;
        }
        is_over
    }

    /// A request to cancel is delivered. Returns the time that the instance had, ms, if it is that of the limit.
    pub(super) fn note_cancel(&mut self) -> Option<u64> {
        if self.is_replaying() {
            self.time_out(self.time_ms);
        }
        let is_first = !mem::replace(&mut self.was_cancelled, true);
        let deadline = self
            .deadline
            .as_deref()
            .filter(|deadline| is_first && deadline.has_passed);
        deadline.map(|deadline| deadline.limit.timeout_ms)
    }
}
