//! The start of an instance, with its first turn if the claiming worker has run that.

use perdure_provider::{BadWrite, NewInstance, Outcome};

use super::insert::insert;
use super::turn;
use crate::error::Failure;
use crate::session::Session;

/// Starts an instance. The key and the epoch of the first turn are those that the start gave.
pub(super) fn start(session: &mut Session<'_>, instance: &NewInstance) -> Result<Outcome, Failure> {
    let inserted = match insert(session, instance, None, None)? {
        Ok(inserted) => inserted,
        Err(refused) => return Ok(refused),
    };
    let (Some(first), Some(epoch)) = (&instance.first_turn, inserted.claimed) else {
        return Ok(inserted.outcome(None));
    };
    match turn::commit(session, first, inserted.key, epoch)? {
        Outcome::Fenced => Err(Failure::internal(BadWrite::FirstTurn)),
        turn => Ok(inserted.outcome(Some(turn))),
    }
}
