//! The completion rate of an activity: the number of its attempts that end here in a short time. It tells if one more
//! would have a slot soon.

use tokio::time::Instant;

use crate::options::SLOT_SOON;

/// The ends of one activity's attempts, counted in periods of [`SLOT_SOON`].
pub(crate) struct CompletionRate {
    since: Instant,
    ended: usize,
    /// The number in the period before.
    before: usize,
}

impl CompletionRate {
    /// Starts to count with the end of the first attempt.
    pub(crate) const fn first(now: Instant) -> Self {
        Self {
            since: now,
            ended: 1,
            before: 0,
        }
    }

    /// Counts the end of another attempt.
    pub(crate) fn note(&mut self, now: Instant) {
        let age = now.duration_since(self.since);
        if age >= 2 * SLOT_SOON {
            *self = Self::first(now);
        } else if age >= SLOT_SOON {
            self.since += SLOT_SOON;
            self.before = std::mem::replace(&mut self.ended, 1);
        } else {
            self.ended += 1;
        }
    }

    /// Returns the number of attempts that have ended in one period lately.
    pub(crate) fn per_period(&self, now: Instant) -> usize {
        let age = now.duration_since(self.since);
        if age >= 2 * SLOT_SOON {
            0
        } else if age >= SLOT_SOON {
            self.ended
        } else {
            self.ended.max(self.before)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_long_ago_do_not_count() {
        let began = Instant::now();
        let mut completion_rate = CompletionRate::first(began);
        for _ in 1..5 {
            completion_rate.note(began);
        }
        let half = SLOT_SOON / 2;
        assert_eq!(completion_rate.per_period(began), 5);
        assert_eq!(completion_rate.per_period(began + SLOT_SOON + half), 5);
        completion_rate.note(began + SLOT_SOON + half);
        assert_eq!(
            completion_rate.per_period(began + SLOT_SOON + half),
            5,
            "those of the period before"
        );
        assert_eq!(completion_rate.per_period(began + 2 * SLOT_SOON + half), 1);
        assert_eq!(completion_rate.per_period(began + 3 * SLOT_SOON), 0);
        completion_rate.note(began + 9 * SLOT_SOON);
        assert_eq!(completion_rate.per_period(began + 9 * SLOT_SOON), 1);
    }
}
