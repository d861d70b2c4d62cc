//! The events of a history, each in its role: what a replay does with an event is known from its type.
//!
//! | role | recorded | in a replay |
//! |---|---|---|
//! | [`Event::Started`] | by the start of the execution, as event 1 | gives the code its input |
//! | [`Event::Command`] | when the code asked for it | must equal the command that the code issues |
//! | [`Event::Delivery`] | when it was handed to the code, which waited | is handed to the code where it waits |
//! | [`Event::Interruption`] | when it was handed to the code, which did not wait | is handed over at the same point |
//! | [`Event::Note`] | beside the code, for the state of the engine | is applied; the code may do without it |
//! | [`Event::End`] | when the code ended, as the last event | must equal the end of the code |
//! | [`Event::Termination`] | from outside while the code waited, as the last event | stops the code |

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    ActivityOptions, ChildFailure, EventId, ExecutionId, Incarnation, InstanceStart, Mailbox, Payload, Refusal,
    StateValues, TimeLimit, TraceContext,
};

/// The parent to which a child reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentLink {
    /// Id of the parent instance.
    pub instance: String,
    /// Execution of the parent that scheduled the child.
    pub execution: ExecutionId,
    /// Event that scheduled the child.
    pub scheduled: EventId,
}

/// One event of an execution's history.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The start: always event 1.
    Started(ExecutionStarted),
    /// A command of the code.
    Command(CommandEvent),
    /// A delivery to the code, which waited.
    Delivery(DeliveryEvent),
    /// A delivery to the code, which did not wait.
    Interruption(Interruption),
    /// Bookkeeping.
    Note(NoteEvent),
    /// The end of the code.
    End(EndEvent),
    /// The end of the execution from outside.
    Termination(TerminationEvent),
}

/// Start of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionStarted {
    /// Name of the orchestration.
    pub name: String,
    /// Version of the orchestration.
    pub version: String,
    /// Its input.
    pub input: Payload,
    /// Seed of the execution's random numbers.
    pub seed: u64,
    /// Incarnation of the instance; `None`: it was started before instances had incarnations.
    pub incarnation: Option<Incarnation>,
    /// The parent that waits for the end of this instance.
    pub parent: Option<ParentLink>,
    /// The custom status at the end of the previous execution.
    pub custom_status: Payload,
    /// The state at the end of the previous execution.
    pub state: StateValues,
    /// Names of the streams that are closed.
    pub closed_streams: BTreeSet<String>,
    /// The time for which the instance may run; `None`: there is no limit.
    pub time_limit: Option<TimeLimit>,
    /// Trace context of the start.
    pub trace: TraceContext,
}

/// A command of the code.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandEvent {
    /// Run an activity.
    ActivityScheduled {
        /// Name of the activity.
        name: String,
        /// Its input.
        input: Payload,
        /// Its effective options.
        options: ActivityOptions,
    },
    /// Create a durable timer.
    TimerCreated {
        /// Due time, ms since 1970.
        fire_at_ms: i64,
    },
    /// Start an instance and wait for its end.
    ChildScheduled(InstanceStart),
    /// Start a detached instance.
    InstanceStarted(InstanceStart),
    /// Send a message to another instance.
    MessageSent {
        /// Id of the other instance.
        instance: String,
        /// Mailbox of that instance.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// Give up an operation that has not settled.
    OperationCancelled {
        /// Its schedule.
        scheduled: EventId,
    },
}

