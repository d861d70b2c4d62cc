//! A message that starts its receiver if that is absent (P21).

use perdure_provider::{Outcome, StartWithMessage};

use super::{message, start};
use crate::error::Failure;
use crate::session::Session;

/// Starts the receiver unless its id is in use, and sends the message. Returns the outcome of the message.
pub(super) fn send(session: &mut Session<'_>, both: &StartWithMessage) -> Result<Outcome, Failure> {
    both.check().map_err(Failure::internal)?;
    start::start(session, &both.start)?;
    message::send(session, &both.message)
}
