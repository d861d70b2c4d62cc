//! What a history is made of.

use serde::{Deserialize, Serialize};

use crate::{
    ActivityOptions, ChildFailure, EventId, ExecutionId, Incarnation, InstanceStart, MessageSeq, Refusal, Settlement,
};

/// A value as text, made and read by the driver alone; `None` is JavaScript's `undefined`.
pub type Payload = Option<String>;

/// What a start or a schedule was part of, for those who trace: text made and read by the driver alone. A replay does not look at it.
pub type TraceContext = Option<String>;

/// Where a child reports to.
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

/// What waits in the store for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its place in the store's order.
    pub seq: MessageSeq,
    /// What it says.
    pub body: MessageBody,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageBody {
    /// A value for a mailbox.
    Mail {
        /// Which one.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// A request to cancel the instance.
    Cancel {
        /// What the canceller gave as the reason.
        reason: Payload,
    },
    /// What became of something that the instance asked of others.
    Settled {
        /// The execution that asked.
        execution: ExecutionId,
        /// The event that asked.
        scheduled: EventId,
        /// What became of it.
        settlement: Settlement,
    },
}

impl MessageBody {
    /// Bytes of the value in it: what bounds a page besides the number of its messages.
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
        /// Which start of its id the instance comes from; `None`: it was started before starts had this.
        incarnation: Option<Incarnation>,
        /// The parent that waits for it.
        parent: Option<ParentLink>,
        /// The custom status that the execution before it left.
        custom_status: Payload,
        /// What its start was part of.
        trace: TraceContext,
    },
    /// Bookkeeping, event 2 if it is there: the first turn came notably later than the start (there was no worker), and the deterministic
    /// time begins with it. Or the start had left the version open.
    ExecutionBegan {
        /// The version that it runs, where the start had left it open.
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
        /// What the function returned.
        output: Payload,
    },
    /// Bookkeeping: an attempt failed and another follows. User code does not see it.
    ActivityAttemptFailed {
        /// The schedule.
        scheduled: EventId,
        /// Which attempt, from 1.
        attempt: u32,
        /// The error as the driver encoded it.
        error: Payload,
        /// When the next attempt may start, ms since 1970.
        retry_at_ms: i64,
    },
    /// Delivery: the last attempt failed.
    ActivityFailed {
        /// The schedule.
        scheduled: EventId,
        /// Which attempt, from 1.
        attempt: u32,
        /// The error as the driver encoded it.
        error: Payload,
    },
    /// Command: a durable timer.
    TimerCreated {
        /// When it is due, ms since 1970.
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
        /// What it returned.
        output: Payload,
    },
    /// Delivery: the child ended otherwise.
    ChildFailed {
        /// The schedule.
        scheduled: EventId,
        /// How it ended.
        failure: ChildFailure,
        /// The error as the driver encoded it; of a termination the reason.
        error: Payload,
    },
    /// Command: start an instance that goes its own way.
    InstanceStarted(InstanceStart),
    /// Command: send a message to another instance.
    MessageSent {
        /// Its id.
        instance: String,
        /// Which mailbox of it.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// Delivery: a start or message that is awaited is durable.
    OperationConfirmed {
        /// Its schedule.
        scheduled: EventId,
    },
    /// Delivery: a start or message did not reach the other instance.
    OperationRefused {
        /// Its schedule.
        scheduled: EventId,
        /// Why.
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
    /// Delivery: a message reached a mailbox that was awaited.
    MessageReceived {
        /// Which mailbox.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// Delivery: the instance was asked to cancel.
    CancelRequested {
        /// The canceller's reason.
        reason: Payload,
        /// Where the code was then.
        at: CancelPoint,
    },
    /// Terminal: the function returned.
    ExecutionCompleted {
        /// What it returned.
        output: Payload,
    },
    /// Terminal: the function threw.
    ExecutionFailed {
        /// What it threw.
        error: Payload,
    },
    /// Terminal: a cancellation left the function.
    ExecutionCancelled {
        /// The `CancelledError`; nothing when the code had no part in it.
        error: Payload,
        /// Whether it was ended from outside while it was suspended: none of its code ran.
        outside: bool,
    },
    /// Terminal: the next execution of the instance begins where this one ends.
    ExecutionContinuedAsNew {
        /// The next execution's input.
        input: Payload,
        /// Version of the orchestration that it runs.
        version: String,
    },
    /// Terminal: ended from outside, at once.
    ExecutionTerminated {
        /// The reason given.
        reason: Payload,
    },
}

/// Where the code was when a request to cancel came to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CancelPoint {
    /// It waited.
    #[default]
    Wait,
    /// It did not wait: before its first step, or after a command. See [`Engine::interrupt`](crate::Engine::interrupt).
    Step,
    /// It was suspended and never heard of it: the end follows.
    Suspended,
}

/// The part an event plays in a replay.
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
    /// Neither: the code may do without it.
    Bookkeeping,
    /// The last event, recorded when the code ended.
    End,
    /// The last event, recorded from outside while the code waited.
    Termination,
}

impl Event {
    /// The value that it carries, if it has one.
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

    /// Bytes of that.
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
