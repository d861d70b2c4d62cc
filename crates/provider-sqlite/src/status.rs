//! The statuses of instances that clients see.

use perdure_engine::ExecutionId;
use perdure_provider::{InstanceKey, InstanceStatus, LIST_BYTES_MAX};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Failure;
use crate::rows::{number, status};

/// The query for statuses. The result of an ended instance is in its last event, and nowhere else.
macro_rules! status_where {
    ($which:literal) => {
        concat!(
            "SELECT i.key, i.id, i.name, i.version, i.execution, i.status, i.custom_status, i.custom_status_version,
      i.created_at, i.updated_at, i.completed_at, i.parent_id, i.tags, coalesce(h.payload, i.report), i.priority,
      i.state_version
    FROM instances i LEFT JOIN history h ON i.completed_at IS NOT NULL
      AND h.instance_key = i.key AND h.execution = i.execution AND h.event_id = i.next_event_id - 1
    WHERE ",
            $which
        )
    };
}

/// Returns the status of each id, or of the first of them, all at one moment.
pub(crate) fn statuses(connection: &Connection, ids: &[String]) -> Result<Vec<Option<InstanceStatus>>, Failure> {
    let moment = (ids.len() > 1 && connection.is_autocommit())
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let mut statement = connection.prepare_cached(status_where!("i.id = ?1"))?;
    let (mut statuses, mut bytes) = (Vec::new(), 0);
    for id in ids {
        if bytes > LIST_BYTES_MAX {
            break;
        }
        let status = statement.query_row(params![id], instance_status).optional()?;
        bytes += status.as_ref().map_or(0, InstanceStatus::payload_bytes);
        statuses.push(status);
    }
    drop(statement);
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(statuses)
}

/// Returns the id of each key.
pub(crate) fn ids_of(connection: &Connection, keys: &[InstanceKey]) -> Result<Vec<Option<String>>, Failure> {
    let mut statement = connection.prepare_cached("SELECT id FROM instances WHERE key = ?1")?;
    let mut id = |key: &InstanceKey| statement.query_row(params![key.0], |row| row.get(0)).optional();
    Ok(keys.iter().map(&mut id).collect::<rusqlite::Result<_>>()?)
}

/// Returns the status of the instance with a key.
pub(crate) fn of(connection: &Connection, key: InstanceKey) -> Result<InstanceStatus, Failure> {
    let mut statement = connection.prepare_cached(status_where!("i.key = ?1"))?;
    Ok(statement.query_row(params![key.0], instance_status)?)
}

fn instance_status(row: &Row<'_>) -> rusqlite::Result<InstanceStatus> {
    Ok(InstanceStatus {
        key: InstanceKey(row.get(0)?),
        id: row.get(1)?,
        name: row.get(2)?,
        version: row.get(3)?,
        execution: ExecutionId(number(row, 4)?),
        status: status(row, 5)?,
        custom_status: row.get(6)?,
        custom_status_version: number(row, 7)?,
        created_at_ms: row.get(8)?,
        updated_at_ms: row.get(9)?,
        completed_at_ms: row.get(10)?,
        parent_id: row.get(11)?,
        priority: row.get(14)?,
        state_version: number(row, 15)?,
        tags: row.get(12)?,
        result: row.get(13)?,
    })
}
