//! How large an execution may grow, and why it was refused to go on.
//!
//! Limits are options of whoever runs the execution and no part of its history, so they are looked at past the history alone: a replay
//! under other limits comes to the same. An execution that reaches one is broken as by a mismatch (E4): nothing of its turn is stored.

use crate::{Event, EventId, Mismatch};

/// How large an execution may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events in its history, besides the one that ends it.
    pub history_events: u64,
    /// Bytes of the values in its history, besides that of the event that ends it.
    pub history_bytes: u64,
    /// Bytes of the values that one turn records, besides that of the event that ends the execution. A single value always passes.
    pub turn_bytes: u64,
    /// Activities that have not settled.
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

/// By how much an execution that is asked to cancel may exceed its limits of numbers: the request comes through, and the code cleans up.
pub const CANCEL_GRACE: usize = 10_000;
/// The same for the bytes of its history. A turn has no such grace: the code cleans up in as many turns as it needs.
pub const CANCEL_GRACE_BYTES: u64 = 64 * MIB;

/// A limit that an execution has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitReached {
    /// Its history would get too long.
    #[error(
        "the history of this execution has reached its limit of {max} events (limits.historyEvents). Let the code go on with \
         ctx.continueAsNew before its history is so long, or raise the limit; then call client.resume(id)"
    )]
    HistoryEvents {
        /// The limit.
        max: u64,
    },
    /// Its history would get too large.
    #[error(
        "the values in the history of this execution have reached their limit of {max} bytes (limits.historyBytes). Let the code go on \
         with ctx.continueAsNew before its history is so large, store large values elsewhere and hand over where they are, or raise the \
         limit; then call client.resume(id)"
    )]
    HistoryBytes {
        /// The limit.
        max: u64,
    },
    /// One turn would record too much at once.
    #[error(
        "one turn of this execution has reached its limit of {max} bytes (limits.turnBytes): what the code asks for before it waits is \
         stored in one transaction. Let the code wait in between, for instance by scheduling fewer activities at once, store large values \
         elsewhere and hand over where they are, or raise the limit; then call client.resume(id)"
    )]
    TurnBytes {
        /// The limit.
        max: u64,
    },
    /// Too many activities would be pending.
    #[error(
        "this execution has reached its limit of {max} pending activities (limits.pendingActivities). Let the code schedule fewer at \
         once, for instance by fibers that receive their work from a ctx.channel, or raise the limit; then call client.resume(id)"
    )]
    PendingActivities {
        /// The limit.
        max: usize,
    },
}

impl LimitReached {
    /// Its name among the options.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            LimitReached::HistoryEvents { .. } => "historyEvents",
            LimitReached::HistoryBytes { .. } => "historyBytes",
            LimitReached::TurnBytes { .. } => "turnBytes",
            LimitReached::PendingActivities { .. } => "pendingActivities",
        }
    }

    /// Its value.
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

/// Why an execution must not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The code does not fit its history.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// It has reached a limit.
    #[error(transparent)]
    Limit(#[from] LimitReached),
}

/// How large an execution is, where an event is to be recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grown {
    /// The event's id.
    pub(crate) next_event_id: EventId,
    /// Bytes of the values in its history.
    pub(crate) history_bytes: u64,
    /// Of these, what the turn in progress has recorded.
    pub(crate) turn_bytes: u64,
    /// Activities that are pending.
    pub(crate) pending_activities: usize,
    /// It was asked to cancel.
    pub(crate) is_cancelling: bool,
}

impl Limits {
    /// The limit that an event would exceed if it was recorded.
    pub(crate) fn exceeded_by(&self, event: &Event, grown: Grown) -> Option<LimitReached> {
        let (grace, grace_bytes) = if grown.is_cancelling {
            (CANCEL_GRACE, CANCEL_GRACE_BYTES)
        } else {
            (0, 0)
        };
        if grown.next_event_id.0 > self.history_events.saturating_add(grace as u64) {
            let max = self.history_events;
            return Some(LimitReached::HistoryEvents { max });
        }
        let bytes = event.payload_bytes() as u64;
        if grown.history_bytes.saturating_add(bytes) > self.history_bytes.saturating_add(grace_bytes) {
            let max = self.history_bytes;
            return Some(LimitReached::HistoryBytes { max });
        }
        if grown.turn_bytes > 0 && grown.turn_bytes.saturating_add(bytes) > self.turn_bytes {
            let max = self.turn_bytes;
            return Some(LimitReached::TurnBytes { max });
        }
        let schedules = matches!(event, Event::ActivityScheduled { .. });
        if schedules && grown.pending_activities >= self.pending_activities.saturating_add(grace) {
            let max = self.pending_activities;
            return Some(LimitReached::PendingActivities { max });
        }
        None
    }
}
