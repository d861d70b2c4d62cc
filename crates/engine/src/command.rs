//! The commands of an orchestration.

use crate::{ActivityOptions, CommandEvent, EventId, InstanceStart, Mailbox, Payload};

/// One command of the orchestration. It is recorded as an event, whose id becomes the name of the operation.
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
    /// Create a timer that is due `delay_ms` after the current deterministic time.
    CreateTimer {
        /// Delay, ms.
        delay_ms: i64,
    },
    /// Create a timer that is due at a given time.
    CreateTimerAt {
        /// Due time, ms since 1970.
        fire_at_ms: i64,
    },
    /// Start an instance and wait for its end.
    StartChild(InstanceStart),
    /// Start a detached instance.
    StartInstance(InstanceStart),
    /// Send a message to another instance.
    SendMessage {
        /// Id of the other instance.
        instance: String,
        /// Mailbox of that instance.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// Give up an operation that has not settled.
    CancelOperation {
        /// Event that scheduled the operation.
        scheduled: EventId,
    },
}

impl Command {
    /// Returns the event that records this command when the deterministic time is `now_ms`.
    pub(crate) fn into_event(self, now_ms: i64) -> CommandEvent {
        match self {
            Command::ScheduleActivity { name, input, options } => {
                CommandEvent::ActivityScheduled { name, input, options }
            }
            Command::CreateTimer { delay_ms } => CommandEvent::TimerCreated {
                fire_at_ms: now_ms.saturating_add(delay_ms),
            },
            Command::CreateTimerAt { fire_at_ms } => CommandEvent::TimerCreated { fire_at_ms },
            Command::StartChild(start) => CommandEvent::ChildScheduled(start),
            Command::StartInstance(start) => CommandEvent::InstanceStarted(start),
            Command::SendMessage {
                instance,
                mailbox,
                payload,
            } => CommandEvent::MessageSent {
                instance,
                mailbox,
                payload,
            },
            Command::CancelOperation { scheduled } => CommandEvent::OperationCancelled { scheduled },
        }
    }
}
