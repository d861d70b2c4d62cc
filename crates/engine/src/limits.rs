//! The limits of an execution, and the faults for which it must not go on.
//!
//! Limits are options of the process that runs the execution and no part of its history. They are checked only past the
//! history, so a replay under other limits has the same result. An execution that reaches a limit is broken as by a
//! mismatch (E4): nothing of its turn is stored.

use crate::{EventId, Mismatch};

/// Limits of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of events in the history, besides the one that ends the execution.
    pub history_events: u64,
    /// Maximum bytes of the values in the history, besides that of the event that ends the execution.
    pub history_bytes: u64,
    /// Maximum bytes of the values that one turn records, besides that of the event that ends the execution. A single
    /// value always passes.
    pub turn_bytes: u64,
    /// Maximum number of activities that have not settled.
    pub pending_activities: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history_events: 1_000_000,
            history_bytes: 1024 * MIB,
            turn_bytes: 256 * MIB,
            pending_activities: 100_000,
        }
    }
}

const MIB: u64 = 1024 * 1024;

/// Amount by which an execution that is asked to cancel may exceed its limits of numbers: the request comes through,
/// and the code cleans up.
pub const CANCEL_GRACE: usize = 10_000;
/// The same for the bytes of its history. A turn has no such grace: the code cleans up in as many turns as it needs.
pub const CANCEL_GRACE_BYTES: u64 = 64 * MIB;

/// A limit that an execution has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitReached {
    /// The history would get too long.
    #[error(
        "the history of this execution has reached its limit of {max} events (limits.historyEvents). Let the code go \
         on with ctx.continueAsNew before its history is so long, or raise the limit; then call client.resume(id)"
    )]
    HistoryEvents {
        /// The limit.
        max: u64,
    },
    /// The history would get too large.
    #[error(
        "the values in the history of this execution have reached their limit of {max} bytes (limits.historyBytes). \
         Let the code go on with ctx.continueAsNew before its history is so large, store large values elsewhere and \
         hand over where they are, or raise the limit; then call client.resume(id)"
    )]
    HistoryBytes {
        /// The limit.
        max: u64,
    },
    /// One turn would record too much at once.
    #[error(
        "one turn of this execution has reached its limit of {max} bytes (limits.turnBytes): what the code asks for \
         before it waits is stored in one transaction. Let the code wait in between, for instance by scheduling fewer \
         activities at once, store large values elsewhere and hand over where they are, or raise the limit; then call \
         client.resume(id)"
    )]
    TurnBytes {
        /// The limit.
        max: u64,
    },
    /// Too many activities would be pending.
    #[error(
        "this execution has reached its limit of {max} pending activities (limits.pendingActivities). Let the code \
         schedule fewer at once, for instance by fibers that receive their work from a ctx.channel, or raise the \
         limit; then call client.resume(id)"
    )]
    PendingActivities {
        /// The limit.
        max: usize,
    },
}

impl LimitReached {
    /// Name of the limit among the options.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            LimitReached::HistoryEvents { .. } => "historyEvents",
            LimitReached::HistoryBytes { .. } => "historyBytes",
            LimitReached::TurnBytes { .. } => "turnBytes",
            LimitReached::PendingActivities { .. } => "pendingActivities",
        }
    }

    /// Value of the limit.
    #[must_use]
    pub const fn max(&self) -> u64 {
        match self {
            LimitReached::HistoryEvents { max }
            | LimitReached::HistoryBytes { max }
            | LimitReached::TurnBytes { max } => *max,
            LimitReached::PendingActivities { max } => *max as u64,
        }
    }
}

/// Reasons for which an execution must not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The code does not fit its history.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The execution has reached a limit.
    #[error(transparent)]
    Limit(#[from] LimitReached),
}

/// Size of an execution at the point where an event is to be recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecutionSize {
    /// Id of the event.
    pub(crate) next_event_id: EventId,
    /// Bytes of the values in the history.
    pub(crate) history_bytes: u64,
    /// Bytes of the values that the turn in progress has recorded; a part of `history_bytes`.
    pub(crate) turn_bytes: u64,
    /// Activities that have not settled.
    pub(crate) pending_activities: usize,
    /// True if the instance was asked to cancel.
    pub(crate) is_cancelling: bool,
}

/// Growth of an execution by one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// Bytes of the event's value.
    pub(crate) bytes: u64,
    /// True if the event schedules an activity.
    pub(crate) is_activity: bool,
}

impl Growth {
    /// Returns the growth by an event that carries `value`, if it has one, and schedules no activity.
    pub(crate) fn by_value(value: Option<&str>) -> Self {
        Self {
            bytes: value.map_or(0, str::len) as u64,
            is_activity: false,
        }
    }
}

impl Limits {
    /// Returns the limit that the execution would exceed if it grew.
    pub(crate) fn exceeded_by(&self, growth: Growth, size: ExecutionSize) -> Option<LimitReached> {
        let (grace, grace_bytes) = if size.is_cancelling {
            (CANCEL_GRACE, CANCEL_GRACE_BYTES)
        } else {
            (0, 0)
        };
        if size.next_event_id.0 > self.history_events.saturating_add(grace as u64) {
            let max = self.history_events;
            return Some(LimitReached::HistoryEvents { max });
        }
        if size.history_bytes.saturating_add(growth.bytes) > self.history_bytes.saturating_add(grace_bytes) {
            let max = self.history_bytes;
            return Some(LimitReached::HistoryBytes { max });
        }
        if size.turn_bytes > 0 && size.turn_bytes.saturating_add(growth.bytes) > self.turn_bytes {
            let max = self.turn_bytes;
            return Some(LimitReached::TurnBytes { max });
        }
        if growth.is_activity && size.pending_activities >= self.pending_activities.saturating_add(grace) {
            let max = self.pending_activities;
            return Some(LimitReached::PendingActivities { max });
        }
        None
    }
}
