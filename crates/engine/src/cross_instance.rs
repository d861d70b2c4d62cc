//! Interaction of an execution with other instances: the instances that it starts, the messages that it sends, and
//! their answers.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{EventId, Mailbox, Payload, TimeLimit, TraceContext};

/// An instance that an execution starts: a child, whose end the execution receives, or a detached instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStart {
    /// Its id.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// Its input.
    pub input: Payload,
    /// Tags as a JSON object of strings made by the driver.
    pub tags: Option<String>,
    /// Priority. Higher priorities are acquired first.
    pub priority: i32,
    /// The reaction to an id that is in use.
    pub on_conflict: StartConflict,
    /// When, and through which queue, the instance comes to run; `None`: at once.
    pub admission: Option<Box<Admission>>,
    /// Trace context of the start.
    pub trace: TraceContext,
}

/// When, through which queue, and for how long an instance comes to run, as the driver and the history write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Admission {
    /// The queue that gives the instance a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Key of the instance in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Time from the start until the instance is due, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Time at which the instance is due, ms since 1970. A time in the past is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_ms: Option<i64>,
    /// Time from the first turn until the instance is cancelled, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Time for which its cleanup may last then, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

impl Admission {
    /// Returns the time for which the instance may run.
    #[must_use]
    pub fn time_limit(&self) -> Option<TimeLimit> {
        self.timeout_ms.map(|timeout_ms| TimeLimit {
            timeout_ms,
            grace_ms: self.grace_ms,
            deadline_ms: None,
        })
    }
}

/// The reaction of a start to an id that is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartConflict {
    /// The start is refused.
    #[default]
    Error,
    /// The instance stays, and the start succeeds.
    Return,
    /// An instance that has ended is replaced. Otherwise the start is refused.
    RestartIfTerminal,
    /// An instance that has ended is replaced. Otherwise the instance stays, and the start succeeds.
    ReturnOrRestart,
    /// An instance that failed, was cancelled or was terminated is replaced. Otherwise the instance stays, and the
    /// start succeeds.
    RestartIfFailed,
    /// The instance is replaced. One that has not ended is terminated.
    TerminateAndRestart,
}

impl StartConflict {
    /// All reactions, in the order of their numbers at the boundary to the driver.
    pub const ALL: [Self; 6] = [
        Self::Error,
        Self::Return,
        Self::RestartIfTerminal,
        Self::ReturnOrRestart,
        Self::RestartIfFailed,
        Self::TerminateAndRestart,
    ];

    /// Returns true if a start succeeds although the instance that has its id stays.
    #[must_use]
    pub const fn accepts_other(self) -> bool {
        matches!(self, Self::Return | Self::ReturnOrRestart | Self::RestartIfFailed)
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Terminal status of a child that did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildFailure {
    /// Its function threw.
    Failed,
    /// A cancellation left its function.
    Cancelled,
    /// The instance was ended from outside.
    Terminated,
}

/// Reasons for which a start or message did not reach another instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// The id of the start is in use.
    InstanceExists,
    /// There is no instance of that id.
    InstanceNotFound,
    /// The instance has ended.
    InstanceEnded,
    /// There is no queue of the name that the start gives.
    QueueNotFound,
    /// As many messages wait for the instance as the worker of the sender allows.
    MailboxFull {
        /// Maximum number of messages.
        max: u64,
    },
}

impl Refusal {
    /// Returns the text under which stores keep the refusal.
    #[must_use]
    pub fn text(self) -> Cow<'static, str> {
        match self {
            Self::InstanceExists => "instanceExists".into(),
            Self::InstanceNotFound => "instanceNotFound".into(),
            Self::InstanceEnded => "instanceEnded".into(),
            Self::QueueNotFound => "queueNotFound".into(),
            Self::MailboxFull { max } => format!("mailboxFull {max}").into(),
        }
    }

    /// Returns the refusal of a text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("mailboxFull", max)) => max.parse().ok().map(|max| Self::MailboxFull { max }),
            Some(_) => None,
            None => [
                Self::InstanceExists,
                Self::InstanceNotFound,
                Self::InstanceEnded,
                Self::QueueNotFound,
            ]
            .into_iter()
            .find(|refusal| refusal.text() == text),
        }
    }
}

/// Result of an operation that an execution requested from another instance or worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The child returned.
    Completed(Payload),
    /// The child ended without completing, with this error or with the reason of its termination.
    Failed(ChildFailure, Payload),
    /// The start or the message was refused.
    Refused(Refusal),
    /// An attempt of an activity that another worker ran is over.
    Attempted {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Result of the attempt.
        result: AttemptResult,
    },
}

