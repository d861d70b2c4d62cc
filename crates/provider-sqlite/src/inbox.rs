//! Messages as their readers find them (P5).

use perdure_engine::{Mailbox, Message, MessageBody, MessageSeq};
use perdure_provider::{Inbox, InboxPosition, InstanceKey, MessagePage, WorkerId, kept_mailbox};
use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::error::Failure;
use crate::options::INBOX_SCAN_MAX;
use crate::revocation;
use crate::rows::{integer, message, number};

const OF_INSTANCE: &str =
    "SELECT seq, kind, name, payload, execution, ref_id FROM messages WHERE instance_key = ?1 ORDER BY seq LIMIT ?2";

const OF_MAILBOX: &str = "SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
    WHERE instance_key = ?1 AND kind = ?2 AND name = ?3 ORDER BY seq LIMIT ?4";

/// Ranges of the index, which has them beside any number of events and messages of queues.
const NO_MAIL: &str = "SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
      WHERE instance_key = ?1 AND kind < 'Event'
    UNION ALL SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
      WHERE instance_key = ?1 AND kind > 'Event' AND kind < 'Queue'
    UNION ALL SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
      WHERE instance_key = ?1 AND kind > 'Queue'";

/// Walks over the messages after a number: good when these are few, whatever the worker owns.
const BY_NUMBER: &str = "SELECT m.seq, m.kind, m.name, m.payload, m.execution, m.ref_id, m.instance_key
    FROM messages m CROSS JOIN instances i ON i.key = m.instance_key
    WHERE m.seq > ?2 AND i.owner = ?1 ORDER BY m.seq LIMIT ?3";

/// Walks over what the worker owns: good when many messages wait for instances of others, or for suspended ones.
const BY_OWNER: &str = "SELECT m.seq, m.kind, m.name, m.payload, m.execution, m.ref_id, m.instance_key
    FROM instances i CROSS JOIN messages m ON m.instance_key = i.key
    WHERE i.owner = ?1 AND m.seq > ?2 ORDER BY m.seq LIMIT ?3";

/// The last number that a message got, whether it still waits or not.
pub(crate) fn last(connection: &Connection) -> Result<MessageSeq, Failure> {
    let last = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")?
        .query_row([], |row| Ok(MessageSeq(number(row, 0)?)))
        .optional()?;
    Ok(last.unwrap_or(MessageSeq(0)))
}

/// Up to `limit` messages that wait for an instance, of these mailboxes or of any, and all that are no mail.
pub(crate) fn of_instance(
    connection: &Connection,
    key: InstanceKey,
    mailboxes: Option<&[Mailbox]>,
    limit: usize,
) -> Result<MessagePage, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let some = integer(limit as u64).saturating_add(1);
    let mut messages = Vec::new();
    match mailboxes {
        None => read(connection, OF_INSTANCE, params![key.0, some], &mut messages)?,
        Some(mailboxes) => {
            for mailbox in mailboxes {
                let (kind, name) = kept_mailbox(mailbox);
                read(connection, OF_MAILBOX, params![key.0, kind, name, some], &mut messages)?;
            }
            messages.sort_unstable_by_key(|message| message.seq);
        }
    }
    let is_all = mailboxes.is_none() && messages.len() <= limit;
    let mut more_up_to = None;
    if !is_all {
        messages.truncate(limit);
        messages.retain(|message| matches!(message.body, MessageBody::Mail { .. }));
        read(connection, NO_MAIL, params![key.0], &mut messages)?;
        messages.sort_unstable_by_key(|message| message.seq);
        let (waiting, last) = connection
            .prepare_cached(
                "SELECT unread, (SELECT max(seq) FROM messages WHERE instance_key = ?1) FROM instances WHERE key = ?1",
            )?
            .query_row(params![key.0], |row| {
                Ok((number(row, 0)?, row.get::<_, Option<i64>>(1)?))
            })?;
        if waiting > messages.len() as u64 {
            more_up_to = last.and_then(|last| u64::try_from(last).ok()).map(MessageSeq);
        }
    }
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(MessagePage { messages, more_up_to })
}

fn read(connection: &Connection, sql: &str, params: impl Params, messages: &mut Vec<Message>) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        messages.push(message(row)?);
    }
    Ok(())
}

/// Up to `limit` messages for instances that the worker owns; the position is the last number that was looked at, because numbers rise over
/// all instances in the order of commits. What came before it for an instance that the worker did not own then comes with that instance.
pub(crate) fn of_worker(
    connection: &Connection,
    worker: &WorkerId,
    since: &InboxPosition,
    limit: usize,
) -> Result<Inbox, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let mut after: i64 = since.0.parse().unwrap_or(0);
    let crowded = connection
        .prepare_cached("SELECT 1 FROM messages WHERE seq > ?1 LIMIT 1 OFFSET ?2")?
        .query_row(params![after, INBOX_SCAN_MAX], |_| Ok(()))
        .optional()?
        .is_some();
    let mut statement = connection.prepare_cached(if crowded { BY_OWNER } else { BY_NUMBER })?;
    let mut rows = statement.query(params![&*worker.0, after, integer(limit as u64)])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        after = row.get(0)?;
        let message = match message(row) {
            Err(failure) if failure.is_undecodable() => Err(MessageSeq(number(row, 0)?)),
            read => Ok(read?),
        };
        messages.push((InstanceKey(row.get(6)?), message));
    }
    drop(rows);
    let more = messages.len() == limit;
    if !more {
        after = after.max(integer(last(connection)?.0));
    }
    let revoked = revocation::of_worker(connection, worker)?;
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(Inbox {
        more,
        revoked,
        messages,
        position: InboxPosition(after.to_string()),
    })
}
