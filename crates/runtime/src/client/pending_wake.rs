//! A message that is handed to a sleeping instance of this process, and is not written yet.

use perdure_engine::{Mailbox, MessageBody, Payload};
use perdure_provider::ProviderError;

use crate::log::LogRecord;

/// The end of a wake.
pub(crate) enum WakeEnd {
    /// The turn that consumed the message is durable.
    Written,
    /// Nothing was written: the message is to be put into the store.
    GivenUp,
    /// The store has failed. It may be unknown whether the turn was written.
    Failed(ProviderError),
}

/// The callback that receives the end of a wake.
pub(crate) type Done = Box<dyn FnOnce(WakeEnd) + Send>;

/// A wake that waits for the turn of its instance. A dropped wake is [given up](WakeEnd::GivenUp).
pub(crate) struct PendingWake {
    pub(crate) mailbox: Mailbox,
    payload: Payload,
    /// Id of the ask, if the message is one.
    pub(crate) ask: Option<String>,
    /// Receives the end; `None`: it was told.
    done: Option<Done>,
    /// Lines that the turn logged.
    pub(crate) logs: Vec<LogRecord>,
}

impl PendingWake {
    pub(crate) fn new(mailbox: Mailbox, payload: Payload, ask: Option<String>, done: Done) -> Self {
        Self {
            mailbox,
            payload,
            ask,
            done: Some(done),
            logs: Vec::new(),
        }
    }

    /// Content of the message.
    pub(crate) fn body(&self) -> MessageBody {
        MessageBody::Mail {
            mailbox: self.mailbox.clone(),
            payload: self.payload.clone(),
        }
    }

    /// Takes the wake, whose turn is being written: its end is told by the caller, or by nothing if the store is gone.
    pub(crate) fn take(mut self) -> (Done, Vec<LogRecord>) {
        (
            self.done.take().expect("it is taken once"),
            std::mem::take(&mut self.logs),
        )
    }
}

impl Drop for PendingWake {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            done(WakeEnd::GivenUp);
        }
    }
}
