//! Histories as their readers find them (P8).

use perdure_engine::{EventId, EventRecord, ExecutionId};
use perdure_provider::InstanceKey;
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{event, integer, unreadable};

/// Up to `limit` events of an execution from event `from` on. The ids are checked to be without gap (P8).
pub(crate) async fn read(
    connection: &Connection,
    key: InstanceKey,
    execution: ExecutionId,
    from: EventId,
    limit: usize,
) -> Result<Vec<EventRecord>, Failure> {
    let rows = connection
        .query(
            "SELECT event_id, time, kind, ref_id, name, payload, meta FROM {schema}.history
             WHERE instance_key = $1 AND execution = $2 AND event_id >= $3 ORDER BY event_id LIMIT $4",
            &[
                P::Int(key.0),
                P::Int(integer(execution.0)),
                P::Int(integer(from.0)),
                P::Int(integer(limit as u64)),
            ],
        )
        .await?;
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        push_event(row, 0, key, from, &mut events)?;
    }
    Ok(events)
}

/// Read the next event of an instance, in columns from `first` on.
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
