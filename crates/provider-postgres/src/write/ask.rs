//! A message that gets an answer (P22).

use perdure_provider::{AskName, AskState, Outcome};

use super::mailbox::Sent;
use super::message;
use super::outgoing::Outgoing;
use crate::asks;
use crate::error::Failure;
use crate::session::Session;

/// Returns the outcome of a message that was sent or refused. An ask is refused if its receiver has one of that id.
pub(super) async fn outcome(session: &Session<'_>, outgoing: Outgoing<'_>, sent: Sent) -> Result<Outcome, Failure> {
    if outgoing.ask.is_none() {
        return message::outcome(session, outgoing.message, sent).await;
    }
    if matches!(sent, Sent::Refused(_))
        && let Some(state) = known(session, outgoing).await?
    {
        return Ok(Outcome::Asked { state });
    }
    Ok(sent.outcome(outgoing.message))
}

/// Returns the state of an ask that its receiver has already.
pub(super) async fn known(session: &Session<'_>, outgoing: Outgoing<'_>) -> Result<Option<AskState>, Failure> {
    let Some(ask) = outgoing.ask else {
        return Ok(None);
    };
    let name = AskName {
        instance: outgoing.message.instance.clone(),
        ask: ask.to_owned(),
    };
    let states = asks::states(session.connection(), &[name]).await?;
    Ok(states.into_iter().next().flatten())
}
