//! Slots for new instances: an instance that a worker claims gets one in the commit of its start, if nothing waits
//! (P24).

use perdure_provider::{Pass, WorkerId};
use rusqlite::params;

use super::{is_delayed_due, put_queue, slots, state, sweep};
use crate::error::Failure;
use crate::session::Session;

/// Gives a slot to a new instance without a key that a worker claims, if nothing in the queue waits. Returns its turn.
/// `None`: the instance gets no slot now.
pub(crate) fn admit_new(session: &mut Session<'_>, queue: &str, worker: &WorkerId) -> Result<Option<i64>, Failure> {
    let mut pass = match session.take_pass(queue) {
        Some((owner, pass)) if owner == *worker => pass,
        // The slots of this worker were not counted.
        Some(other) => {
            session.keep_pass(queue, other);
            return Ok(None);
        }
        None => {
            let Some(state) = state(session, queue)? else {
                return Ok(None);
            };
            sweep(session, queue)?;
            Pass::new(
                state.clone(),
                slots(session, queue, worker, &state.settings)?,
                usize::MAX,
                session.now_ms(),
            )
        }
    };
    let before = pass.queue().clone();
    let turn = match pass.left() {
        0 => None,
        _ if waits(session, queue)? => None,
        _ => pass.admit_new(),
    };
    put_queue(session, queue, &before, pass.queue())?;
    session.keep_pass(queue, (worker.clone(), pass));
    Ok(turn)
}

/// Returns true if entries are in line or held, or if the time of delayed ones has come.
fn waits(session: &Session<'_>, queue: &str) -> Result<bool, Failure> {
    let waits = session.query_one(
        "SELECT EXISTS (SELECT 1 FROM queue_places INDEXED BY queue_places_line WHERE queue = ?1 AND place = 0)
         OR EXISTS (SELECT 1 FROM queue_places INDEXED BY queue_places_held WHERE queue = ?1 AND place = 1)",
        params![queue],
        |row| row.get(0),
    )?;
    Ok(waits || is_delayed_due(session.connection(), queue, session.now_ms())?)
}
