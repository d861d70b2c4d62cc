//! The events of a history.

use serde::{Deserialize, Serialize};

use crate::{
    ActivityOptions, ChildFailure, EventId, ExecutionId, Incarnation, InstanceStart, MessageSeq, Refusal, Settlement,
};

/// A value as text, which only the driver writes and reads; `None` is JavaScript's `undefined`.
pub type Payload = Option<String>;

/// Trace context in which an instance was started or an operation scheduled: text that only the driver writes and
/// reads. A replay does not look at it.
pub type TraceContext = Option<String>;

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

/// A mailbox of an instance: its events of one name, or one of its FIFO queues.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mailbox {
    /// Fed by `raiseEvent`.
    Event(String),
    /// Fed by `enqueueEvent`.
    Queue(String),
}

/// A message that waits in the store for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its place in the store's order.
    pub seq: MessageSeq,
    /// Content of the message.
    pub body: MessageBody,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageBody {
    /// A value for a mailbox.
    Mail {
        /// The mailbox.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// A request to cancel the instance.
    Cancel {
        /// Reason given by the canceller.
        reason: Payload,
    },
    /// The result of an operation that the instance requested from another instance or worker.
    Settled {
        /// Execution that requested it.
        execution: ExecutionId,
        /// Event that requested it.
        scheduled: EventId,
        /// The result.
        settlement: Settlement,
    },
}

impl MessageBody {
    /// Bytes of the value in the message. They limit a page, as does the number of its messages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let value = match self {
            MessageBody::Mail { payload: value, .. } | MessageBody::Cancel { reason: value } => value,
            MessageBody::Settled { settlement, .. } => settlement.payload(),
        };
        value.as_ref().map_or(0, String::len)
    }
}

/// One event of an execution's history.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Always event 1.
    ExecutionStarted {
        /// Name of the orchestration.
        name: String,
        /// Version of the orchestration.
        version: String,
        /// Its input.
        input: Payload,
        /// Seed of the execution's random numbers.
        seed: u64,
        /// Incarnation of the instance; `None`: it was started before instances had incarnations.
        incarnation: Option<Incarnation>,
        /// The parent that waits for the end of this instance.
        parent: Option<ParentLink>,
        /// The custom status at the end of the previous execution.
        custom_status: Payload,
        /// Trace context of the start.
        trace: TraceContext,
    },
    /// Bookkeeping: the beginning of the first turn. It is event 2 or absent. It is recorded if the first turn came
    /// notably later than the start (there was no worker); the deterministic time then begins with it. It is also
    /// recorded if the start left the version open.
    ExecutionBegan {
        /// Version of the orchestration, if the start left it open.
        version: Option<String>,
    },
    /// Command: run an activity.
    ActivityScheduled {
        /// Name of the activity.
        name: String,
        /// Its input.
        input: Payload,
        /// Its effective options.
        options: ActivityOptions,
    },
    /// Delivery: the activity's result.
    ActivityCompleted {
        /// The schedule.
        scheduled: EventId,
        /// Return value of the function.
        output: Payload,
    },
    /// Bookkeeping: an attempt failed and another follows. User code does not see it.
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
    /// Delivery: the last attempt failed.
    ActivityFailed {
        /// The schedule.
        scheduled: EventId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The error as the driver encoded it.
        error: Payload,
    },
    /// Command: a durable timer.
    TimerCreated {
        /// Due time, ms since 1970.
        fire_at_ms: i64,
    },
    /// Delivery: an awaited timer was due.
    TimerFired {
        /// The timer.
        timer: EventId,
    },
    /// Command: start an instance and wait for its end.
    ChildScheduled(InstanceStart),
    /// Delivery: the child returned.
    ChildCompleted {
        /// The schedule.
        scheduled: EventId,
        /// Return value of the child.
        output: Payload,
    },
    /// Delivery: the child ended without completing.
    ChildFailed {
        /// The schedule.
        scheduled: EventId,
        /// Terminal status of the child.
        failure: ChildFailure,
        /// The error as the driver encoded it, or the reason of a termination.
        error: Payload,
    },
    /// Command: start a detached instance.
    InstanceStarted(InstanceStart),
    /// Command: send a message to another instance.
    MessageSent {
        /// Id of the other instance.
        instance: String,
        /// Mailbox of that instance.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// Delivery: an awaited start or message is durable.
    OperationConfirmed {
        /// Its schedule.
        scheduled: EventId,
    },
    /// Delivery: a start or message did not reach the other instance.
    OperationRefused {
        /// Its schedule.
        scheduled: EventId,
        /// The reason.
        refusal: Refusal,
    },
    /// Command: give up an operation that has not settled.
    OperationCancelled {
        /// Its schedule.
        scheduled: EventId,
    },
    /// Bookkeeping: from here on the execution has a patch of its code.
    PatchApplied {
        /// The patch, as the code names it.
        patch: String,
    },
    /// Delivery: a message reached an awaited mailbox.
    MessageReceived {
        /// The mailbox.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// Delivery: the instance was asked to cancel.
    CancelRequested {
        /// The canceller's reason.
        reason: Payload,
        /// State of the code at that moment.
        at: CancelPoint,
    },
    /// Terminal: the function returned.
    ExecutionCompleted {
        /// Return value of the function.
        output: Payload,
    },
    /// Terminal: the function threw.
    ExecutionFailed {
        /// The error that the function threw.
        error: Payload,
    },
    /// Terminal: a cancellation left the function.
    ExecutionCancelled {
        /// The `CancelledError`; `None` if the code had no part in the end.
        error: Payload,
        /// True if the instance was ended from outside while it was suspended: none of its code ran.
        outside: bool,
    },
    /// Terminal: the next execution of the instance follows.
    ExecutionContinuedAsNew {
        /// The next execution's input.
        input: Payload,
        /// Version of the orchestration that the next execution runs.
        version: String,
    },
    /// Terminal: the instance was ended from outside, at once.
    ExecutionTerminated {
        /// The reason given.
        reason: Payload,
    },
}

/// State of the code when a request to cancel came to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CancelPoint {
    /// The code waited.
    #[default]
    Wait,
    /// The code did not wait: the request came before its first step, or after a command. See
    /// [`Engine::interrupt`](crate::Engine::interrupt).
    Step,
    /// The instance was suspended and its code never heard of the request: the end follows.
    Suspended,
}

