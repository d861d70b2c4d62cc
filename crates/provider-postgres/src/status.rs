//! What clients see of instances.

use std::borrow::Cow;
use std::collections::HashMap;

use perdure_engine::ExecutionId;
use perdure_provider::{InstanceKey, InstanceStatus};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{number, optional_text, status, text};
use crate::text::encode;

/// The result of an ended instance is in its last event, and nowhere else.
macro_rules! status_where {
    ($which:literal) => {
        concat!(
            "SELECT i.key, i.id, i.name, i.version, i.execution, i.status, i.custom_status, i.custom_status_version,
      i.created_at, i.updated_at, i.completed_at, i.parent_id, i.tags, coalesce(h.payload, i.report), i.priority
    FROM {schema}.instances i LEFT JOIN {schema}.history h ON i.completed_at IS NOT NULL
      AND h.instance_key = i.key AND h.execution = i.execution AND h.event_id = i.next_event_id - 1
    WHERE ",
            $which
        )
    };
}

/// Status of each id, all at one moment.
pub(crate) async fn statuses(connection: &Connection, ids: &[String]) -> Result<Vec<Option<InstanceStatus>>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let kept: Vec<Cow<'_, str>> = ids.iter().map(|id| encode(id)).collect();
    let rows = connection
        .query(status_where!("i.id = ANY ($1)"), &[P::Texts(&kept)])
        .await?;
    let mut found = HashMap::with_capacity(rows.len());
    for row in &rows {
        let status = instance_status(row)?;
        found.insert(status.id.clone(), status);
    }
    // An id may be asked for twice.
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

/// Status of the instances with these keys, in no order.
pub(crate) async fn of(connection: &Connection, keys: &[i64]) -> Result<Vec<InstanceStatus>, Failure> {
    let rows = connection
        .query(status_where!("i.key = ANY ($1)"), &[P::Ints(keys)])
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
        created_at_ms: row.try_get(8)?,
        updated_at_ms: row.try_get(9)?,
        completed_at_ms: row.try_get(10)?,
        parent_id: optional_text(row, 11)?,
        priority: row.try_get(14)?,
        tags: optional_text(row, 12)?,
        result: optional_text(row, 13)?,
    })
}
