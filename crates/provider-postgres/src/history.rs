//! Histories, as their readers get them (P8).

use perdure_engine::{EventId, EventRecord, ExecutionId};
use perdure_provider::{InstanceKey, PageLimit};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{event, integer, unreadable};
use crate::statement::named;

/// Selects as many events as a page takes, by their `rows` and then by their `bytes`. The server knows the length of a
/// value without reading it.
macro_rules! page_of_events {
    ($from:literal) => {
        concat!(
            "SELECT event_id, time, kind, ref_id, name, payload, meta FROM (
      SELECT p.*, sum(size) OVER (ORDER BY event_id) - size AS before FROM (
        SELECT *, coalesce(octet_length(payload), 0) + coalesce(octet_length(meta), 0) AS size FROM {schema}.history
        WHERE ",
            $from,
            " ORDER BY event_id LIMIT $rows) p) q WHERE before < $bytes::bigint"
        )
    };
}
pub(crate) use page_of_events;

const PAGE: &str = concat!(
    page_of_events!("instance_key = $key AND execution = $execution AND event_id >= $from"),
    " ORDER BY event_id"
);

/// Reads a page of the events of an execution from event `from` on. Checks that the ids have no gap (P8).
pub(crate) async fn read(
    connection: &Connection,
    key: InstanceKey,
    execution: ExecutionId,
    from: EventId,
    limit: PageLimit,
) -> Result<Vec<EventRecord>, Failure> {
    let rows = named!(
        connection.query,
        PAGE,
        {
            key: P::Int(key.0),
            execution: P::Int(integer(execution.0)),
            from: P::Int(integer(from.0)),
            rows: P::Int(integer(limit.rows as u64)),
            bytes: P::Int(integer(limit.bytes as u64)),
        }
    )
    .await?;
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        push_event(row, 0, key, from, &mut events)?;
    }
    Ok(events)
}

/// Reads the next event of an instance, from the columns that begin with `first`.
pub(crate) fn push_event(
    row: &Row,
    first: usize,
    key: InstanceKey,
    from: EventId,
    events: &mut Vec<EventRecord>,
) -> Result<(), Failure> {
    let expected = events
        .last()
        .map_or(from.max(EventId::FIRST), |last| last.event_id.next());
    let event = event(row, first)
        .map_err(|failure| unreadable(failure, format_args!("event {expected} of instance {}", key.0)))?;
    if event.event_id != expected {
        return Err(Failure::corrupt(format!(
            "event {expected} of instance {} is missing",
            key.0
        )));
    }
    events.push(event);
    Ok(())
}
