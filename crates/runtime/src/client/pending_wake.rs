//! The wake of a sleeping instance whose generator was kept. Its turn is not written yet, and acquires the instance.

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

/// The cause of a wake.
pub(crate) enum WakeCause {
    /// A message that is handed over. It is in no store, and the turn has to consume it.
    Message { mailbox: Mailbox, payload: Payload },
    /// The instance is due in the store.
    Due,
}

/// A wake that waits for the turn of its instance. A dropped wake is [given up](WakeEnd::GivenUp).
pub(crate) struct PendingWake {
    pub(crate) cause: WakeCause,
    /// Id of the ask, if a message that is one is handed over.
    pub(crate) ask: Option<String>,
    /// Receives the end; `None`: it was told.
    done: Option<Done>,
    /// Lines that the turn logged.
    pub(crate) logs: Vec<LogRecord>,
}

impl PendingWake {
    pub(crate) fn new(cause: WakeCause, ask: Option<String>, done: Done) -> Self {
        Self {
            cause,
            ask,
            done: Some(done),
            logs: Vec::new(),
        }
    }

    /// Returns the message that is handed over.
    pub(crate) fn message(&self) -> Option<MessageBody> {
        match &self.cause {
            WakeCause::Message { mailbox, payload } => Some(MessageBody::Mail {
                mailbox: mailbox.clone(),
                payload: payload.clone(),
            }),
            WakeCause::Due => None,
        }
    }

    /// Returns true if a turn that consumes so many messages is the one that the wake is for. A message that is handed
    /// over must be the only one: the code was not at the wait for it otherwise, or another one came first.
    pub(crate) const fn fits(&self, consumed: usize) -> bool {
        match self.cause {
            WakeCause::Message { .. } => consumed == 1,
            WakeCause::Due => true,
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
