//! Messages to send, and messages as columns, the same in every store.

use std::borrow::Cow;

use perdure_engine::{
    AttemptResult, ChildFailure, EventId, ExecutionId, Mailbox, MessageBody, Payload, Refusal, Settlement,
};

/// A message to send.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The user's name of the receiving instance.
    pub instance: String,
    /// Content of the message.
    pub body: MessageBody,
    /// Most messages that may wait for the instance, this one among them; `None`: any number.
    pub unread_max: Option<u64>,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// The body of a message as a store keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredMessage<'b> {
    /// `Event`, `Queue`, `Cancel`, `ChildCompleted`, `ChildFailed`, `ChildCancelled`, `ChildTerminated`, `Refused` or
    /// `Attempted`. Mail is of the first two kinds.
    pub kind: Cow<'b, str>,
    /// Name of the mailbox, reason of a refusal, or details of an attempt.
    pub name: Option<Cow<'b, str>>,
    /// Payload of the message.
    pub payload: Option<Cow<'b, str>>,
    /// Execution of the receiver that scheduled the operation.
    pub execution: Option<ExecutionId>,
    /// Event that scheduled the operation.
    pub scheduled: Option<EventId>,
}

/// Returns the columns of a mailbox: the kind of its messages, and its name.
#[must_use]
pub fn stored_mailbox(mailbox: &Mailbox) -> (&'static str, &str) {
    match mailbox {
        Mailbox::Event(name) => ("Event", name),
        Mailbox::Queue(name) => ("Queue", name),
    }
}

/// Returns the mailbox of these columns; `None` if they are not of one. The opposite of [`stored_mailbox`].
#[must_use]
pub fn mailbox_of(kind: &str, name: String) -> Option<Mailbox> {
    match kind {
        "Event" => Some(Mailbox::Event(name)),
        "Queue" => Some(Mailbox::Queue(name)),
        _ => None,
    }
}

impl<'b> StoredMessage<'b> {
    /// Returns a body as columns.
    #[must_use]
    pub fn of(body: &'b MessageBody) -> Self {
        let kept = |kind: &'static str, name: Option<Cow<'b, str>>, payload: &'b Payload| Self {
            kind: kind.into(),
            name,
            payload: payload.as_deref().map(Cow::Borrowed),
            execution: None,
            scheduled: None,
        };
        let (execution, scheduled, settlement) = match body {
            MessageBody::Mail { mailbox, payload } => {
                let (kind, name) = stored_mailbox(mailbox);
                return kept(kind, Some(name.into()), payload);
            }
            MessageBody::Cancel { reason } => return kept("Cancel", None, reason),
            MessageBody::Settled {
                execution,
                scheduled,
                settlement,
            } => (execution, scheduled, settlement),
        };
        let settled = match settlement {
            Settlement::Completed(output) => kept("ChildCompleted", None, output),
            Settlement::Failed(ChildFailure::Failed, error) => kept("ChildFailed", None, error),
            Settlement::Failed(ChildFailure::Cancelled, error) => kept("ChildCancelled", None, error),
            Settlement::Failed(ChildFailure::Terminated, reason) => kept("ChildTerminated", None, reason),
            Settlement::Refused(refusal) => kept("Refused", Some(refusal.text()), &None),
            Settlement::Attempted { attempt, result } => {
                kept("Attempted", Some(result.details(*attempt).into()), result.payload())
            }
        };
        Self {
            execution: Some(*execution),
            scheduled: Some(*scheduled),
            ..settled
        }
    }

    /// Returns the body that these columns stand for, or `None` if they stand for none.
    #[must_use]
    pub fn into_body(self) -> Option<MessageBody> {
        let payload: Payload = self.payload.map(Cow::into_owned);
        let settlement = match &*self.kind {
            "Event" | "Queue" => {
                let name = self.name?.into_owned();
                let mailbox = if self.kind == "Event" {
                    Mailbox::Event(name)
                } else {
                    Mailbox::Queue(name)
                };
                return Some(MessageBody::Mail { mailbox, payload });
            }
            "Cancel" => return Some(MessageBody::Cancel { reason: payload }),
            "ChildCompleted" => Settlement::Completed(payload),
            "ChildFailed" => Settlement::Failed(ChildFailure::Failed, payload),
            "ChildCancelled" => Settlement::Failed(ChildFailure::Cancelled, payload),
            "ChildTerminated" => Settlement::Failed(ChildFailure::Terminated, payload),
            "Refused" => Settlement::Refused(Refusal::parse(self.name.as_deref()?)?),
            "Attempted" => {
                let (attempt, result) = AttemptResult::from_details(self.name.as_deref()?, payload)?;
                Settlement::Attempted { attempt, result }
            }
            _ => return None,
        };
        Some(MessageBody::Settled {
            execution: self.execution?,
            scheduled: self.scheduled?,
            settlement,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_no_message_are_told() {
        let kept = |kind: &'static str, name: Option<&'static str>| StoredMessage {
            kind: kind.into(),
            name: name.map(Cow::Borrowed),
            ..StoredMessage::default()
        };
        assert!(kept("Event", Some("go")).into_body().is_some());
        for bad in [
            kept("Event", None),
            kept("Nonsense", Some("go")),
            kept("Refused", Some("go")),
            kept("ChildFailed", None),
        ] {
            assert_eq!(bad.into_body(), None);
        }
    }
}
