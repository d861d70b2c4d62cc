//! How many attempts of an activity end here in a short time: tells whether one more would have a slot soon.

use tokio::time::Instant;

use crate::options::SLOT_SOON;

/// Ends of attempts of one activity, counted over periods of [`SLOT_SOON`].
pub(crate) struct Turnover {
    since: Instant,
    ended: usize,
    /// In the period before.
    before: usize,
}

impl Turnover {
    /// The first attempt has ended.
    pub(crate) const fn first(now: Instant) -> Self {
        Self {
            since: now,
            ended: 1,
            before: 0,
        }
    }

    /// Another one has.
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

    /// How many have ended in one period, lately.
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
