//! The instances that are due, with their messages, for a worker that has kept their generators. Nothing is acquired.

use perdure_engine::EventId;
use perdure_provider::{Due, DueInstance, DueRequest, Epoch, InstanceKey};
use tokio_postgres::Row;

use crate::acquire::parts::{Registered, classes, left_to_another, left_until, work_of_queues};
use crate::connection::Connection;
use crate::error::Failure;
use crate::load::read_messages;
use crate::params::P;
use crate::rows::{integer, number};
use crate::statement::query;

/// Selects the due instances that a worker would take, and their messages. An instance whose messages exceed the limit
/// has some of them.
const DUE: &str = concat!(
    "WITH ",
    classes!(),
    ", due AS MATERIALIZED (
  SELECT d.* FROM class c CROSS JOIN LATERAL (
    SELECT i.key, i.epoch, i.next_event_id, i.unread, i.priority, i.wake_at FROM {schema}.instances i
    WHERE i.wake_at IS NOT NULL AND i.name = c.name AND i.version = c.version AND i.priority = c.priority
      AND i.wake_at <= coalesce($now, {now}) AND NOT ",
    left_to_another!(),
    "
    ORDER BY i.wake_at, i.key LIMIT $limit) d
  ORDER BY c.priority DESC, d.wake_at, d.key LIMIT $limit
)
SELECT m.seq, m.kind, m.name, m.payload, m.execution, m.ref_id, d.key, d.epoch, d.next_event_id, d.unread
FROM due d LEFT JOIN LATERAL (
  SELECT q.* FROM (
    SELECT p.*, sum(size) OVER (ORDER BY seq) - size AS before FROM (
      SELECT *, coalesce(octet_length(payload), 0) AS size FROM {schema}.messages
      WHERE instance_key = d.key ORDER BY seq LIMIT $rows) p) q
  WHERE before < $bytes::bigint) m ON d.unread > 0
ORDER BY d.priority DESC, d.wake_at, d.key, m.seq"
);

/// Selects the time at which the next instance is due that is not due yet, the time until which one is left to another
/// worker, and what [`work_of_queues`] tells.
const LATER: &str = concat!(
    "WITH ",
    classes!(),
    ", of_queues AS MATERIALIZED (
  SELECT * FROM r WHERE EXISTS (SELECT FROM {schema}.queues)
)
SELECT coalesce($now, {now}), min((
    SELECT i.wake_at FROM {schema}.instances i
    WHERE i.wake_at IS NOT NULL AND i.name = c.name AND i.version = c.version AND i.priority = c.priority
      AND i.wake_at > coalesce($now, {now})
    ORDER BY i.wake_at LIMIT 1)),
  min(",
    left_until!(),
    "),
  ",
    work_of_queues!(""),
    "
FROM class c WHERE c.priority IS NOT NULL"
);

/// Returns the instances that are due, with their messages.
pub(crate) async fn due(connection: &Connection, request: &DueRequest) -> Result<Due, Failure> {
    let registered = Registered::of(&request.registered);
    let now = P::MaybeInt(connection.from.clock_ms());
    let (owner, left) = (P::Text(&request.worker.0), P::Int(integer(request.left_ms)));
    let limit = |limit: usize| P::Int(integer(limit as u64));
    let due = query!(
        DUE,
        {
            now: now,
            owner: owner,
            left: left,
            limit: limit(request.rows.saturating_add(1)),
            rows: limit(request.messages.rows),
            bytes: limit(request.messages.bytes),
            names: P::Texts(&registered.names),
            versions: P::Texts(&registered.versions),
        }
    );
    let later = query!(
        LATER,
        {
            now: now,
            owner: owner,
            left: left,
            names: P::Texts(&registered.names),
            versions: P::Texts(&registered.versions),
        }
    );
    connection.prepare(&[&due, &later]).await?;
    let (rows, later) = tokio::try_join!(biased; connection.run(Some(&due)), connection.run(Some(&later)))?;
    let later = later
        .first()
        .ok_or_else(|| Failure::internal("a statement gave no row"))?;
    let mut instances = Vec::new();
    for rows in rows.chunk_by(|one, next| one.get::<_, i64>(6) == next.get::<_, i64>(6)) {
        instances.push(due_instance(rows)?);
    }
    let has_more = instances.len() > request.rows;
    instances.truncate(request.rows);
    let next: [Option<i64>; 3] = [later.try_get(1)?, later.try_get(2)?, later.try_get(3)?];
    Ok(Due {
        instances,
        has_others: has_more || later.try_get(4)?,
        next_wake_at_ms: next.into_iter().flatten().min(),
        now_ms: later.try_get(0)?,
    })
}

/// Returns an instance from its rows, one for each of its messages, or one without a message.
fn due_instance(rows: &[Row]) -> Result<DueInstance, Failure> {
    let first = &rows[0];
    let has_message = first.try_get::<_, Option<i64>>(0)?.is_some();
    let is_whole = number(first, 9)? == if has_message { rows.len() as u64 } else { 0 };
    let messages = if !is_whole {
        None
    } else if has_message {
        match read_messages(&rows.iter().collect::<Vec<_>>()) {
            // The load that reads this row reports it.
            Err(failure) if failure.is_undecodable() => None,
            messages => Some(messages?),
        }
    } else {
        Some(Vec::new())
    };
    Ok(DueInstance {
        key: InstanceKey(first.try_get(6)?),
        epoch: Epoch(number(first, 7)?),
        next_event_id: EventId(number(first, 8)?),
        messages,
    })
}
