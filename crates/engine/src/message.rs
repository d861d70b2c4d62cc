//! The messages that wait in a store for an instance.

use crate::{EventId, ExecutionId, Mailbox, MessageSeq, Payload, Settlement};

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
