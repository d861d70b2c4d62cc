//! Messages as their readers find them (P5).

use perdure_engine::{Message, MessageSeq};
use perdure_provider::{InstanceKey, WorkerId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;
use crate::options::INBOX_SCAN_MAX;
use crate::rows::{integer, message};

const OF_INSTANCE: &str =
    "SELECT seq, kind, name, payload, execution, ref_id FROM messages WHERE instance_key = ?1 ORDER BY seq";

/// Walks over the messages after a number: good when these are few, whatever the worker owns.
const BY_NUMBER: &str = "SELECT m.seq, m.kind, m.name, m.payload, m.execution, m.ref_id, m.instance_key
    FROM messages m CROSS JOIN instances i ON i.key = m.instance_key
    WHERE m.seq > ?2 AND i.owner = ?1 ORDER BY m.seq LIMIT ?3";

/// Walks over what the worker owns: good when many messages wait for instances of others, or for suspended ones.
const BY_OWNER: &str = "SELECT m.seq, m.kind, m.name, m.payload, m.execution, m.ref_id, m.instance_key
    FROM instances i CROSS JOIN messages m ON m.instance_key = i.key
    WHERE i.owner = ?1 AND m.seq > ?2 ORDER BY m.seq LIMIT ?3";

/// Every message that waits for an instance, in order.
pub(crate) fn of_instance(connection: &Connection, key: InstanceKey) -> Result<Vec<Message>, Failure> {
    let mut statement = connection.prepare_cached(OF_INSTANCE)?;
    let mut rows = statement.query(params![key.0])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push(message(row)?);
    }
    Ok(messages)
}

/// Up to `limit` messages after `after` for instances that the worker owns, in order.
pub(crate) fn of_worker(
    connection: &Connection,
    worker: &WorkerId,
    after: MessageSeq,
    limit: usize,
) -> Result<Vec<(InstanceKey, Message)>, Failure> {
    let after = integer(after.0);
    let crowded = connection
        .prepare_cached("SELECT 1 FROM messages WHERE seq > ?1 LIMIT 1 OFFSET ?2")?
        .query_row(params![after, INBOX_SCAN_MAX], |_| Ok(()))
        .optional()?
        .is_some();
    let mut statement = connection.prepare_cached(if crowded { BY_OWNER } else { BY_NUMBER })?;
    let mut rows = statement.query(params![&*worker.0, after, integer(limit as u64)])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push((InstanceKey(row.get(6)?), message(row)?));
    }
    Ok(messages)
}