/// A delivery to the code, which waited.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryEvent {
    /// The result of an activity.
    ActivityCompleted {
        /// The schedule.
        scheduled: EventId,
        /// Return value of the function.
        output: Payload,
    },
    /// The last attempt of an activity failed.
    ActivityFailed {
        /// The schedule.
        scheduled: EventId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The error as the driver encoded it.
        error: Payload,
    },
    /// An awaited timer was due.
    TimerFired {
        /// The timer.
        timer: EventId,
    },
    /// The child returned.
    ChildCompleted {
        /// The schedule.
        scheduled: EventId,
        /// Return value of the child.
        output: Payload,
    },
    /// The child ended without completing.
    ChildFailed {
        /// The schedule.
        scheduled: EventId,
        /// Terminal status of the child.
        failure: ChildFailure,
        /// The error as the driver encoded it, or the reason of a termination.
        error: Payload,
    },
    /// An awaited start or message is durable.
    OperationConfirmed {
        /// Its schedule.
        scheduled: EventId,
    },
    /// A start or message did not reach the other instance.
    OperationRefused {
        /// Its schedule.
        scheduled: EventId,
        /// The reason.
        refusal: Refusal,
    },
    /// A message reached an awaited mailbox.
    MessageReceived {
        /// The mailbox.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// A polled mailbox held no message.
    MailboxEmpty {
        /// The mailbox.
        mailbox: Mailbox,
    },
    /// The instance was asked to cancel.
    CancelRequested {
        /// The canceller's reason.
        reason: Payload,
    },
}

/// A request to cancel that was delivered although the code did not wait: before its first step, or after a command.
/// See [`Engine::interrupt`](crate::Engine::interrupt).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// The canceller's reason.
    pub reason: Payload,
}

/// Bookkeeping, which user code does not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteEvent {
    /// The beginning of the first turn. It is event 2 or absent. It is recorded if the first turn came notably later
    /// than the start (there was no worker); the deterministic time then begins with it. It is also recorded if the
    /// start left the version open.
    ExecutionBegan {
        /// Version of the orchestration, if the start left it open.
        version: Option<String>,
    },
    /// An attempt of an activity failed and another follows.
    ActivityAttemptFailed {
        /// The schedule.
        scheduled: EventId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The error as the driver encoded it.
        error: Payload,
        /// Earliest start of the next attempt, ms since 1970.
        retry_at_ms: i64,
    },
    /// From here on the execution has a patch of its code.
    PatchApplied {
        /// The patch, as the code names it.
        patch: String,
    },
    /// The instance was asked to cancel while it was suspended. Its code never heard of the request: the
    /// [end](TerminationEvent::ExecutionCancelled) follows.
    CancelRequested {
        /// The canceller's reason.
        reason: Payload,
    },
}

/// The end of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndEvent {
    /// The function returned.
    ExecutionCompleted {
        /// Return value of the function.
        output: Payload,
    },
    /// The function threw.
    ExecutionFailed {
        /// The error that the function threw.
        error: Payload,
    },
    /// A cancellation left the function.
    ExecutionCancelled {
        /// The `CancelledError`.
        error: Payload,
    },
    /// The next execution of the instance follows.
    ExecutionContinuedAsNew {
        /// The next execution's input.
        input: Payload,
        /// Version of the orchestration that the next execution runs.
        version: String,
    },
}

/// The end of an execution from outside, in which its code had no part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminationEvent {
    /// The instance was cancelled while it was suspended.
    ExecutionCancelled {
        /// The error, which is absent in all rows that this release writes.
        error: Payload,
    },
    /// The instance was terminated.
    ExecutionTerminated {
        /// The reason given.
        reason: Payload,
    },
}

/// A role of events: the type of its events, and the way from and to [`Event`].
pub(crate) trait Role: Sized {
    /// Returns the event if it has this role.
    fn of(event: &Event) -> Option<&Self>;
    /// Returns the event if it has this role.
    fn take(event: Event) -> Option<Self>;
}

/// Any role.
impl Role for Event {
    fn of(event: &Event) -> Option<&Self> {
        Some(event)
    }

    fn take(event: Event) -> Option<Self> {
        Some(event)
    }
}

macro_rules! roles {
    ($($role:ident($events:ident),)+) => {$(
        impl From<$events> for Event {
            fn from(event: $events) -> Self {
                Self::$role(event)
            }
        }

        impl Role for $events {
            fn of(event: &Event) -> Option<&Self> {
                match event {
                    Event::$role(event) => Some(event),
                    _ => None,
                }
            }

            fn take(event: Event) -> Option<Self> {
                match event {
                    Event::$role(event) => Some(event),
                    _ => None,
                }
            }
        }
    )+};
}

