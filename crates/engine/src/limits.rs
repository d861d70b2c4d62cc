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
    /// Activities that have not settled.
    pub pending_activities: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history_events: 1_000_000,
            pending_activities: 100_000,
        }
    }
}

/// By how much an execution that is asked to cancel may exceed each of its limits: the request comes through, and the code cleans up.
pub const CANCEL_GRACE: usize = 10_000;

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
            LimitReached::PendingActivities { .. } => "pendingActivities",
        }
    }

    /// Its value.
    #[must_use]
    pub const fn max(&self) -> u64 {
        match self {
            LimitReached::HistoryEvents { max } => *max,
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

impl Limits {
    /// The limit that an event would exceed if it was recorded as `id`, while `pending` activities are.
    pub(crate) fn exceeded_by(
        &self,
        event: &Event,
        id: EventId,
        pending: usize,
        is_cancelling: bool,
    ) -> Option<LimitReached> {
        let grace = if is_cancelling { CANCEL_GRACE } else { 0 };
        if id.0 > self.history_events.saturating_add(grace as u64) {
            let max = self.history_events;
            return Some(LimitReached::HistoryEvents { max });
        }
        let schedules = matches!(event, Event::ActivityScheduled { .. });
        if schedules && pending >= self.pending_activities.saturating_add(grace) {
            let max = self.pending_activities;
            return Some(LimitReached::PendingActivities { max });
        }
        None
    }
}
