//! The mailboxes of instances.

use perdure_engine::{MessageBody, MessageSeq, Settlement};
use perdure_provider::{Epoch, NewMessage, Receivers, Status, StoredMessage, WorkerId};
use rusqlite::params;

use super::found::{Found, Parent, find_by_key};
use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

/// Returns the number of messages that may wait for the instance, if as many do.
pub(super) fn full_at(instance: &Found, message: &NewMessage) -> Option<u64> {
    message.unread_max.filter(|max| instance.unread >= *max)
}

/// Puts a message into the mailbox of an instance that has not ended, and wakes the instance if it sleeps.
pub(super) fn put(
    session: &Session<'_>,
    instance: &Found,
    body: &MessageBody,
    time_ms: i64,
) -> Result<MessageSeq, Failure> {
    let StoredMessage {
        kind,
        name,
        payload,
        execution,
        scheduled,
    } = StoredMessage::of(body);
    // Numbers rise in the order in which transactions commit, because one transaction writes at a time (P5).
    named!(session.execute, "INSERT INTO messages ({columns}) VALUES ({values})", {
        instance_key: instance.key.0,
        kind: kind,
        name: name,
        payload: payload,
        time: time_ms,
        execution: execution.map(|id| integer(id.0)),
        ref_id: scheduled.map(|id| integer(id.0)),
    })?;
    let seq = session.connection().last_insert_rowid();
    // An instance that no worker has acquired yet is due at its own time (P25).
    let may_wake = instance.epoch != Epoch(0) && instance.status != Status::Suspended;
    if instance.owner.is_none() && may_wake {
        // An instance that is due already keeps its place in the order.
        session.execute(
            "UPDATE instances SET unread = unread + 1, wake_at = min(coalesce(wake_at, ?2), ?2) WHERE key = ?1",
            params![instance.key.0, session.now_ms()],
        )?;
    } else {
        session.execute(
            "UPDATE instances SET unread = unread + 1 WHERE key = ?1",
            params![instance.key.0],
        )?;
    }
    Ok(MessageSeq(u64::try_from(seq).expect("AUTOINCREMENT counts from 1")))
}

/// Sends the execution that waits for an operation the settlement of it. Returns false if the execution no longer
/// waits.
pub(super) fn settle(
    session: &Session<'_>,
    waiting: &Parent,
    settlement: Settlement,
    time_ms: i64,
    receivers: &mut Receivers,
) -> Result<bool, Failure> {
    let found = find_by_key(session, waiting.key)?
        .filter(|found| !found.status.is_terminal() && found.execution == waiting.execution);
    let Some(found) = found else { return Ok(false) };
    let body = MessageBody::Settled {
        execution: waiting.execution,
        scheduled: waiting.event,
        settlement,
    };
    put(session, &found, &body, time_ms)?;
    add_receiver(receivers, found.owner);
    Ok(true)
}

/// Adds the owner of an instance that got a message.
pub(super) fn add_receiver(receivers: &mut Receivers, owner: Option<WorkerId>) {
    if receivers.last() != Some(&owner) {
        receivers.push(owner);
    }
}
