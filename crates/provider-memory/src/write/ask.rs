//! A message that gets an answer (P22).

use perdure_engine::{Bug, is_planted};
use perdure_provider::{Ask, AskName, Outcome, ProviderError};

use super::message;
use crate::asks::{self, AskRow};
use crate::error::internal;
use crate::tables::Tables;

/// Sends an ask, unless its receiver has one of that id.
pub(super) fn send(tables: &mut Tables, ask: &Ask) -> Result<Outcome, ProviderError> {
    ask.check().map_err(internal)?;
    let name = AskName {
        instance: ask.message.instance.clone(),
        ask: ask.id.clone(),
    };
    if let Some(state) = asks::read(tables, &name).filter(|_| !is_planted(Bug::AskNotKnown)) {
        return Ok(Outcome::Asked { state });
    }
    let outcome = message::send(tables, &ask.message);
    if let Outcome::Delivered { key, .. } = outcome {
        tables.asks.insert((key, name.ask), AskRow::default());
    }
    Ok(outcome)
}
