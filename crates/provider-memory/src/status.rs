//! The statuses of instances that clients see.

use perdure_engine::{EventId, Payload};
use perdure_provider::{InstanceKey, InstanceStatus, LIST_BYTES_MAX};

use crate::rows::InstanceRow;
use crate::tables::Tables;

/// Returns the status of each id, or of the first of them.
pub(crate) fn statuses(tables: &Tables, ids: &[String]) -> Vec<Option<InstanceStatus>> {
    let (mut statuses, mut bytes) = (Vec::new(), 0);
    for id in ids {
        if bytes > LIST_BYTES_MAX {
            break;
        }
        let status = tables.find(id).map(|row| of(tables, row));
        bytes += status.as_ref().map_or(0, InstanceStatus::payload_bytes);
        statuses.push(status);
    }
    statuses
}

/// Returns the id of each key.
pub(crate) fn ids_of(tables: &Tables, keys: &[InstanceKey]) -> Vec<Option<String>> {
    let id = |key: &InstanceKey| tables.instance(*key).map(|row| row.id.clone());
    keys.iter().map(id).collect()
}

/// Returns the status of an instance.
pub(crate) fn of(tables: &Tables, row: &InstanceRow) -> InstanceStatus {
    InstanceStatus {
        key: row.key,
        id: row.id.clone(),
        name: row.name.clone(),
        version: row.version.clone(),
        execution: row.execution,
        status: row.status,
        result: result(tables, row),
        custom_status: row.custom_status.clone(),
        custom_status_version: row.custom_status_version,
        state_version: row.state_version,
        created_at_ms: row.created_at_ms,
        updated_at_ms: row.updated_at_ms,
        completed_at_ms: row.completed_at_ms,
        parent_id: row.parent_id.clone(),
        priority: row.priority,
        tags: row.tags.clone(),
    }
}

/// Returns the result. The result of an ended instance is in its last event, and nowhere else.
fn result(tables: &Tables, row: &InstanceRow) -> Payload {
    if row.completed_at_ms.is_none() {
        return row.report.clone();
    }
    let last = EventId(row.next_event_id.0 - 1);
    let event = tables.history.get(&(row.key, row.execution, last));
    event.and_then(|event| event.payload.clone())
}
