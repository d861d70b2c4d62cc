//! A message of a client.

use perdure_provider::{Affected, NewMessage, Outcome};

use super::cancel;
use super::mailbox::{CancelAtOnce, Sent};
use crate::error::Failure;
use crate::session::Session;

/// Returns the outcome of a message that was sent to the mailbox of its instance. A request to cancel an
/// instance that cannot run ends the instance.
pub(super) async fn outcome(session: &Session<'_>, message: &NewMessage, sent: Sent) -> Result<Outcome, Failure> {
    let Some(cancel) = CancelAtOnce::of(&message.body, &sent) else {
        return Ok(sent.outcome(message));
    };
    let (key, mut affected) = (cancel.key, Affected::default());
    cancel::end_at_once(session, vec![cancel], message.time_ms, &mut affected).await?;
    Ok(affected.terminated(key, None))
}
