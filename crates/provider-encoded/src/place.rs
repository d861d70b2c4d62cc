//! The place of a value: the instance that a text belongs to, and its name there. `js/values/codec-context.ts` and
//! `js/client/event-places.ts` name places in the same way.

use std::sync::Arc;

use perdure_engine::{ChildFailure, EventId, ExecutionId, Mailbox};

/// The instance that a value belongs to, and the name of the value there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Id of the instance that the value belongs to.
    pub instance: Arc<str>,
    /// Execution that the value belongs to. `None`: the value belongs to the instance as a whole.
    pub execution: Option<u64>,
    /// Name of the value, such as `input` or `activity:2:output`.
    pub what: String,
}

/// A text with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedText {
    /// The place of the text.
    pub place: Place,
    /// The text.
    pub text: String,
}

/// The begin of the name of a queue that holds inputs of a batch. JSON of the name of the orchestration and the key
/// follows.
const BATCH: &str = "perdure.batch:";

/// Returns the name of the orchestration and the key of a batch whose inputs a mailbox holds.
fn batch_of(mailbox: &Mailbox) -> Option<(String, String)> {
    let Mailbox::Queue(name) = mailbox else { return None };
    serde_json::from_str(name.strip_prefix(BATCH)?).ok()
}

impl Place {
    fn new(instance: &Arc<str>, execution: Option<ExecutionId>, what: impl Into<String>) -> Self {
        Self {
            instance: Arc::clone(instance),
            execution: execution.map(|execution| execution.0),
            what: what.into(),
        }
    }

    pub(crate) fn input(instance: &Arc<str>, execution: ExecutionId) -> Self {
        Self::new(instance, Some(execution), "input")
    }

    pub(crate) fn output(instance: &Arc<str>) -> Self {
        Self::new(instance, None, "output")
    }

    pub(crate) fn error(instance: &Arc<str>) -> Self {
        Self::new(instance, None, "error")
    }

    pub(crate) fn termination(instance: &Arc<str>) -> Self {
        Self::new(instance, None, "termination")
    }

    pub(crate) fn cancellation(instance: &Arc<str>) -> Self {
        Self::new(instance, None, "cancellation")
    }

    pub(crate) fn suspension(instance: &Arc<str>) -> Self {
        Self::new(instance, None, "suspension")
    }

    pub(crate) fn status(instance: &Arc<str>) -> Self {
        Self::new(instance, None, "status")
    }

    /// Returns the place of a value of the state.
    pub(crate) fn state(instance: &Arc<str>, name: &str) -> Self {
        Self::new(instance, None, format!("state:{name}"))
    }

    /// Returns the place of the entries of a stream.
    pub(crate) fn stream(instance: &Arc<str>, name: &str) -> Self {
        Self::new(instance, None, format!("stream:{name}"))
    }

    /// Returns the place of an answer to an ask. `part` is `output` or `error`.
    pub(crate) fn answer(instance: &Arc<str>, ask: &str, part: &str) -> Self {
        Self::new(instance, None, format!("ask:{ask}:{part}"))
    }

    /// Returns the place of a message. That of an input of a batch names the key of the batch in place of the instance,
    /// because its sender does not know which instance takes it.
    pub(crate) fn mail(receiver: &Arc<str>, mailbox: &Mailbox) -> Self {
        if let Some((orchestration, key)) = batch_of(mailbox) {
            return Self::new(&key.into(), None, format!("batch:{orchestration}"));
        }
        let what = match mailbox {
            Mailbox::Event(name) => format!("event:{name}"),
            Mailbox::Queue(name) => format!("queue:{name}"),
        };
        Self::new(receiver, None, what)
    }

    /// Returns the place of a value of an activity. `part` is `input`, `output`, `error` or `heartbeat`.
    pub(crate) fn activity(instance: &Arc<str>, execution: ExecutionId, scheduled: EventId, part: &str) -> Self {
        Self::new(instance, Some(execution), format!("activity:{}:{part}", scheduled.0))
    }

    /// Returns the place of the result of a child that did not complete.
    pub(crate) fn of_failure(child: &Arc<str>, failure: ChildFailure) -> Self {
        match failure {
            ChildFailure::Terminated => Self::termination(child),
            ChildFailure::Failed | ChildFailure::Cancelled => Self::error(child),
        }
    }

    /// Returns true if the value is an error. Something is always stored for an error, even if it cannot be encoded.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.what == "error" || (self.what.starts_with("activity:") && self.what.ends_with(":error"))
    }
}
