//! The time at which a new instance is due.

/// The time at which a new instance is due. If it has a queue, it is in line from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartTime {
    /// Now.
    #[default]
    Now,
    /// After a time, ms.
    After(u64),
    /// At a time of the store's clock, ms since 1970. A time in the past is now.
    At(i64),
}

impl StartTime {
    /// Returns the time by the store's clock, ms since 1970; never before `now_ms`.
    #[must_use]
    pub fn at_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::Now => now_ms,
            Self::After(ms) => now_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)),
            Self::At(at_ms) => at_ms.max(now_ms),
        }
    }
}
