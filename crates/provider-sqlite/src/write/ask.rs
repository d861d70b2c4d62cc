//! A message that gets an answer (P22).

use perdure_provider::{Ask, AskName, AskState, NewMessage, Outcome};

use super::message;
use crate::asks;
use crate::error::Failure;
use crate::session::Session;

/// Sends an ask, unless its receiver has one of that id.
pub(super) fn send(session: &mut Session<'_>, ask: &Ask) -> Result<Outcome, Failure> {
    ask.check().map_err(Failure::internal)?;
    match known(session, &ask.id, &ask.message)? {
        Some(state) => Ok(Outcome::Asked { state }),
        None => insert(session, &ask.id, &ask.message),
    }
}

/// Returns the state of an ask that its receiver has already.
pub(super) fn known(session: &Session<'_>, id: &str, message: &NewMessage) -> Result<Option<AskState>, Failure> {
    let name = AskName {
        instance: message.instance.clone(),
        ask: id.to_owned(),
    };
    asks::state(session.connection(), &name)
}

/// Sends an ask that its receiver does not have.
pub(super) fn insert(session: &mut Session<'_>, id: &str, message: &NewMessage) -> Result<Outcome, Failure> {
    let outcome = message::send(session, message)?;
    if let Outcome::Delivered { key, .. } = &outcome {
        asks::insert(session, *key, id)?;
    }
    Ok(outcome)
}