roles! {
    Started(ExecutionStarted),
    Command(CommandEvent),
    Delivery(DeliveryEvent),
    Interruption(Interruption),
    Note(NoteEvent),
    End(EndEvent),
    Termination(TerminationEvent),
}

impl Event {
    /// Returns the value that the event carries, if it has one.
    pub(crate) fn payload(&self) -> Option<&str> {
        match self {
            Event::Started(ExecutionStarted { input: value, .. })
            | Event::Interruption(Interruption { reason: value })
            | Event::Termination(
                TerminationEvent::ExecutionCancelled { error: value }
                | TerminationEvent::ExecutionTerminated { reason: value },
            ) => value.as_deref(),
            Event::Command(command) => command.payload(),
            Event::Delivery(delivery) => delivery.payload(),
            Event::Note(note) => note.payload(),
            Event::End(end) => end.payload(),
        }
    }

    /// Bytes of the value that the event carries.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload().map_or(0, str::len)
    }
}

impl CommandEvent {
    /// Returns the value that the command carries, if it has one.
    pub(crate) fn payload(&self) -> Option<&str> {
        match self {
            CommandEvent::ActivityScheduled { input: value, .. }
            | CommandEvent::ChildScheduled(InstanceStart { input: value, .. })
            | CommandEvent::InstanceStarted(InstanceStart { input: value, .. })
            | CommandEvent::MessageSent { payload: value, .. } => value.as_deref(),
            CommandEvent::TimerCreated { .. } | CommandEvent::OperationCancelled { .. } => None,
        }
    }
}

impl DeliveryEvent {
    /// Returns the value that the delivery carries, if it has one.
    pub(crate) fn payload(&self) -> Option<&str> {
        match self {
            DeliveryEvent::ActivityCompleted { output: value, .. }
            | DeliveryEvent::ActivityFailed { error: value, .. }
            | DeliveryEvent::ChildCompleted { output: value, .. }
            | DeliveryEvent::ChildFailed { error: value, .. }
            | DeliveryEvent::MessageReceived { payload: value, .. }
            | DeliveryEvent::CancelRequested { reason: value } => value.as_deref(),
            DeliveryEvent::TimerFired { .. }
            | DeliveryEvent::OperationConfirmed { .. }
            | DeliveryEvent::OperationRefused { .. }
            | DeliveryEvent::MailboxEmpty { .. } => None,
        }
    }

    /// Returns the operation whose success the event delivers; `None` if it delivers anything else.
    pub(crate) const fn succeeded(&self) -> Option<EventId> {
        match self {
            DeliveryEvent::ActivityCompleted { scheduled, .. }
            | DeliveryEvent::ChildCompleted { scheduled, .. }
            | DeliveryEvent::OperationConfirmed { scheduled }
            | DeliveryEvent::TimerFired { timer: scheduled } => Some(*scheduled),
            DeliveryEvent::ActivityFailed { .. }
            | DeliveryEvent::ChildFailed { .. }
            | DeliveryEvent::OperationRefused { .. }
            | DeliveryEvent::MessageReceived { .. }
            | DeliveryEvent::MailboxEmpty { .. }
            | DeliveryEvent::CancelRequested { .. } => None,
        }
    }
}

impl NoteEvent {
    /// Returns the value that the note carries, if it has one.
    pub(crate) fn payload(&self) -> Option<&str> {
        match self {
            NoteEvent::ActivityAttemptFailed { error: value, .. } | NoteEvent::CancelRequested { reason: value } => {
                value.as_deref()
            }
            NoteEvent::ExecutionBegan { .. } | NoteEvent::PatchApplied { .. } => None,
        }
    }
}

impl EndEvent {
    /// Returns the value that the end carries, if it has one.
    pub(crate) fn payload(&self) -> Option<&str> {
        match self {
            EndEvent::ExecutionCompleted { output: value }
            | EndEvent::ExecutionFailed { error: value }
            | EndEvent::ExecutionCancelled { error: value }
            | EndEvent::ExecutionContinuedAsNew { input: value, .. } => value.as_deref(),
        }
    }
}
