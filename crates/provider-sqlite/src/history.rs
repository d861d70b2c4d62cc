//! Histories, as their readers get them (P8).

use perdure_engine::{EventId, EventRecord, ExecutionId};
use perdure_provider::{ExecutionSummary, ExecutionsRequest, InstanceKey, PageLimit};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;
use crate::rows::{event, integer, number, unreadable};

/// Returns a page of the events from event `from` on. The ids are checked to be without gap (P8).
pub(crate) fn read(
    connection: &Connection,
    key: InstanceKey,
    execution: ExecutionId,
    from: EventId,
    limit: PageLimit,
) -> Result<Vec<EventRecord>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT event_id, time, kind, ref_id, name, payload, meta FROM history
         WHERE instance_key = ?1 AND execution = ?2 AND event_id >= ?3 ORDER BY event_id LIMIT ?4",
    )?;
    let mut rows = statement.query(params![
        key.0,
        integer(execution.0),
        integer(from.0),
        integer(limit.rows as u64)
    ])?;
    let mut events: Vec<EventRecord> = Vec::new();
    let mut bytes = 0;
    let mut expected = from.max(EventId::FIRST);
    while !limit.is_reached(events.len(), bytes)
        && let Some(row) = rows.next()?
    {
        let event =
            event(row).map_err(|error| unreadable(error, format_args!("event {expected} of instance {}", key.0)))?;
        if event.event_id != expected {
            return Err(Failure::corrupt(format!(
                "event {expected} of instance {} is missing",
                key.0
            )));
        }
        expected = expected.next();
        bytes += event.bytes();
        events.push(event);
    }
    Ok(events)
}

/// Finds the newest execution up to one, and its last event.
const NEWEST: &str = "SELECT execution, event_id FROM history WHERE instance_key = ?1 AND execution <= ?2
    ORDER BY execution DESC, event_id DESC LIMIT 1";

/// Reads the events of an [`ExecutionSummary`].
const ENDS: &str = "SELECT event_id, time, kind, ref_id, name, payload, meta FROM history
    WHERE instance_key = ?1 AND execution = ?2 AND event_id IN (1, 2, ?3)
      AND (event_id <> 2 OR event_id = ?3 OR kind = 'ExecutionBegan') ORDER BY event_id";

/// Returns a page of the executions of an instance, the newest first.
pub(crate) fn executions(
    connection: &Connection,
    request: ExecutionsRequest,
) -> Result<Vec<ExecutionSummary>, Failure> {
    let ExecutionsRequest { key, from, limit } = request;
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let mut newest = connection.prepare_cached(NEWEST)?;
    let mut ends = connection.prepare_cached(ENDS)?;
    let mut page = Vec::new();
    let (mut up_to, mut bytes) = (integer(from.0), 0);
    while !limit.is_reached(page.len(), bytes)
        && let Some((execution, last)) = newest
            .query_row(params![key.0, up_to], |row| Ok((number(row, 0)?, number(row, 1)?)))
            .optional()?
    {
        let mut rows = ends.query(params![key.0, integer(execution), integer(last)])?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            events.push(event(row).map_err(|error| unreadable(error, format_args!("an event of instance {}", key.0)))?);
        }
        let summary = ExecutionSummary::new(ExecutionId(execution), events);
        bytes += summary.bytes();
        page.push(summary);
        up_to = integer(execution).saturating_sub(1);
    }
    drop((newest, ends));
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(page)
}