/// Result of an attempt of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The function returned.
    Completed(Payload),
    /// The attempt failed. The execution that scheduled the activity decides if another attempt follows.
    Failed {
        /// The error as the driver encoded it.
        error: Payload,
        /// The error's name, for `nonRetryable` and `retryOn`.
        error_name: String,
        /// The error's codes, for the same options.
        error_codes: Vec<String>,
        /// True if the error itself says that another attempt is useless.
        non_retryable: bool,
        /// Delay before the next attempt, ms from then, if the error itself gives one.
        retry_after_ms: Option<i64>,
    },
}

/// The end of an attempt as stores keep it, besides its payload.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttemptDetails {
    attempt: u32,
    /// Absent if the attempt succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    error_codes: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    non_retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<i64>,
}

impl Settlement {
    /// The value of the settlement.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        match self {
            Settlement::Completed(value) | Settlement::Failed(_, value) => value,
            Settlement::Refused(_) => &None,
            Settlement::Attempted { result, .. } => result.payload(),
        }
    }
}

impl AttemptResult {
    /// Returns all of the end of attempt number `attempt` but its payload, as JSON, for stores.
    #[must_use]
    pub fn details(&self, attempt: u32) -> String {
        let mut details = AttemptDetails {
            attempt,
            error_name: None,
            error_codes: Vec::new(),
            non_retryable: false,
            retry_after_ms: None,
        };
        if let AttemptResult::Failed {
            error_name,
            error_codes,
            non_retryable,
            retry_after_ms,
            ..
        } = self
        {
            details.error_name = Some(error_name.clone());
            details.error_codes.clone_from(error_codes);
            (details.non_retryable, details.retry_after_ms) = (*non_retryable, *retry_after_ms);
        }
        serde_json::to_string(&details).expect("a struct of strings and numbers is always JSON")
    }

    /// The output, or the error.
    #[must_use]
    pub const fn payload(&self) -> &Payload {
        match self {
            AttemptResult::Completed(payload) | AttemptResult::Failed { error: payload, .. } => payload,
        }
    }

    /// Reads the number and the result of an attempt from its [`details`](Self::details) and its payload. `None`: the
    /// details are not those of an attempt.
    #[must_use]
    pub fn from_details(details: &str, payload: Payload) -> Option<(u32, Self)> {
        let details: AttemptDetails = serde_json::from_str(details).ok()?;
        let result = match details.error_name {
            None => AttemptResult::Completed(payload),
            Some(error_name) => AttemptResult::Failed {
                error: payload,
                error_name,
                error_codes: details.error_codes,
                non_retryable: details.non_retryable,
                retry_after_ms: details.retry_after_ms,
            },
        };
        Some((details.attempt, result))
    }
}

/// A start that goes with a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnStart {
    /// The event that asked for it.
    pub scheduled: EventId,
    /// True if the instance is a child, whose end is reported to this execution.
    pub is_child: bool,
    /// The instance to start.
    pub start: InstanceStart,
}

/// A message that goes with a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnMessage {
    /// The event that asked for it.
    pub scheduled: EventId,
    /// Id of the receiver.
    pub instance: String,
    /// Mailbox of the receiver.
    pub mailbox: Mailbox,
    /// The value.
    pub payload: Payload,
}

/// Starts, messages and cancellations of a turn for other instances, each in the order in which the code asked for
/// them. They are written with the turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrossInstanceEffects {
    /// Instances to start.
    pub starts: Vec<TurnStart>,
    /// Messages to send, after the starts.
    pub messages: Vec<TurnMessage>,
    /// Children to cancel, by the event that asked for them.
    pub cancelled: Vec<EventId>,
}

impl CrossInstanceEffects {
    /// True if there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.messages.is_empty() && self.cancelled.is_empty()
    }

    /// Returns true if the turn starts this child. The starts are in the order of their schedules.
    pub(crate) fn starts(&self, scheduled: EventId) -> bool {
        let found = self.starts.binary_search_by_key(&scheduled, |start| start.scheduled);
        found.is_ok()
    }

    /// Removes these starts.
    pub(crate) fn leave_out(&mut self, scheduled: &BTreeSet<EventId>) {
        if !scheduled.is_empty() {
            self.starts.retain(|start| !scheduled.contains(&start.scheduled));
        }
    }
}
