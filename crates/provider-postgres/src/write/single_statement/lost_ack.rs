//! The outcomes of turns whose answer was lost.
//!
//! Only the owner in its epoch moves an instance on, and each turn moves it from one event id to another. So an
//! instance that has the owner, status, epoch, execution and next event id that a turn leaves behind was moved by that
//! turn. The batch is written again, in a transaction. A turn that is fenced off then, and whose instance is in the
//! state that it leaves behind, was written the first time.

use std::collections::HashMap;
use std::sync::Arc;

use perdure_provider::{AfterTurn, Outcome, Status, TurnCommit, WorkerId};
use tokio_postgres::Row;

use crate::connection::Connections;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, status, worker};
use crate::status;

/// The state in which a turn leaves its instance.
#[derive(Debug, PartialEq, Eq)]
struct StateAfter {
    owner: Option<WorkerId>,
    status: Status,
    epoch: i64,
    execution: i64,
    next_event_id: i64,
}

impl StateAfter {
    fn of(turn: &TurnCommit) -> Self {
        let (owner, status) = match turn.after {
            AfterTurn::End { status } => (None, status),
            _ => (Some(turn.worker.clone()), Status::Running),
        };
        Self {
            owner,
            status,
            epoch: integer(turn.epoch.0),
            execution: integer(turn.execution.0),
            next_event_id: integer(turn.next_event_id.0 + turn.events.len() as u64),
        }
    }

    fn in_row(row: &Row) -> Result<Self, Failure> {
        Ok(Self {
            owner: worker(row, 1)?,
            status: status(row, 2)?,
            epoch: row.try_get(3)?,
            execution: row.try_get(4)?,
            next_event_id: row.try_get(5)?,
        })
    }
}

/// Finds the turns that were fenced off when they were written again because they had been written the first time.
/// Their outcomes become `Committed`.
///
/// An instance that is gone had ended, by the turn or by a termination. Either way, its worker has nothing more to do
/// with it.
pub(crate) async fn find_committed(
    connections: &Arc<Connections>,
    turns: &[(usize, &TurnCommit)],
    outcomes: &mut [Outcome],
) -> Result<(), Failure> {
    let keys: Vec<i64> = turns.iter().map(|(_, turn)| turn.key.0).collect();
    let connection = connections.get().await?;
    let rows = connection
        .query(
            "SELECT key, owner, status, epoch, execution, next_event_id FROM {schema}.instances
             WHERE key = ANY ($1::bigint[])",
            &[P::Ints(&keys)],
        )
        .await?;
    let mut found = HashMap::new();
    for row in &rows {
        found.insert(row.try_get::<_, i64>(0)?, StateAfter::in_row(row)?);
    }
    for ((_, turn), outcome) in turns.iter().zip(outcomes) {
        if *outcome != Outcome::Fenced || found.get(&turn.key.0) != Some(&StateAfter::of(turn)) {
            continue;
        }
        let status = if turn.tell_status {
            status::of(&connection, &[turn.key.0]).await?.pop()
        } else {
            None
        };
        *outcome = Outcome::Committed {
            status: status.map(Box::new),
            wake_at_ms: None,
            others: None,
        };
    }
    Ok(())
}
