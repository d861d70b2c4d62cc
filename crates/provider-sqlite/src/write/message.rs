//! A message into an instance's mailbox.

use perdure_engine::{MessageBody, MessageSeq};
use perdure_provider::{KeptMessage, NewMessage, Outcome, Status};
use rusqlite::params;

use super::cross_instance::Told;
use super::{Found, cancel, find};
use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn send(session: &mut Session<'_>, message: &NewMessage) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, &message.instance)? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status.is_terminal() {
        return Ok(Outcome::Ended {
            status: instance.status,
        });
    }
    if let Some(max) = full_at(&instance, message) {
        return Ok(Outcome::MailboxFull { max });
    }
    if let MessageBody::Cancel { reason } = &message.body
        && instance.status == Status::Suspended
    {
        let (key, mut told) = (instance.key, Told::default());
        cancel::end_held(session, instance, reason.clone(), message.time_ms, &mut told)?;
        let Told { receivers, stopped, .. } = told;
        return Ok(Outcome::Terminated {
            key,
            owner: None,
            receivers,
            stopped,
        });
    }
    let seq = put(session, &instance, &message.body, message.time_ms)?;
    Ok(Outcome::Delivered {
        key: instance.key,
        seq,
        owner: instance.owner,
    })
}

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
    let KeptMessage {
        kind,
        name,
        payload,
        execution,
        scheduled,
    } = KeptMessage::of(body);
    let (execution, ref_id) = (execution.map(|id| integer(id.0)), scheduled.map(|id| integer(id.0)));
    // Numbers rise in the order in which transactions commit, because one transaction writes at a time (P5).
    session.execute(
        "INSERT INTO messages (instance_key, kind, name, payload, time, execution, ref_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![instance.key.0, kind, name, payload, time_ms, execution, ref_id],
    )?;
    let seq = session.connection().last_insert_rowid();
    if instance.owner.is_none() && instance.status != Status::Suspended {
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
