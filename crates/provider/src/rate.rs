//! Rates: how often something may happen, and how often it has.

use std::fmt::Write;

/// Most spans of time that [`Admissions`] keep apart.
const SPANS_MAX: u64 = 256;

/// A limit of how many admissions there may be in any span of time of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Most admissions in the span, at least 1.
    pub limit: u32,
    /// Length of the span, ms, at least 1.
    pub per_ms: u64,
}

impl Rate {
    /// Returns the length of the spans that are kept apart, ms.
    const fn grain_ms(self) -> i64 {
        let grain = self.per_ms.div_ceil(SPANS_MAX);
        if grain > i64::MAX as u64 {
            i64::MAX
        } else {
            grain as i64
        }
    }

    fn per_ms(self) -> i64 {
        i64::try_from(self.per_ms).unwrap_or(i64::MAX)
    }
}

/// The admissions of the last time, as a row keeps them. Those of one span are kept as one number, with the time of the
/// last of them, so the rate is never exceeded, and at most a 256th of it is lost. No time lies in the future, so one
/// that was noted under a rate of a day holds for a rate of a second, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admissions(Vec<(i64, u32)>);

impl Admissions {
    /// Reads a text: pairs of a time and a number, as in `1790000000000:5 20:1`. Each time but the first is the
    /// distance to the one before. What another program has written beside that is left out.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut admissions = Vec::new();
        let mut at = 0_i64;
        for pair in text.split(' ') {
            let numbers = pair.split_once(':');
            let Some((Ok(after), Ok(count))) = numbers.map(|(after, count)| (after.parse::<i64>(), count.parse()))
            else {
                continue;
            };
            at = at.saturating_add(after);
            admissions.push((at, count));
        }
        Self(admissions)
    }

    /// Returns the text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (mut text, mut before) = (String::new(), 0);
        for (at, count) in &self.0 {
            let sign = if text.is_empty() { "" } else { " " };
            // Writing to a text does not fail.
            let _ = write!(text, "{sign}{}:{count}", at - before);
            before = *at;
        }
        text
    }

    /// Returns true if there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many more admissions a rate allows now.
    #[must_use]
    pub fn free(&self, rate: Rate, now_ms: i64) -> u32 {
        let counted = self.0.iter().filter(|(at, _)| Self::counts(*at, rate, now_ms));
        let used: u64 = counted.map(|(_, count)| u64::from(*count)).sum();
        rate.limit.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    fn counts(at: i64, rate: Rate, now_ms: i64) -> bool {
        at > now_ms.saturating_sub(rate.per_ms())
    }

    /// Returns the time at which the rate allows another admission, ms since 1970, if it allows none now.
    #[must_use]
    pub fn next_free_at(&self, rate: Rate, now_ms: i64) -> i64 {
        let mut more = self.free(rate, now_ms);
        let mut counted = self.0.iter().filter(|(at, _)| Self::counts(*at, rate, now_ms));
        let mut free_at = now_ms;
        while more == 0
            && let Some((at, count)) = counted.next()
        {
            // The limit may be lower than it was when these were admitted.
            let left: u64 = counted.clone().map(|(_, count)| u64::from(*count)).sum();
            more = u32::from(*count > 0 && left < u64::from(rate.limit));
            free_at = at.saturating_add(rate.per_ms());
        }
        free_at
    }

    /// Returns the time from which on none of the admissions counts, ms since 1970; `None` if there were none.
    #[must_use]
    pub fn over_at(&self, rate: Rate) -> Option<i64> {
        self.0.last().map(|(at, _)| at.saturating_add(rate.per_ms()))
    }

    /// Adds admissions of this moment, and drops those that no longer count.
    pub fn add(&mut self, count: u32, rate: Rate, now_ms: i64) {
        if count == 0 {
            return;
        }
        self.0.retain(|(at, _)| Self::counts(*at, rate, now_ms));
        let span = |at: i64| at.div_euclid(rate.grain_ms());
        match self.0.last_mut() {
            Some((last, so_far)) if span(*last) >= span(now_ms) => {
                // A clock that was set back must not put an admission before the last one.
                *last = now_ms.max(*last);
                *so_far = so_far.saturating_add(count);
            }
            _ => self.0.push((now_ms, count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE_A_SECOND: Rate = Rate {
        limit: 5,
        per_ms: 1_000,
    };

    #[test]
    fn any_span_of_the_length_has_at_most_the_limit() {
        let (mut admissions, mut times) = (Admissions::default(), Vec::new());
        let mut now = 1_790_000_000_003;
        for step in 0..2_000_i64 {
            let free = admissions.free(FIVE_A_SECOND, now);
            let count = free.min(1 + (step % 3) as u32);
            admissions.add(count, FIVE_A_SECOND, now);
            times.extend((0..count).map(|_| now));
            now += 1 + (step * 7) % 90;
        }
        assert!(times.len() > 400, "{}", times.len());
        for (n, at) in times.iter().enumerate() {
            let within = times[n..].iter().filter(|other| **other < at + 1_000).count();
            assert!(within <= 5, "{within} from {at} on");
        }
    }

    #[test]
    fn the_next_admission_is_free_when_the_oldest_no_longer_counts() {
        let mut admissions = Admissions::default();
        admissions.add(3, FIVE_A_SECOND, 10_000);
        admissions.add(2, FIVE_A_SECOND, 10_400);
        assert_eq!(admissions.free(FIVE_A_SECOND, 10_900), 0);
        assert_eq!(admissions.next_free_at(FIVE_A_SECOND, 10_900), 11_000);
        assert_eq!(admissions.free(FIVE_A_SECOND, 11_000), 3);
        assert_eq!(admissions.over_at(FIVE_A_SECOND), Some(11_400));
    }

    #[test]
    fn a_lower_limit_waits_for_as_many_as_are_too_many() {
        let mut admissions = Admissions::default();
        admissions.add(3, FIVE_A_SECOND, 10_000);
        admissions.add(2, FIVE_A_SECOND, 10_400);
        let lower = Rate {
            limit: 2,
            per_ms: 1_000,
        };
        assert_eq!(admissions.next_free_at(lower, 10_500), 11_400);
        let higher = Rate {
            limit: 3,
            per_ms: 1_000,
        };
        assert_eq!(admissions.next_free_at(higher, 10_500), 11_000);
    }

    #[test]
    fn a_rate_of_a_second_forgets_what_came_under_a_rate_of_a_day() {
        let daily = Rate {
            limit: 1,
            per_ms: 86_400_000,
        };
        let mut admissions = Admissions::default();
        admissions.add(1, daily, 1_790_000_000_003);
        assert_eq!(
            admissions.next_free_at(FIVE_A_SECOND, 1_790_000_000_500),
            1_790_000_000_500
        );
        admissions.add(4, FIVE_A_SECOND, 1_790_000_000_500);
        assert_eq!(admissions.free(FIVE_A_SECOND, 1_790_000_000_600), 0);
        assert_eq!(admissions.free(FIVE_A_SECOND, 1_790_000_001_500), 5);
    }

    #[test]
    fn the_text_is_read_as_it_was_written_and_stays_short() {
        let daily = Rate {
            limit: 1_000_000,
            per_ms: 86_400_000,
        };
        let mut admissions = Admissions::default();
        for minute in 0..2_880 {
            admissions.add(3, daily, 1_790_000_000_000 + minute * 60_000);
        }
        let text = admissions.to_text();
        assert!(text.len() < 4_000, "{}", text.len());
        assert_eq!(Admissions::read(&text), admissions);
        assert_eq!(Admissions::read(""), Admissions::default());
        assert_eq!(Admissions::read("x 5:2 7"), Admissions(vec![(5, 2)]));
    }

    #[test]
    fn a_clock_set_back_exceeds_nothing() {
        let mut admissions = Admissions::default();
        admissions.add(5, FIVE_A_SECOND, 20_000);
        assert_eq!(admissions.free(FIVE_A_SECOND, 15_000), 0);
        admissions.add(1, FIVE_A_SECOND, 15_000);
        assert_eq!(admissions.0, [(20_000, 6)]);
    }
}
