//! A message that gets an answer (P22).

use perdure_provider::{Ask, AskName, Outcome};
use rusqlite::params;

use super::message;
use crate::asks;
use crate::error::Failure;
use crate::session::Session;

/// Sends an ask, unless its receiver has one of that id.
pub(super) fn send(session: &mut Session<'_>, ask: &Ask) -> Result<Outcome, Failure> {
    ask.check().map_err(Failure::internal)?;
    let name = AskName {
        instance: ask.message.instance.clone(),
        ask: ask.id.clone(),
    };
    if let Some(state) = asks::state(session.connection(), &name)? {
        return Ok(Outcome::Asked { state });
    }
    let outcome = message::send(session, &ask.message)?;
    if let Outcome::Delivered { key, .. } = &outcome {
        session.execute(
            "INSERT INTO asks (instance_key, id) VALUES (?1, ?2)",
            params![key.0, ask.id],
        )?;
    }
    Ok(outcome)
}
