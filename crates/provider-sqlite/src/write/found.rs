//! Instances that a write looks up.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{Epoch, InstanceKey, Status, WorkerId};
use rusqlite::{Row, params};

use crate::error::Failure;
use crate::rows::{integer, number, status};
use crate::session::Session;

/// An instance as the writes that do not come from its owner need it.
pub(super) struct Found {
    pub(super) key: InstanceKey,
    pub(super) status: Status,
    pub(super) owner: Option<WorkerId>,
    pub(super) epoch: Epoch,
    pub(super) execution: ExecutionId,
    pub(super) next_event_id: EventId,
    pub(super) unread: u64,
    /// The time at which it is due, if it has no owner.
    pub(super) wake_at_ms: Option<i64>,
}

impl Found {
    /// Returns true if none of the code of an instance can run now, which has not ended: it is suspended, or no worker
    /// has acquired it yet and it is not due (P25).
    pub(super) fn cannot_run(&self, now_ms: i64) -> bool {
        let is_due = self.wake_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        let is_new = self.epoch == Epoch(0) && self.owner.is_none();
        self.status == Status::Suspended || is_new && !is_due
    }
}

/// The execution that waits for an operation, such as a child.
pub(super) struct Parent {
    pub(super) key: InstanceKey,
    pub(super) execution: ExecutionId,
    pub(super) event: EventId,
}

macro_rules! found_where {
    ($which:literal) => {
        concat!(
            "SELECT key, status, owner, execution, next_event_id, unread, epoch, wake_at FROM instances WHERE ",
            $which
        )
    };
}

pub(super) fn find(session: &Session<'_>, id: &str) -> Result<Option<Found>, Failure> {
    session.query_optional(found_where!("id = ?1"), params![id], found)
}

pub(super) fn find_by_key(session: &Session<'_>, key: InstanceKey) -> Result<Option<Found>, Failure> {
    session.query_optional(found_where!("key = ?1"), params![key.0], found)
}

/// Returns the children of an instance that have not ended: all of them, or that of one event of an execution.
pub(super) fn find_children(
    session: &Session<'_>,
    parent: InstanceKey,
    of: Option<(ExecutionId, EventId)>,
) -> Result<Vec<Found>, Failure> {
    let mut children = match of {
        None => session.query_all(found_where!("parent_key = ?1"), params![parent.0], found),
        Some((execution, event)) => session.query_all(
            found_where!("parent_key = ?1 AND parent_execution = ?2 AND parent_event = ?3"),
            params![parent.0, integer(execution.0), integer(event.0)],
            found,
        ),
    }?;
    children.retain(|child| !child.status.is_terminal());
    Ok(children)
}

fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    Ok(Found {
        key: InstanceKey(row.get(0)?),
        status: status(row, 1)?,
        owner: row.get::<_, Option<String>>(2)?.map(|owner| WorkerId(owner.into())),
        execution: ExecutionId(number(row, 3)?),
        next_event_id: EventId(number(row, 4)?),
        unread: number(row, 5)?,
        epoch: Epoch(number(row, 6)?),
        wake_at_ms: row.get(7)?,
    })
}

/// Returns the parent of an instance, if one may wait for it.
pub(super) fn parent_of(session: &Session<'_>, key: InstanceKey) -> Result<Option<Parent>, Failure> {
    session.query_one(
        "SELECT parent_key, parent_execution, parent_event FROM instances WHERE key = ?1",
        params![key.0],
        parent,
    )
}

/// Reads the parent in a row of its three columns.
pub(super) fn parent(row: &Row<'_>) -> rusqlite::Result<Option<Parent>> {
    let Some(key) = row.get(0)? else { return Ok(None) };
    Ok(Some(Parent {
        key: InstanceKey(key),
        execution: ExecutionId(number(row, 1)?),
        event: EventId(number(row, 2)?),
    }))
}
