//! A message of a client.

use perdure_engine::MessageBody;
use perdure_provider::{Affected, NewMessage, Outcome};

use super::found::find;
use super::{cancel, mailbox};
use crate::error::Failure;
use crate::session::Session;

/// Puts a message into the mailbox of its instance. A request to cancel an instance that cannot run ends the instance.
pub(super) fn send(session: &mut Session<'_>, message: &NewMessage) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, &message.instance)? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status.is_terminal() {
        return Ok(Outcome::Ended {
            status: instance.status,
        });
    }
    if let Some(max) = mailbox::full_at(&instance, message) {
        return Ok(Outcome::MailboxFull { max });
    }
    if let MessageBody::Cancel { reason } = &message.body
        && instance.cannot_run(session.now_ms())
    {
        let (key, mut affected) = (instance.key, Affected::default());
        cancel::end_at_once(session, instance, reason.clone(), message.time_ms, &mut affected)?;
        return Ok(affected.terminated(key, None));
    }
    let seq = mailbox::put(session, &instance, &message.body, message.time_ms)?;
    Ok(Outcome::Delivered {
        key: instance.key,
        seq,
        owner: instance.owner,
    })
}
