//! A message to send, as it stands in a batch.

use perdure_provider::{NewMessage, StartWithMessage};

/// A message to send.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'w> {
    pub(super) message: &'w NewMessage,
    /// Id of the ask, if the message is one. It is refused if the receiver has an ask of that id.
    pub(super) ask: Option<&'w str>,
}

impl<'w> Outgoing<'w> {
    /// Returns a message that is no ask.
    pub(super) const fn of(message: &'w NewMessage) -> Self {
        Self { message, ask: None }
    }

    /// Returns a message that starts its receiver.
    pub(super) fn starting(both: &'w StartWithMessage) -> Self {
        Self {
            message: &both.message,
            ask: both.ask.as_deref(),
        }
    }
}
