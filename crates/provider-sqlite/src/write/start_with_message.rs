//! A message that starts its receiver if that is absent (P21).

use perdure_provider::{Outcome, StartWithMessage};

use super::{ask, message, start};
use crate::error::Failure;
use crate::session::Session;

/// Starts the receiver unless its id is in use, and sends the message. Returns the outcome of the message.
pub(super) fn send(session: &mut Session<'_>, both: &StartWithMessage) -> Result<Outcome, Failure> {
    both.check().map_err(Failure::internal)?;
    let Some(id) = &both.ask else {
        let started = start::start(session, &both.start)?;
        return Ok(message::send(session, &both.message)?.with_start(started));
    };
    if let Some(state) = ask::known(session, id, &both.message)?
        && !state.may_be_sent_again(both.start.on_conflict)
    {
        return Ok(Outcome::Asked { state });
    }
    let started = start::start(session, &both.start)?;
    Ok(ask::insert(session, id, &both.message)?.with_start(started))
}
