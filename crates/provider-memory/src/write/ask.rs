//! A message that gets an answer (P22).

use perdure_engine::{Bug, is_planted};
use perdure_provider::{Ask, AskName, AskState, NewMessage, Outcome, ProviderError};

use super::message;
use crate::asks;
use crate::error::internal;
use crate::tables::Tables;

/// Sends an ask, unless its receiver has one of that id.
pub(super) fn send(tables: &mut Tables, ask: &Ask) -> Result<Outcome, ProviderError> {
    ask.check().map_err(internal)?;
    Ok(match known(tables, &ask.id, &ask.message) {
        Some(state) => Outcome::Asked { state },
        None => insert(tables, &ask.id, &ask.message),
    })
}

/// Returns the state of an ask that its receiver has already.
pub(super) fn known(tables: &Tables, id: &str, message: &NewMessage) -> Option<AskState> {
    let name = AskName {
        instance: message.instance.clone(),
        ask: id.to_owned(),
    };
    asks::read(tables, &name).filter(|_| !is_planted(Bug::AskNotKnown))
}

/// Sends an ask that its receiver does not have.
pub(super) fn insert(tables: &mut Tables, id: &str, message: &NewMessage) -> Outcome {
    let outcome = message::send(tables, message);
    if let Outcome::Delivered { key, .. } = outcome {
        asks::insert(tables, key, id);
    }
    outcome
}
