//! A message that starts its receiver if that is absent (P21).

use perdure_provider::{Outcome, ProviderError, StartWithMessage};

use super::{ask, message, start};
use crate::error::internal;
use crate::tables::Tables;

/// Starts the receiver unless its id is in use, and sends the message. Returns the outcome of the message.
pub(super) fn send(tables: &mut Tables, both: &StartWithMessage) -> Result<Outcome, ProviderError> {
    both.check().map_err(internal)?;
    let Some(id) = &both.ask else {
        let started = start::start(tables, &both.start)?;
        return Ok(message::send(tables, &both.message).with_start(started));
    };
    if let Some(state) = ask::known(tables, id, &both.message)
        && !state.may_be_sent_again(both.start.on_conflict)
    {
        return Ok(Outcome::Asked { state });
    }
    let started = start::start(tables, &both.start)?;
    Ok(ask::insert(tables, id, &both.message).with_start(started))
}
