//! Statuses of instances, as clients see them.

use std::borrow::Cow;
use std::collections::HashMap;

use perdure_engine::ExecutionId;
use perdure_provider::{InstanceKey, InstanceStatus, LIST_BYTES_MAX};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number, optional_text, status, text};
use crate::statement::named;
use crate::text::encode;

/// The result of an ended instance is stored in its last event only.
macro_rules! status_of {
    () => {
        "i.key, i.id, i.name, i.version, i.execution, i.status, i.custom_status, i.custom_status_version,
      i.created_at, i.updated_at, i.completed_at, i.parent_id, i.tags, coalesce(h.payload, i.report), i.priority,
      i.state_version"
    };
}

macro_rules! last_event {
    () => {
        " LEFT JOIN {schema}.history h ON i.completed_at IS NOT NULL
      AND h.instance_key = i.key AND h.execution = i.execution AND h.event_id = i.next_event_id - 1"
    };
}

/// Selects a row for each id, in order, until the values of the rows have a number of bytes.
const OF_IDS: &str = concat!(
    "SELECT * FROM (SELECT ",
    status_of!(),
    ", a.place, sum(s.size) OVER (ORDER BY a.place) - s.size AS before
    FROM unnest($ids::text[]) WITH ORDINALITY AS a (id, place) LEFT JOIN {schema}.instances i ON i.id = a.id",
    last_event!(),
    " CROSS JOIN LATERAL (SELECT coalesce(octet_length(i.custom_status), 0)
      + coalesce(octet_length(h.payload), octet_length(i.report), 0) AS size) s) w
  WHERE before <= $bytes::bigint ORDER BY place"
);

/// Returns the statuses of the ids, or of the first of them, all of one moment.
pub(crate) async fn statuses(connection: &Connection, ids: &[String]) -> Result<Vec<Option<InstanceStatus>>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let kept: Vec<Cow<'_, str>> = ids.iter().map(|id| encode(id)).collect();
    let bytes = P::Int(integer(LIST_BYTES_MAX as u64));
    let rows = named!(connection.query, OF_IDS, { ids: P::Texts(&kept), bytes: bytes }).await?;
    let status = |row: &Row| {
        let key: Option<i64> = row.try_get(0)?;
        key.map(|_| instance_status(row)).transpose()
    };
    rows.iter().map(status).collect()
}

/// Returns the id of each key.
pub(crate) async fn ids_of(connection: &Connection, keys: &[InstanceKey]) -> Result<Vec<Option<String>>, Failure> {
    const IDS: &str = "SELECT key, id FROM {schema}.instances WHERE key = ANY ($1)";
    let asked: Vec<i64> = keys.iter().map(|key| key.0).collect();
    let mut found: HashMap<i64, String> = HashMap::new();
    for row in connection.query(IDS, &[P::Ints(&asked)]).await? {
        found.insert(row.try_get(0)?, text(&row, 1)?);
    }
    Ok(asked.iter().map(|key| found.get(key).cloned()).collect())
}

/// Returns the statuses of the instances with these keys, in no order.
pub(crate) async fn of(connection: &Connection, keys: &[i64]) -> Result<Vec<InstanceStatus>, Failure> {
    let rows = connection
        .query(
            concat!(
                "SELECT ",
                status_of!(),
                " FROM {schema}.instances i",
                last_event!(),
                " WHERE i.key = ANY ($1)"
            ),
            &[P::Ints(keys)],
        )
        .await?;
    rows.iter().map(instance_status).collect()
}

fn instance_status(row: &Row) -> Result<InstanceStatus, Failure> {
    Ok(InstanceStatus {
        key: InstanceKey(row.try_get(0)?),
        id: text(row, 1)?,
        name: text(row, 2)?,
        version: text(row, 3)?,
        execution: ExecutionId(number(row, 4)?),
        status: status(row, 5)?,
        custom_status: optional_text(row, 6)?,
        custom_status_version: number(row, 7)?,
        state_version: number(row, 15)?,
        created_at_ms: row.try_get(8)?,
        updated_at_ms: row.try_get(9)?,
        completed_at_ms: row.try_get(10)?,
        parent_id: optional_text(row, 11)?,
        priority: row.try_get(14)?,
        tags: optional_text(row, 12)?,
        result: optional_text(row, 13)?,
    })
}
