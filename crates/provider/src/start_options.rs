//! When a new instance is due, and what a start does if its id is in use.

use crate::Status;

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

/// The reaction of a start to an id that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Answers [`Exists`](crate::Outcome::Exists) and changes nothing.
    Keep,
    /// Replaces an instance that has ended, whose history is deleted. Answers [`Exists`](crate::Outcome::Exists) for an
    /// instance that has not ended.
    RestartIfTerminal,
    /// Replaces an instance that has ended in any other way than `Completed`. Answers
    /// [`Exists`](crate::Outcome::Exists) for all others.
    RestartIfFailed,
    /// Replaces any instance. An instance that has not ended is terminated by the same write: its parent is told, and
    /// its children are cancelled. A start that goes with a turn never replaces the instance of that turn.
    TerminateAndRestart,
}

impl OnConflict {
    /// Returns true if a start replaces an instance in this status without terminating it.
    #[must_use]
    pub const fn replaces(self, status: Status) -> bool {
        match self {
            Self::Keep => false,
            Self::RestartIfTerminal | Self::TerminateAndRestart => status.is_terminal(),
            Self::RestartIfFailed => status.is_terminal() && !matches!(status, Status::Completed),
        }
    }
}
