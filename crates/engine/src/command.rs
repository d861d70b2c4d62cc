//! What an orchestration asks for.

use crate::{ActivityOptions, Event, EventId, Payload};

/// One request of the orchestration; recorded as an event, whose id becomes the name of the operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Run an activity.
    ScheduleActivity {
        /// Name of the activity.
        name: String,
        /// Its input.
        input: Payload,
        /// Its effective options.
        options: ActivityOptions,
    },
    /// A timer that is due `delay_ms` after the deterministic time of now.
    CreateTimer {
        /// Delay, ms.
        delay_ms: i64,
    },
    /// A timer that is due at a time.
    CreateTimerAt {
        /// When, ms since 1970.
        fire_at_ms: i64,
    },
    /// Give up an operation that has not settled.
    CancelOperation {
        /// Its schedule.
        scheduled: EventId,
    },
}

impl Command {
    /// The event that records this command when the deterministic time is `now_ms`.
    pub(crate) fn into_event(self, now_ms: i64) -> Event {
        match self {
            Command::ScheduleActivity { name, input, options } => Event::ActivityScheduled { name, input, options },
            Command::CreateTimer { delay_ms } => Event::TimerCreated {
                fire_at_ms: now_ms.saturating_add(delay_ms),
            },
            Command::CreateTimerAt { fire_at_ms } => Event::TimerCreated { fire_at_ms },
            Command::CancelOperation { scheduled } => Event::OperationCancelled { scheduled },
        }
    }
}
