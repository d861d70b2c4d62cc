//! A message that gets an answer (P22).

use perdure_provider::{AskName, Outcome};

use super::mailbox::{Outgoing, Sent};
use crate::asks;
use crate::error::Failure;
use crate::session::Session;

/// Returns the outcome of an ask that was sent, or was refused because its receiver has an ask of that id.
pub(super) async fn outcome(
    session: &Session<'_>,
    ask: &str,
    outgoing: Outgoing<'_>,
    sent: Sent,
) -> Result<Outcome, Failure> {
    if matches!(sent, Sent::Refused(_)) {
        let name = AskName {
            instance: outgoing.message.instance.clone(),
            ask: ask.to_owned(),
        };
        let mut states = asks::states(session.connection(), &[name]).await?;
        if let Some(Some(state)) = states.pop() {
            return Ok(Outcome::Asked { state });
        }
    }
    Ok(sent.outcome(outgoing.message))
}
