//! Ordinary turns: their workers keep the instances, and only events are appended.

use std::collections::HashSet;

use perdure_provider::{Outcome, TurnCommit, Write};

use super::plain_turn::only_holds;
use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::query::Query;
use crate::write::turn::{self, Turns};

/// Returns the turns of a batch if it holds nothing but such turns, one for each instance.
pub(super) fn of<'w>(writes: &[&'w Write]) -> Option<Vec<(usize, &'w TurnCommit)>> {
    let mut keys = HashSet::with_capacity(writes.len());
    let mut turns = Vec::with_capacity(writes.len());
    for (place, write) in writes.iter().enumerate() {
        let Write::Turn(turn) = write else { return None };
        if !only_holds(turn) || turn.tell_status || !keys.insert(turn.key) {
            return None;
        }
        turns.push((place, &**turn));
    }
    Some(turns)
}

pub(super) async fn write(connection: &Connection, turns: &[(usize, &TurnCommit)]) -> Result<Vec<Outcome>, Failure> {
    let columns = Turns::of(turns)?;
    // No clock is needed: no instance is released, so none becomes due.
    let Some(Query { sql, params }) = columns.query(P::MaybeInt(None)) else {
        return Ok(Vec::new());
    };
    let rows = connection.query(sql, &params).await?;
    if !rows.is_empty() {
        connection.from.count_transaction();
    }
    let mut outcomes: Vec<Option<Outcome>> = turns.iter().map(|_| None).collect();
    turn::outcomes(turns, &rows, &mut outcomes, &mut Vec::new())?;
    let all: Option<Vec<Outcome>> = outcomes.into_iter().collect();
    all.ok_or_else(|| Failure::internal("a turn without an outcome"))
}
