//! Messages, as their readers get them (P5).
//!
//! A worker reads the messages that became visible since its last read: those of transactions that its last snapshot
//! did not see, in any order of their numbers. A position is that snapshot. Within a sweep of several pages, it is also
//! the snapshot of the first page, at which the sweep ends, and the place of the last message that was read. A position
//! holds for the server that gave it, until that server is restarted. After a restart, numbers of transactions that
//! were lost with the server are given to others. (Snapshots as values:
//! <https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT>.)
//!
//! Messages come in the order of their transactions' numbers, along an index. A transaction has its number before it
//! waits for the row of an instance, so a transaction with a higher number may write first. Then the second message of
//! the instance overtakes the first. A message whose predecessor comes behind it is not handed over. Its reader is told
//! to read all messages of the instance instead, which are in order.

use perdure_engine::{Mailbox, Message, MessageBody, MessageSeq};
use perdure_provider::{Inbox, InboxPosition, InstanceKey, MessagePage, PageLimit, WorkerId, stored_mailbox};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::revocation;
use crate::rows::{integer, message, number};
use crate::statement::named;
use crate::text::encode;

macro_rules! messages_where {
    ($which:literal) => {
        concat!(
            "SELECT seq, kind, name, payload, execution, ref_id FROM {schema}.messages WHERE instance_key = $key AND ",
            $which
        )
    };
}

