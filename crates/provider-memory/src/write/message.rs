//! A message into an instance's mailbox.

use perdure_engine::{Bug, MessageBody, MessageSeq, is_planted};
use perdure_provider::{InstanceKey, NewMessage, Outcome, Status};

use super::cancel;
use super::cross_instance::Told;
use crate::rows::InstanceRow;
use crate::tables::Tables;

pub(super) fn send(tables: &mut Tables, message: &NewMessage) -> Outcome {
    let Some(row) = tables.find(&message.instance) else {
        return Outcome::NotFound;
    };
    if row.status.is_terminal() {
        return Outcome::Ended { status: row.status };
    }
    if let Some(max) = full_at(row, message) {
        return Outcome::MailboxFull { max };
    }
    let (key, owner) = (row.key, row.owner.clone());
    if let MessageBody::Cancel { reason } = &message.body
        && row.status == Status::Suspended
    {
        let mut told = Told::default();
        cancel::end_held(tables, key, reason.clone(), message.time_ms, &mut told);
        let Told { receivers, stopped, .. } = told;
        return Outcome::Terminated {
            key,
            owner: None,
            receivers,
            stopped,
        };
    }
    let seq = put(tables, key, message.body.clone());
    Outcome::Delivered { key, seq, owner }
}

/// Returns the number of messages that may wait for the instance, if as many do.
fn full_at(row: &InstanceRow, message: &NewMessage) -> Option<u64> {
    message.unread_max.filter(|max| row.unread >= *max)
}

/// Puts a message into the mailbox of an instance that has not ended, and wakes the instance if it sleeps.
pub(super) fn put(tables: &mut Tables, key: InstanceKey, body: MessageBody) -> MessageSeq {
    let now_ms = tables.now_ms;
    tables.edit(key, |row| {
        row.unread += 1;
        if row.owner.is_none() && row.status != Status::Suspended {
            // An instance that is due already keeps its place in the order.
            row.wake_at_ms = Some(row.wake_at_ms.map_or(now_ms, |at| at.min(now_ms)));
        }
    });
    if is_planted(Bug::CancelForgotten) && matches!(body, MessageBody::Cancel { .. }) {
        return MessageSeq(tables.last_seq().0 + 1);
    }
    tables.add_message(key, body)
}
