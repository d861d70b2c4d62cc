//! Errors of calls into the runtime.

use perdure_engine::{Fault, LimitReached, Mismatch};
use perdure_provider::{ProviderError, ProviderErrorKind, Status};

/// An error of the runtime. Each kind becomes one error class of the public API.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RuntimeError {
    /// The id of a start is in use.
    #[error("an instance with the id '{id}' exists already")]
    InstanceExists {
        /// The id.
        id: String,
    },
    /// There is no instance with this id.
    #[error("there is no instance with the id '{id}'")]
    InstanceNotFound {
        /// The id.
        id: String,
    },
    /// There is no queue of this name.
    #[error("there is no queue '{queue}'; set its limits first, with client.queues.set")]
    QueueNotFound {
        /// The name.
        queue: String,
    },
    /// Instances are in the queue.
    #[error("the queue '{queue}' is not empty: {waiting} instances wait in it, and {running} have a slot of it")]
    QueueInUse {
        /// The name.
        queue: String,
        /// Instances that wait, for a slot or for their start time.
        waiting: u64,
        /// Instances that have a slot.
        running: u64,
    },
    /// The store has as many queues as it may have.
    #[error("the store has {max} queues, and no more may be made")]
    TooManyQueues {
        /// The limit.
        max: usize,
    },
    /// The instance has no such execution.
    #[error("instance '{id}' has no execution {execution}, its last one is {last}")]
    ExecutionNotFound {
        /// The id.
        id: String,
        /// The execution that was asked for.
        execution: u64,
        /// Number of the instance's last execution.
        last: u64,
    },
    /// The history of the execution was pruned.
    #[error("the history of execution {execution} of instance '{id}' was pruned")]
    ExecutionPruned {
        /// The id.
        id: String,
        /// The execution that was asked for.
        execution: u64,
    },
    /// The instance has ended and takes no more messages.
    #[error("instance '{id}' has ended ({status}) and takes no more messages")]
    InstanceEnded {
        /// The id.
        id: String,
        /// The status in which it ended.
        status: Status,
    },
    /// The ask of the instance is no longer there, so its answer is not known.
    #[error(
        "the answer of instance '{id}' to update '{ask}' is not known: the instance was deleted or replaced meanwhile, \
         or has given its next {kept} answers"
    )]
    AnswerGone {
        /// The id.
        id: String,
        /// The id of the ask.
        ask: String,
        /// The number of answers that an instance keeps.
        kept: u64,
    },
    /// The instance to resume is not suspended.
    #[error("instance '{id}' is not suspended, it is {status}")]
    NotSuspended {
        /// The id.
        id: String,
        /// The status that it has.
        status: Status,
    },
    /// The instance to suspend has ended.
    #[error("instance '{id}' has ended ({status}) and cannot be suspended")]
    NotHeld {
        /// The id.
        id: String,
        /// The status in which it ended.
        status: Status,
    },
    /// The instance to delete has not ended.
    #[error(
        "instance '{id}' is {status} and cannot be deleted: only ended instances can be deleted. Cancel or terminate \
         it first"
    )]
    NotEnded {
        /// The id.
        id: String,
        /// The status that it has.
        status: Status,
    },
    /// Code and history disagree.
    #[error("{0}")]
    Nondeterminism(Mismatch),
    /// The execution has reached a limit.
    #[error("{0}")]
    Limit(LimitReached),
    /// The instance has as many unread messages as the sender allows.
    #[error(
        "instance '{id}' has reached its limit of {max} unread messages (limits.mailboxMessages): send again when the \
         instance has read messages, or raise the limit"
    )]
    MailboxFull {
        /// The id.
        id: String,
        /// The limit.
        max: u64,
    },
    /// A value is longer than a JavaScript string can be.
    #[error(
        "{what} is a text of {characters} characters, and a JavaScript string holds at most {max}: the value stays in \
         the store, where another program can read it. Store large values elsewhere, and pass a reference"
    )]
    TooLong {
        /// The name of the value. The message begins with it.
        what: &'static str,
        /// Length of the value in UTF-16 units.
        characters: usize,
        /// Length of the longest string.
        max: usize,
    },
    /// The call does not fit the state that the runtime is in.
    #[error("{0}")]
    State(&'static str),
    /// The call does not take this argument.
    #[error("{0}")]
    Argument(String),
    /// The store refused or failed.
    #[error("{0}")]
    Provider(#[from] ProviderError),
}

impl RuntimeError {
    /// Returns the stable code of the error class.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            RuntimeError::InstanceExists { .. } => "INSTANCE_EXISTS",
            RuntimeError::InstanceNotFound { .. }
            | RuntimeError::ExecutionNotFound { .. }
            | RuntimeError::ExecutionPruned { .. } => "INSTANCE_NOT_FOUND",
            RuntimeError::QueueNotFound { .. } => "QUEUE_NOT_FOUND",
            RuntimeError::Nondeterminism(_) => "NONDETERMINISM",
            RuntimeError::TooLong { .. } => "PAYLOAD",
            RuntimeError::Limit(_) | RuntimeError::MailboxFull { .. } | RuntimeError::TooManyQueues { .. } => "LIMIT",
            RuntimeError::InstanceEnded { .. }
            | RuntimeError::AnswerGone { .. }
            | RuntimeError::NotSuspended { .. }
            | RuntimeError::NotHeld { .. }
            | RuntimeError::NotEnded { .. }
            | RuntimeError::QueueInUse { .. }
            | RuntimeError::State(_) => "RUNTIME_STATE",
            RuntimeError::Argument(_) => "ARGUMENT",
            RuntimeError::Provider(error) if matches!(error.kind, ProviderErrorKind::SchemaVersion { .. }) => {
                "SCHEMA_VERSION"
            }
            RuntimeError::Provider(error) if error.kind == ProviderErrorKind::Unencodable => "PAYLOAD",
            RuntimeError::Provider(error) if error.kind == ProviderErrorKind::Closed => "RUNTIME_STATE",
            RuntimeError::Provider(_) => "PROVIDER",
        }
    }
}

impl From<Fault> for RuntimeError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Mismatch(mismatch) => RuntimeError::Nondeterminism(mismatch),
            Fault::Limit(limit) => RuntimeError::Limit(limit),
        }
    }
}
