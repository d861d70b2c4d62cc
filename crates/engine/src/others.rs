//! What an execution has to do with other instances: those that it starts, what it sends to them, and what they answer.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Completion, EventId, Mailbox, Payload, TraceContext};

/// An instance that an execution starts: a child, which it hears of again, or a detached one.
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
    /// Higher is acquired first.
    pub priority: i32,
    /// What it was started in.
    pub trace: TraceContext,
}

/// How a child ended that did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildFailure {
    /// Its function threw.
    Failed,
    /// A cancellation left its function.
    Cancelled,
    /// It was ended from outside.
    Terminated,
}

/// Why what was to reach another instance did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// A start found its id in use.
    InstanceExists,
    /// There is no instance of that id.
    InstanceNotFound,
    /// The instance has ended.
    InstanceEnded,
    /// As many messages wait for the instance as the sender's worker allows.
    MailboxFull {
        /// How many that are.
        max: u64,
    },
}

impl Refusal {
    /// The text that stores keep.
    #[must_use]
    pub fn text(self) -> Cow<'static, str> {
        match self {
            Self::InstanceExists => "instanceExists".into(),
            Self::InstanceNotFound => "instanceNotFound".into(),
            Self::InstanceEnded => "instanceEnded".into(),
            Self::MailboxFull { max } => format!("mailboxFull {max}").into(),
        }
    }

    /// The reason of a text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("mailboxFull", max)) => max.parse().ok().map(|max| Self::MailboxFull { max }),
            Some(_) => None,
            None => [Self::InstanceExists, Self::InstanceNotFound, Self::InstanceEnded]
                .into_iter()
                .find(|refusal| refusal.text() == text),
        }
    }
}

/// What became of a child, or of what could not reach another instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The child returned.
    Completed(Payload),
    /// The child ended otherwise, with this error, or with the reason of its termination.
    Failed(ChildFailure, Payload),
    /// The start or the message was refused.
    Refused(Refusal),
    /// An attempt of an activity is over that another worker ran.
    Attempted {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// What came of it.
        result: AttemptResult,
    },
}

/// What came of an attempt of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The function returned.
    Completed(Payload),
    /// It failed. Whether another attempt follows is decided by the execution that scheduled it.
    Failed {
        /// The error as the driver encoded it.
        error: Payload,
        /// The error's name, for `nonRetryable`.
        error_name: String,
        /// The error itself says that another attempt is useless.
        non_retryable: bool,
        /// The error itself says when to try again, ms from then.
        retry_after_ms: Option<i64>,
    },
}

/// What stores keep of the end of an attempt besides its payload.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttemptDetails {
    attempt: u32,
    /// Only of a failed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_name: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    non_retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<i64>,
}

impl Settlement {
    /// The value in it.
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
    /// Everything of the end of attempt number `attempt` but its payload, as JSON, for stores.
    #[must_use]
    pub fn details(&self, attempt: u32) -> String {
        let mut details = AttemptDetails {
            attempt,
            error_name: None,
            non_retryable: false,
            retry_after_ms: None,
        };
        if let AttemptResult::Failed {
            error_name,
            non_retryable,
            retry_after_ms,
            ..
        } = self
        {
            details.error_name = Some(error_name.clone());
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

    /// The attempt that [`details`](Self::details) and its payload tell of: its number, and what came of it. `None`: it is none.
    #[must_use]
    pub fn from_details(details: &str, payload: Payload) -> Option<(u32, Self)> {
        let details: AttemptDetails = serde_json::from_str(details).ok()?;
        let result = match details.error_name {
            None => AttemptResult::Completed(payload),
            Some(error_name) => AttemptResult::Failed {
                error: payload,
                error_name,
                non_retryable: details.non_retryable,
                retry_after_ms: details.retry_after_ms,
            },
        };
        Some((details.attempt, result))
    }

    /// As it is told to the execution.
    #[must_use]
    pub fn into_completion(self, scheduled: EventId) -> Completion {
        match self {
            AttemptResult::Completed(output) => Completion::ActivityCompleted { scheduled, output },
            AttemptResult::Failed {
                error,
                error_name,
                non_retryable,
                retry_after_ms,
            } => Completion::AttemptFailed {
                scheduled,
                error,
                error_name,
                non_retryable,
                retry_after_ms,
            },
        }
    }
}

/// A start that goes with a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnStart {
    /// The event that asked for it.
    pub scheduled: EventId,
    /// Whether it is a child, whose end is told to this execution.
    pub is_child: bool,
    /// What to start.
    pub start: InstanceStart,
}

/// A message that goes with a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnMessage {
    /// The event that asked for it.
    pub scheduled: EventId,
    /// Id of the receiver.
    pub instance: String,
    /// Which mailbox of it.
    pub mailbox: Mailbox,
    /// The value.
    pub payload: Payload,
}

/// What a turn does to other instances, in the order in which it was asked for. It is written with the turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToOthers {
    /// Instances to start.
    pub starts: Vec<TurnStart>,
    /// Messages to send, after the starts.
    pub messages: Vec<TurnMessage>,
    /// Children to cancel, by the event that asked for them.
    pub cancelled: Vec<EventId>,
}

impl ToOthers {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.messages.is_empty() && self.cancelled.is_empty()
    }

    /// Whether a child is among those to be started, which are in the order of their schedules.
    pub(crate) fn starts(&self, scheduled: EventId) -> bool {
        let found = self.starts.binary_search_by_key(&scheduled, |start| start.scheduled);
        found.is_ok()
    }

    /// These are not started.
    pub(crate) fn leave_out(&mut self, scheduled: &BTreeSet<EventId>) {
        if !scheduled.is_empty() {
            self.starts.retain(|start| !scheduled.contains(&start.scheduled));
        }
    }
}
