//! The start of an instance, with its first turn if the claiming worker has run that.

use perdure_provider::{BadWrite, NewInstance, Outcome, ProviderError};

use super::insert::insert;
use super::turn;
use crate::error::internal;
use crate::tables::Tables;

/// Starts an instance. The key and the epoch of the first turn are those that the start gave.
pub(super) fn start(tables: &mut Tables, instance: &NewInstance) -> Result<Outcome, ProviderError> {
    let inserted = match insert(tables, instance, None, None)? {
        Ok(inserted) => inserted,
        Err(refused) => return Ok(refused),
    };
    let (Some(first), Some(epoch)) = (&instance.first_turn, inserted.claimed) else {
        return Ok(inserted.outcome(None));
    };
    match turn::commit(tables, first, inserted.key, epoch)? {
        Outcome::Fenced => Err(internal(BadWrite::FirstTurn)),
        turn => Ok(inserted.outcome(Some(turn))),
    }
}
