//! The executions of an instance, the newest first. Each is found by the primary key of the history, and no history is
//! read as a whole.

use perdure_engine::ExecutionId;
use perdure_provider::{ExecutionSummary, ExecutionsRequest};

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{event, integer, number, unreadable};
use crate::statement::named;

/// Selects the last event of the newest execution that a condition allows.
macro_rules! newest {
    ($which:literal) => {
        concat!(
            "SELECT execution, event_id AS last FROM {schema}.history WHERE instance_key = $key AND execution ",
            $which,
            " ORDER BY execution DESC, event_id DESC LIMIT 1"
        )
    };
}

/// Looks up each event by itself (`OFFSET 0`), however long its execution is. Selects the events of as many executions
/// as a page takes, by their `rows` and then by their `bytes`.
const PAGE: &str = concat!(
    "WITH RECURSIVE executions AS (
  SELECT n.*, 1::bigint AS place FROM (",
    newest!("<= $from"),
    ") n
  UNION ALL
  SELECT n.*, e.place + 1 FROM executions e CROSS JOIN LATERAL (",
    newest!("< e.execution"),
    ") n WHERE e.place < $rows
), ends AS (
  SELECT h.*, sum(h.size) OVER (ORDER BY e.place) - sum(h.size) OVER (PARTITION BY e.place) AS before
  FROM executions e
  CROSS JOIN LATERAL (VALUES (1), (CASE WHEN e.last > 2 THEN 2 END), (CASE WHEN e.last > 1 THEN e.last END)) w (id)
  CROSS JOIN LATERAL (
    SELECT *, coalesce(octet_length(payload), 0) + coalesce(octet_length(meta), 0) AS size FROM {schema}.history
    WHERE instance_key = $key AND execution = e.execution AND event_id = w.id
      AND (event_id <> 2 OR event_id = e.last OR kind = 'ExecutionBegan') OFFSET 0) h
)
SELECT event_id, time, kind, ref_id, name, payload, meta, execution FROM ends WHERE before < $bytes::bigint
ORDER BY execution DESC, event_id"
);

pub(crate) async fn read(
    connection: &Connection,
    request: ExecutionsRequest,
) -> Result<Vec<ExecutionSummary>, Failure> {
    let ExecutionsRequest { key, from, limit } = request;
    let rows = named!(
        connection.query,
        PAGE,
        {
            key: P::Int(key.0),
            from: P::Int(integer(from.0)),
            rows: P::Int(integer(limit.rows as u64)),
            bytes: P::Int(integer(limit.bytes as u64)),
        }
    )
    .await?;
    let mut page: Vec<(ExecutionId, Vec<_>)> = Vec::new();
    for row in &rows {
        let execution = ExecutionId(number(row, 7)?);
        let event =
            event(row, 0).map_err(|failure| unreadable(failure, format_args!("an event of instance {}", key.0)))?;
        match page.last_mut() {
            Some((last, events)) if *last == execution => events.push(event),
            _ => page.push((execution, vec![event])),
        }
    }
    Ok(page
        .into_iter()
        .map(|(execution, events)| ExecutionSummary::new(execution, events))
        .collect())
}
