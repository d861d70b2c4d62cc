//! Messages in the order and form in which workers read them (P5).

use perdure_engine::{Mailbox, Message, MessageBody, MessageSeq};
use perdure_provider::{Inbox, InboxPosition, InstanceKey, MessagePage, PageLimit, WorkerId, stored_mailbox};
use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::error::Failure;
use crate::options::INBOX_SCAN_MAX;
use crate::revocation;
use crate::rows::{integer, message, number};

const OF_INSTANCE: &str =
    "SELECT seq, kind, name, payload, execution, ref_id FROM messages WHERE instance_key = ?1 ORDER BY seq LIMIT ?2";

const OF_MAILBOX: &str = "SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
    WHERE instance_key = ?1 AND kind = ?2 AND name = ?3 ORDER BY seq LIMIT ?4";

const CANCELS: &str = "SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
      WHERE instance_key = ?1 AND kind = 'Cancel'";

/// Reads ranges of the index, where these messages stand beside any number of events and messages of queues.
const SETTLED: &str = "SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
      WHERE instance_key = ?1 AND kind < 'Cancel'
    UNION ALL SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
      WHERE instance_key = ?1 AND kind > 'Cancel' AND kind < 'Event'
    UNION ALL SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
      WHERE instance_key = ?1 AND kind > 'Event' AND kind < 'Queue'
    UNION ALL SELECT seq, kind, name, payload, execution, ref_id FROM messages INDEXED BY messages_mailbox
      WHERE instance_key = ?1 AND kind > 'Queue'";

/// Walks over the messages after a number. This is good when they are few, however many instances the worker owns.
const BY_NUMBER: &str = "SELECT m.seq, m.kind, m.name, m.payload, m.execution, m.ref_id, m.instance_key
    FROM messages m CROSS JOIN instances i ON i.key = m.instance_key
    WHERE m.seq > ?2 AND i.owner = ?1 ORDER BY m.seq LIMIT ?3";

/// Walks over the instances that the worker owns. This is good when many messages wait for instances of others, or for
/// suspended ones.
const BY_OWNER: &str = "SELECT m.seq, m.kind, m.name, m.payload, m.execution, m.ref_id, m.instance_key
    FROM instances i CROSS JOIN messages m ON m.instance_key = i.key
    WHERE i.owner = ?1 AND m.seq > ?2 ORDER BY m.seq LIMIT ?3";

/// Returns the last number that a message got, even if it no longer waits.
pub(crate) fn last(connection: &Connection) -> Result<MessageSeq, Failure> {
    let last = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")?
        .query_row([], |row| Ok(MessageSeq(number(row, 0)?)))
        .optional()?;
    Ok(last.unwrap_or(MessageSeq(0)))
}

/// Returns a page of the messages that wait for an instance, of these mailboxes or of any, and of those that are not
/// mail.
pub(crate) fn of_instance(
    connection: &Connection,
    key: InstanceKey,
    mailboxes: Option<&[Mailbox]>,
    limit: PageLimit,
) -> Result<MessagePage, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let some = integer(limit.rows as u64).saturating_add(1);
    let mut page = MessagePage::default();
    let messages = &mut page.messages;
    let mut is_all = false;
    match mailboxes {
        None => {
            let more = read(connection, OF_INSTANCE, params![key.0, some], limit.bytes, messages)?;
            is_all = !more && messages.len() <= limit.rows;
            if !is_all {
                limit.cut(messages);
            }
        }
        Some(mailboxes) => {
            for mailbox in mailboxes {
                let (kind, name) = stored_mailbox(mailbox);
                let params = params![key.0, kind, name, some];
                read(connection, OF_MAILBOX, params, limit.bytes, messages)?;
                // The oldest messages of all mailboxes are kept, and no more than these are in memory.
                messages.sort_unstable_by_key(|message| message.seq);
                limit.cut(messages);
            }
        }
    }
    if !is_all {
        messages.retain(|message| matches!(message.body, MessageBody::Mail { .. }));
        let mut others = Vec::new();
        let more_cancels = read(connection, CANCELS, params![key.0], limit.bytes, &mut others)?;
        let cancels: usize = others.iter().map(|message| message.body.bytes()).sum();
        let left = limit.bytes.saturating_sub(cancels);
        page.more_settled = more_cancels || read(connection, SETTLED, params![key.0], left, &mut others)?;
        messages.append(&mut others);
        messages.sort_unstable_by_key(|message| message.seq);
        let (waiting, last) = connection
            .prepare_cached(
                "SELECT unread, (SELECT max(seq) FROM messages WHERE instance_key = ?1) FROM instances WHERE key = ?1",
            )?
            .query_row(params![key.0], |row| {
                Ok((number(row, 0)?, row.get::<_, Option<i64>>(1)?))
            })?;
        if waiting > messages.len() as u64 {
            page.more_up_to = last.and_then(|last| u64::try_from(last).ok()).map(MessageSeq);
        }
    }
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(page)
}

/// Adds messages until the added ones reach `bytes_max` bytes. Returns true if there are others.
fn read(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    bytes_max: usize,
    messages: &mut Vec<Message>,
) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        if bytes >= bytes_max {
            return Ok(true);
        }
        let message = message(row)?;
        bytes += message.body.bytes();
        messages.push(message);
    }
    Ok(false)
}

/// Returns a page of the messages for instances that the worker owns. The position is the last number that was looked
/// at, because numbers rise over all instances in the order of commits. An earlier message for an instance that the
/// worker did not own then is read when that instance is acquired.
pub(crate) fn of_worker(
    connection: &Connection,
    worker: &WorkerId,
    since: &InboxPosition,
    limit: PageLimit,
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
    let mut rows = statement.query(params![&*worker.0, after, integer(limit.rows as u64)])?;
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while !limit.is_reached(messages.len(), bytes)
        && let Some(row) = rows.next()?
    {
        after = row.get(0)?;
        let message = match message(row) {
            Err(failure) if failure.is_undecodable() => Err(MessageSeq(number(row, 0)?)),
            read => Ok(read?),
        };
        bytes += message.as_ref().map_or(0, |message: &Message| message.body.bytes());
        messages.push((InstanceKey(row.get(6)?), message));
    }
    drop(rows);
    let more = limit.is_reached(messages.len(), bytes);
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
