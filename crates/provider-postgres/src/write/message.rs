//! A message of a client.

use perdure_provider::{Affected, NewMessage, Outcome};

use super::cancel;
use super::mailbox::{Sent, SuspendedCancel};
use crate::error::Failure;
use crate::session::Session;

/// Returns the outcome of a message that was sent to the mailbox of its instance. A request to cancel a suspended
/// instance ends the instance.
pub(super) async fn outcome(session: &Session<'_>, message: &NewMessage, sent: Sent) -> Result<Outcome, Failure> {
    let Some(cancel) = SuspendedCancel::of(&message.body, &sent) else {
        return Ok(sent.outcome(message));
    };
    let (key, mut affected) = (cancel.key, Affected::default());
    cancel::end_suspended(session, vec![cancel], message.time_ms, &mut affected).await?;
    Ok(affected.terminated(key, None))
}
