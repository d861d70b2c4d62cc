//! A message that starts its receiver if that is absent (P21).

use perdure_provider::{Outcome, ProviderError, StartWithMessage};

use super::{message, start};
use crate::error::internal;
use crate::tables::Tables;

/// Starts the receiver unless its id is in use, and sends the message. Returns the outcome of the message.
pub(super) fn send(tables: &mut Tables, both: &StartWithMessage) -> Result<Outcome, ProviderError> {
    both.check().map_err(internal)?;
    start::start(tables, &both.start)?;
    Ok(message::send(tables, &both.message))
}
