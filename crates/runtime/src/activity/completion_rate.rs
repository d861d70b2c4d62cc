//! The turnover of an activity: the number of its attempts that end here in a short time. It tells if one more would
//! have a slot soon.

use tokio::time::Instant;

use crate::options::SLOT_SOON;

/// The ends of one activity's attempts, counted in periods of [`SLOT_SOON`].
pub(crate) struct Turnover {
    since: Instant,
    ended: usize,
    /// The number in the period before.
    before: usize,
}

impl Turnover {
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

    /// Returns the number of attempts that have ended in one period, lately.
    pub(crate) fn lately(&self, now: Instant) -> usize {
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
    fn what_ended_long_ago_does_not_count() {
        let began = Instant::now();
        let mut turnover = Turnover::first(began);
        for _ in 1..5 {
            turnover.note(began);
        }
        let half = SLOT_SOON / 2;
        assert_eq!(turnover.lately(began), 5);
        assert_eq!(turnover.lately(began + SLOT_SOON + half), 5);
        turnover.note(began + SLOT_SOON + half);
        assert_eq!(
            turnover.lately(began + SLOT_SOON + half),
            5,
            "those of the period before"
        );
        assert_eq!(turnover.lately(began + 2 * SLOT_SOON + half), 1);
        assert_eq!(turnover.lately(began + 3 * SLOT_SOON), 0);
        turnover.note(began + 9 * SLOT_SOON);
        assert_eq!(turnover.lately(began + 9 * SLOT_SOON), 1);
    }
}
