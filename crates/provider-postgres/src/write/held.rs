//! The turns of every step: their workers keep the instances, and nothing but events was appended. Such a batch is one statement and no
//! transaction besides: one way to the server and back.
//!
//! When its answer is lost, the rows tell what became of it. Nobody but the owner in its epoch moves an instance on, and each turn moves
//! it from one event id to another: an instance that has the owner, epoch, execution and next event id which a turn leaves behind was
//! moved by that turn. So the batch is written again, in a transaction, and a turn that is fenced off then and has left these behind
//! passed the first time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use perdure_provider::{AfterTurn, Outcome, TurnCommit, Write};

use super::turn::{self, Turns};
use crate::connection::{Ask, Connection, Connections};
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, worker};

/// The turns of a batch, if it has no other writes than such turns, one for each instance.
pub(crate) fn of<'w>(writes: &[&'w Write]) -> Option<Vec<(usize, &'w TurnCommit)>> {
    let mut keys = HashSet::with_capacity(writes.len());
    let mut turns = Vec::with_capacity(writes.len());
    for (place, write) in writes.iter().enumerate() {
        let Write::Turn(turn) = write else { return None };
        let is_plain = turn.after == AfterTurn::Hold
            && !turn.events.is_empty()
            && turn.consumed.is_empty()
            && turn.heartbeats_over.is_empty()
            && turn.to_others.is_none()
            && !turn.tell_status;
        if !is_plain || !keys.insert(turn.key) {
            return None;
        }
        turns.push((place, &**turn));
    }
    Some(turns)
}

/// Write them. A failure of the connection leaves open whether they are written.
pub(crate) async fn write(connection: &Connection, turns: &[(usize, &TurnCommit)]) -> Result<Vec<Outcome>, Failure> {
    let columns = Turns::of(turns)?;
    // Where it is due is asked of no clock: nothing is released.
    let Some(Ask { written, params }) = columns.ask(P::MaybeInt(None)) else {
        return Ok(Vec::new());
    };
    let rows = connection.query(written, &params).await?;
    if !rows.is_empty() {
        connection.from.count_transaction();
    }
    let mut outcomes: Vec<Option<Outcome>> = turns.iter().map(|_| None).collect();
    turn::outcomes(turns, &rows, &mut outcomes, &mut Vec::new())?;
    let all: Option<Vec<Outcome>> = outcomes.into_iter().collect();
    all.ok_or_else(|| Failure::internal("a turn without an outcome"))
}

/// Say of turns that were fenced off when they were written again which of them had passed the first time.
pub(crate) async fn find_passed(
    connections: &Arc<Connections>,
    turns: &[(usize, &TurnCommit)],
    outcomes: &mut [Outcome],
) -> Result<(), Failure> {
    let keys: Vec<i64> = turns.iter().map(|(_, turn)| turn.key.0).collect();
    let connection = connections.get().await?;
    let rows = connection
        .query(
            "SELECT key, owner, epoch, execution, next_event_id FROM {schema}.instances WHERE key = ANY ($1::bigint[])",
            &[P::Ints(&keys)],
        )
        .await?;
    let mut found = HashMap::new();
    for row in &rows {
        let left: (i64, i64, i64) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        found.insert(row.try_get::<_, i64>(0)?, (worker(row, 1)?, left));
    }
    for ((_, turn), outcome) in turns.iter().zip(outcomes) {
        let next = integer(turn.next_event_id.0 + turn.events.len() as u64);
        let leaves = (
            Some(turn.worker.clone()),
            (integer(turn.epoch.0), integer(turn.execution.0), next),
        );
        if *outcome == Outcome::Fenced && found.get(&turn.key.0) == Some(&leaves) {
            *outcome = Outcome::Committed {
                status: None,
                wake_at_ms: None,
                others: None,
            };
        }
    }
    Ok(())
}