/// Role of an event in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Event 1.
    Start,
    /// Recorded when the code asked for it.
    Command,
    /// Recorded when it was handed to the code, which waited.
    Delivery,
    /// Recorded when it was handed to the code, which did not wait.
    Interruption,
    /// Neither command nor delivery: the code may do without it.
    Bookkeeping,
    /// The last event, recorded when the code ended.
    End,
    /// The last event, recorded from outside while the code waited.
    Termination,
}

impl Event {
    /// Returns the value that the event carries, if it has one.
    pub(crate) fn payload(&self) -> Option<&str> {
        match self {
            Event::ExecutionStarted { input: value, .. }
            | Event::ActivityScheduled { input: value, .. }
            | Event::ActivityCompleted { output: value, .. }
            | Event::ActivityAttemptFailed { error: value, .. }
            | Event::ActivityFailed { error: value, .. }
            | Event::ChildScheduled(InstanceStart { input: value, .. })
            | Event::ChildCompleted { output: value, .. }
            | Event::ChildFailed { error: value, .. }
            | Event::InstanceStarted(InstanceStart { input: value, .. })
            | Event::MessageSent { payload: value, .. }
            | Event::MessageReceived { payload: value, .. }
            | Event::CancelRequested { reason: value, .. }
            | Event::ExecutionCompleted { output: value }
            | Event::ExecutionFailed { error: value }
            | Event::ExecutionCancelled { error: value, .. }
            | Event::ExecutionContinuedAsNew { input: value, .. }
            | Event::ExecutionTerminated { reason: value } => value.as_deref(),
            Event::ExecutionBegan { .. }
            | Event::TimerCreated { .. }
            | Event::TimerFired { .. }
            | Event::OperationConfirmed { .. }
            | Event::OperationRefused { .. }
            | Event::OperationCancelled { .. }
            | Event::PatchApplied { .. } => None,
        }
    }

    /// Bytes of the value that the event carries.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload().map_or(0, str::len)
    }

    pub(crate) fn role(&self) -> Role {
        match self {
            Event::ExecutionStarted { .. } => Role::Start,
            Event::CancelRequested {
                at: CancelPoint::Step, ..
            } => Role::Interruption,
            Event::CancelRequested {
                at: CancelPoint::Suspended,
                ..
            } => Role::Bookkeeping,
            Event::ExecutionCancelled { outside: true, .. } => Role::Termination,
            Event::ActivityScheduled { .. }
            | Event::TimerCreated { .. }
            | Event::ChildScheduled(_)
            | Event::InstanceStarted(_)
            | Event::MessageSent { .. }
            | Event::OperationCancelled { .. } => Role::Command,
            Event::ActivityCompleted { .. }
            | Event::ActivityFailed { .. }
            | Event::TimerFired { .. }
            | Event::ChildCompleted { .. }
            | Event::ChildFailed { .. }
            | Event::OperationConfirmed { .. }
            | Event::OperationRefused { .. }
            | Event::MessageReceived { .. }
            | Event::CancelRequested { .. } => Role::Delivery,
            Event::ExecutionBegan { .. } | Event::ActivityAttemptFailed { .. } | Event::PatchApplied { .. } => {
                Role::Bookkeeping
            }
            Event::ExecutionCompleted { .. }
            | Event::ExecutionFailed { .. }
            | Event::ExecutionCancelled { .. }
            | Event::ExecutionContinuedAsNew { .. } => Role::End,
            Event::ExecutionTerminated { .. } => Role::Termination,
        }
    }
}
