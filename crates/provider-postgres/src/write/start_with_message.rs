//! A message that starts its receiver if that is absent (P21).

use perdure_provider::{Outcome, StartWithMessage};

use super::mailbox::Messages;
use super::outgoing::Outgoing;
use super::{ask, start};
use crate::error::Failure;
use crate::session::Session;

/// Most rounds of a start with its message. In each round but the last, the instance that had the id is deleted between
/// the start, which it refused, and the message.
const ROUNDS_MAX: u32 = 16;

/// Starts the receiver unless its id is in use, and sends the message. Returns the outcome of the message.
pub(super) async fn send(session: &Session<'_>, both: &StartWithMessage) -> Result<Outcome, Failure> {
    both.check().map_err(Failure::internal)?;
    let outgoing = Outgoing::starting(both);
    for _ in 0..ROUNDS_MAX {
        if let Some(state) = ask::known(session, outgoing).await?
            && !state.may_be_sent_again(both.start.on_conflict)
        {
            return Ok(Outcome::Asked { state });
        }
        let started = start::restart(session, &both.start).await?;
        let sent = Messages::to_ids([outgoing]).send(session).await?;
        for sent in sent {
            let outcome = ask::outcome(session, outgoing, sent).await?.with_start(started.clone());
            if outcome != Outcome::NotFound {
                return Ok(outcome);
            }
        }
    }
    Ok(Outcome::NotFound)
}
