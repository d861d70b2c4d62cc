//! Instances that a write looks up, and executions that take part in effects on other instances.

use perdure_engine::{EventId, ExecutionId, MessageBody, Settlement};
use perdure_provider::{Epoch, InstanceKey, Status, TurnCommit, WorkerId};
use tokio_postgres::Row;

use crate::error::Failure;
use crate::params::P;
use crate::rows::{number, status, worker};
use crate::session::Session;
use crate::text::encode;

/// An instance, for writes that do not come from its owner. Its row is locked.
pub(super) struct Found {
    pub(super) key: InstanceKey,
    pub(super) status: Status,
    pub(super) owner: Option<WorkerId>,
    pub(super) execution: ExecutionId,
    pub(super) next_event_id: EventId,
    pub(super) epoch: Epoch,
}

pub(super) async fn find(session: &Session<'_>, id: &str) -> Result<Option<Found>, Failure> {
    let id = encode(id);
    let row = session
        .query_optional(
            "SELECT key, status, owner, execution, next_event_id, epoch FROM {schema}.instances
             WHERE id = $1 FOR NO KEY UPDATE",
            &[P::Text(&id)],
        )
        .await?;
    row.map(|row| found(&row)).transpose()
}

pub(super) async fn find_by_key(session: &Session<'_>, key: InstanceKey) -> Result<Option<Found>, Failure> {
    let row = session
        .query_optional(
            "SELECT key, status, owner, execution, next_event_id, epoch FROM {schema}.instances
             WHERE key = $1 FOR NO KEY UPDATE",
            &[P::Int(key.0)],
        )
        .await?;
    row.map(|row| found(&row)).transpose()
}

fn found(row: &Row) -> Result<Found, Failure> {
    Ok(Found {
        key: InstanceKey(row.try_get(0)?),
        status: status(row, 1)?,
        owner: worker(row, 2)?,
        execution: ExecutionId(number(row, 3)?),
        next_event_id: EventId(number(row, 4)?),
        epoch: Epoch(number(row, 5)?),
    })
}

/// The execution that waits for an operation, such as a child, and the event that scheduled the operation.
#[derive(Clone, Copy)]
pub(super) struct Parent {
    pub(super) key: InstanceKey,
    pub(super) execution: ExecutionId,
    pub(super) event: EventId,
}

impl Parent {
    /// Returns the message that tells the execution of a settlement.
    pub(super) fn settled(&self, settlement: Settlement) -> MessageBody {
        MessageBody::Settled {
            execution: self.execution,
            scheduled: self.event,
            settlement,
        }
    }
}

/// The execution that affects others, and the time of its turn.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) key: InstanceKey,
    pub(super) execution: ExecutionId,
    pub(super) time_ms: i64,
}

impl Origin {
    /// Returns the origin of the effects of a turn.
    pub(super) fn of(turn: &TurnCommit, key: InstanceKey) -> Self {
        Self {
            key,
            execution: turn.execution,
            time_ms: turn.time_ms,
        }
    }
}

/// Reads the parent from three columns.
pub(super) fn parent(row: &Row, column: usize) -> Result<Option<Parent>, Failure> {
    let Some(key) = row.try_get(column)? else {
        return Ok(None);
    };
    Ok(Some(Parent {
        key: InstanceKey(key),
        execution: ExecutionId(number(row, column + 1)?),
        event: EventId(number(row, column + 2)?),
    }))
}
