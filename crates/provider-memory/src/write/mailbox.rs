//! The mailboxes of instances.

use perdure_engine::{Bug, MessageBody, MessageSeq, Settlement, is_planted};
use perdure_provider::{Epoch, InstanceKey, NewMessage, Receivers, Status, WorkerId};

use crate::queues;
use crate::rows::{InstanceRow, Parent};
use crate::tables::Tables;

/// Returns the number of messages that may wait for the instance, if as many do.
pub(super) fn full_at(row: &InstanceRow, message: &NewMessage) -> Option<u64> {
    message.unread_max.filter(|max| row.unread >= *max)
}

/// Puts a message into the mailbox of an instance that has not ended, and wakes the instance if it sleeps.
pub(super) fn put(tables: &mut Tables, key: InstanceKey, body: MessageBody) -> MessageSeq {
    let is_new = tables.instance(key).is_some_and(|row| row.epoch == Epoch(0));
    let jumps_line = is_new && is_planted(Bug::MessageJumpsLine);
    if jumps_line {
        queues::leave(tables, key.into());
    }
    let now_ms = tables.now_ms;
    tables.edit(key, |row| {
        row.unread += 1;
        // An instance that no worker has acquired yet is due at its own time (P25).
        let may_wake = (!is_new || jumps_line) && row.status != Status::Suspended;
        if row.owner.is_none() && may_wake {
            // An instance that is due already keeps its place in the order.
            row.wake_at_ms = Some(row.wake_at_ms.map_or(now_ms, |at| at.min(now_ms)));
        }
    });
    if is_planted(Bug::CancelForgotten) && matches!(body, MessageBody::Cancel { .. }) {
        return MessageSeq(tables.last_seq().0 + 1);
    }
    tables.add_message(key, body)
}

/// Sends the execution that waits for an operation the settlement of it. Returns false if the execution no longer
/// waits.
pub(super) fn settle(tables: &mut Tables, waiting: Parent, settlement: Settlement, receivers: &mut Receivers) -> bool {
    let owner = (tables.instance(waiting.key))
        .filter(|row| !row.status.is_terminal() && row.execution == waiting.execution)
        .map(|row| row.owner.clone());
    let Some(owner) = owner else { return false };
    let body = MessageBody::Settled {
        execution: waiting.execution,
        scheduled: waiting.event,
        settlement,
    };
    put(tables, waiting.key, body);
    add_receiver(receivers, owner);
    true
}

/// Adds the owner of an instance that got a message.
pub(super) fn add_receiver(receivers: &mut Receivers, owner: Option<WorkerId>) {
    if receivers.last() != Some(&owner) {
        receivers.push(owner);
    }
}
