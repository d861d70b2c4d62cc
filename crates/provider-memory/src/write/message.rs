//! A message of a client or of another instance.

use perdure_engine::MessageBody;
use perdure_provider::{Affected, NewMessage, Outcome};

use super::{cancel, mailbox};
use crate::tables::Tables;

/// Puts a message into the mailbox of its instance. A request to cancel an instance that cannot run ends the instance.
pub(super) fn send(tables: &mut Tables, message: &NewMessage) -> Outcome {
    let Some(row) = tables.find(&message.instance) else {
        return Outcome::NotFound;
    };
    if row.status.is_terminal() {
        return Outcome::Ended { status: row.status };
    }
    if let Some(max) = mailbox::full_at(row, message) {
        return Outcome::MailboxFull { max };
    }
    let (key, owner) = (row.key, row.owner.clone());
    if let MessageBody::Cancel { reason } = &message.body
        && cancel::cannot_run(tables, row)
    {
        let mut affected = Affected::default();
        cancel::end_at_once(tables, key, reason.clone(), message.time_ms, &mut affected);
        return affected.terminated(key, None);
    }
    let seq = mailbox::put(tables, key, message.body.clone());
    Outcome::Delivered { key, seq, owner }
}