/// Selects the messages that wake an instance besides those in its mailboxes: requests to cancel, then the rest, up to
/// a number of bytes. Also tells how many there are in all. Each range of the index is read by itself.
const NO_MAIL: &str = concat!(
    "SELECT * FROM (SELECT m.*, count(*) OVER () AS found,
       sum(size) OVER (ORDER BY kind <> 'Cancel', seq) - size AS before FROM (
       SELECT m.*, coalesce(octet_length(payload), 0) AS size FROM (",
    messages_where!("kind < 'Event'"),
    " UNION ALL ",
    messages_where!("kind > 'Event' AND kind < 'Queue'"),
    " UNION ALL ",
    messages_where!("kind > 'Queue'"),
    ") m) m) w WHERE before < $bytes::bigint"
);

/// Selects the oldest messages, up to a number of rows and of bytes.
macro_rules! oldest_where {
    ($which:literal) => {
        concat!(
            "SELECT * FROM (SELECT m.*, sum(size) OVER (ORDER BY seq) - size AS before FROM (
               SELECT m.*, coalesce(octet_length(payload), 0) AS size FROM (",
            messages_where!($which),
            " ORDER BY seq LIMIT $rows) m) m) w WHERE before < $bytes::bigint ORDER BY seq"
        )
    };
}

const OF_ANY: &str = oldest_where!("true");

const OF_MAILBOX: &str =
    oldest_where!("kind = $kind AND hashtextextended(name, 0) = hashtextextended($name, 0) AND name = $name");

macro_rules! inbox_where {
    ($from:literal, $which:literal) => {
        concat!(
            "SELECT m.*, s.now, s.started, s.revoked FROM (
               SELECT pg_current_snapshot()::text AS now,
               extract(epoch FROM pg_postmaster_start_time())::text AS started,
                 (SELECT string_agg(instance_key || ' ' || epoch, ',' ORDER BY instance_key)
                  FROM {schema}.revocations WHERE worker = $owner) AS revoked) s
             LEFT JOIN LATERAL (
               SELECT seq, kind, name, payload, execution, ref_id, instance_key, xid::text, size,
                 EXISTS (SELECT FROM {schema}.messages p
                   WHERE p.instance_key = w.instance_key AND p.seq = w.seq - 1 AND (p.xid > w.xid) IS TRUE) AS overtakes
               FROM (
                 SELECT m.*, sum(size) OVER (ORDER BY xid, instance_key, seq) - size AS before FROM (
                   SELECT m.seq, m.kind, m.name, m.payload, m.execution, m.ref_id, m.instance_key, m.xid,
                     coalesce(octet_length(m.payload), 0)::bigint AS size
                   FROM ",
            $from,
            " WHERE ",
            $which,
            " ORDER BY m.xid, m.instance_key, m.seq LIMIT $rows) m) w
               WHERE before < $bytes::bigint ORDER BY w.xid, w.instance_key, w.seq) m ON true"
        )
    };
}

/// Selects the whole inbox of a worker that has read nothing.
const ALL: &str = inbox_where!(
    "{schema}.instances i CROSS JOIN LATERAL (
       SELECT * FROM {schema}.messages WHERE instance_key = i.key OFFSET 0) m",
    "i.owner = $owner"
);

/// Walks over the recent messages of all instances. They are few, because a worker is told when it gets some.
const SINCE: &str = inbox_where!(
    "{schema}.messages m JOIN {schema}.instances i
       ON i.key = ANY (ARRAY[m.instance_key]) AND (i.owner = $owner) IS TRUE",
    "m.xid >= pg_snapshot_xmin($since::text::pg_snapshot) AND NOT pg_visible_in_snapshot(m.xid, \
     $since::text::pg_snapshot)"
);

const SWEEP: &str = inbox_where!(
    "{schema}.messages m JOIN {schema}.instances i
       ON i.key = ANY (ARRAY[m.instance_key]) AND (i.owner = $owner) IS TRUE",
    "m.xid >= pg_snapshot_xmin($since::text::pg_snapshot)
     AND NOT pg_visible_in_snapshot(m.xid, $since::text::pg_snapshot)
     AND pg_visible_in_snapshot(m.xid, $until::text::pg_snapshot)
     AND (m.xid, m.instance_key, m.seq) > ($xid::text::xid8, $key::bigint, $seq::bigint)"
);

/// The snapshot that sees nothing.
const NOTHING: &str = "1:1:";

/// A position, taken apart: the start of the server, the snapshot, and the rest of a sweep.
struct Sweep<'p> {
    started: &'p str,
    since: &'p str,
    /// The snapshot at which the sweep ends, and the last message that was read.
    rest: Option<(&'p str, &'p str, i64, i64)>,
}

impl<'p> Sweep<'p> {
    fn of(position: &'p InboxPosition) -> Option<Self> {
        let mut parts = position.0.split(' ');
        let started = parts.next()?;
        let since = parts.next()?;
        let rest = (|| {
            Some((
                parts.next()?,
                parts.next()?,
                parts.next()?.parse().ok()?,
                parts.next()?.parse().ok()?,
            ))
        })();
        Some(Self { started, since, rest })
    }
}

/// Reads a page of the messages for instances that the worker owns.
pub(crate) async fn of_worker(
    connection: &Connection,
    worker: &WorkerId,
    since: &InboxPosition,
    limit: PageLimit,
) -> Result<Inbox, Failure> {
    let mut sweep = Sweep::of(since);
    let mut rows = read_rows(connection, worker, sweep.as_ref(), limit).await?;
    let mut started = started(&rows)?;
    if sweep.take_if(|sweep| sweep.started != started).is_some() {
        rows = read_rows(connection, worker, None, limit).await?;
        started = self::started(&rows)?;
    }
    let (mut messages, mut bytes) = (Vec::new(), 0);
    let mut last = None;
    // If there is no message, there is one row, which tells the snapshot.
    for row in &rows {
        if let Some(seq) = row.try_get::<_, Option<i64>>(0)? {
            let (key, xid): (i64, &str) = (row.try_get(6)?, row.try_get(7)?);
            last = Some(format!("{xid} {key} {seq}"));
            // Messages that are not handed over are counted, too: a page that is full of them is full.
            bytes += usize::try_from(number(row, 8)?).unwrap_or(usize::MAX);
            messages.push((InstanceKey(key), read(row)?));
        }
    }
    let first = rows
        .first()
        .ok_or_else(|| Failure::internal("an inbox without a snapshot"))?;
    let (now, revoked): (&str, Option<&str>) = (first.try_get(10)?, first.try_get(12)?);
    let until = match &sweep {
        Some(Sweep {
            rest: Some((until, ..)),
            ..
        }) => until,
        _ => now,
    };
    let more = limit.is_reached(messages.len(), bytes);
    let position = match last.filter(|_| more) {
        Some(last) => {
            let since = sweep.as_ref().map_or(NOTHING, |sweep| sweep.since);
            format!("{started} {since} {until} {last}")
        }
        None => format!("{started} {until}"),
    };
    Ok(Inbox {
        messages,
        position: InboxPosition(position),
        more,
        revoked: revocation::read(revoked)?,
    })
}

async fn read_rows(
    connection: &Connection,
    worker: &WorkerId,
    sweep: Option<&Sweep<'_>>,
    limit: PageLimit,
) -> Result<Vec<Row>, Failure> {
    let owner = P::Text(&worker.0);
    let [rows, bytes] = [limit.rows, limit.bytes].map(|limit| P::Int(integer(limit as u64)));
    match sweep {
        None => named!(connection.query, ALL, { owner: owner, rows: rows, bytes: bytes }).await,
        Some(Sweep { since, rest: None, .. }) => {
            let since = P::Text(since);
            named!(connection.query, SINCE, { owner: owner, rows: rows, bytes: bytes, since: since }).await
        }
        Some(Sweep {
            since,
            rest: Some((until, xid, key, seq)),
            ..
        }) => {
            named!(
                connection.query,
                SWEEP,
                {
                    owner: owner,
                    rows: rows,
                    bytes: bytes,
                    since: P::Text(since),
                    until: P::Text(until),
                    xid: P::Text(xid),
                    key: P::Int(*key),
                    seq: P::Int(*seq),
                }
            )
            .await
        }
    }
}

/// Returns the time at which the server that answered was started.
fn started(rows: &[Row]) -> Result<String, Failure> {
    let row = rows
        .first()
        .ok_or_else(|| Failure::internal("an inbox without a snapshot"))?;
    Ok(row.try_get(11)?)
}

fn read(row: &Row) -> Result<Result<Message, MessageSeq>, Failure> {
    if row.try_get(9)? {
        return Ok(Err(MessageSeq(number(row, 0)?)));
    }
    match message(row) {
        Err(failure) if failure.is_undecodable() => Ok(Err(MessageSeq(number(row, 0)?))),
        read => Ok(Ok(read?)),
    }
}

/// Reads a page of the messages that wait for an instance: those of these mailboxes or of any, and those that are no
/// mail. The connection reads from one snapshot.
pub(crate) async fn of_instance(
    connection: &Connection,
    key: InstanceKey,
    mailboxes: Option<&[Mailbox]>,
    limit: PageLimit,
) -> Result<MessagePage, Failure> {
    let (key, some) = (P::Int(key.0), P::Int(integer(limit.rows as u64).saturating_add(1)));
    let bytes = P::Int(integer(limit.bytes as u64));
    let mut page = MessagePage::default();
    let messages = &mut page.messages;
    let mut is_all = false;
    match mailboxes {
        None => {
            let rows = named!(connection.query, OF_ANY, { key: key, rows: some, bytes: bytes }).await?;
            add(&rows, messages)?;
            let size = messages.iter().map(|message| message.body.bytes()).sum();
            is_all = messages.len() <= limit.rows && limit.bytes > size;
            if !is_all {
                limit.cut(messages);
            }
        }
        Some(mailboxes) => {
            for mailbox in mailboxes {
                let (kind, name) = stored_mailbox(mailbox);
                let name = encode(name);
                let rows = named!(
                    connection.query,
                    OF_MAILBOX,
                    { key: key, kind: P::Text(kind), name: P::Text(&name), rows: some, bytes: bytes }
                )
                .await?;
                add(&rows, messages)?;
                // The page is the oldest messages of all mailboxes, and no more than that is kept in memory.
                messages.sort_unstable_by_key(|message| message.seq);
                limit.cut(messages);
            }
        }
    }
    if !is_all {
        messages.retain(|message| matches!(message.body, MessageBody::Mail { .. }));
        let others = named!(connection.query, NO_MAIL, { key: key, bytes: bytes }).await?;
        let found: i64 = others.first().map(|row| row.try_get(7)).transpose()?.unwrap_or(0);
        page.more_settled = found > integer(others.len() as u64);
        add(&others, messages)?;
        messages.sort_unstable_by_key(|message| message.seq);
        let row = connection
            .query_one(
                "SELECT unread, (SELECT max(seq) FROM {schema}.messages WHERE instance_key = $1) FROM {schema}.instances
                 WHERE key = $1",
                &[key],
            )
            .await?;
        if number(&row, 0)? > messages.len() as u64 {
            page.more_up_to = row
                .try_get::<_, Option<i64>>(1)?
                .and_then(|last| u64::try_from(last).ok())
                .map(MessageSeq);
        }
    }
    Ok(page)
}

fn add(rows: &[Row], messages: &mut Vec<Message>) -> Result<(), Failure> {
    for row in rows {
        messages.push(message(row)?);
    }
    Ok(())
}
