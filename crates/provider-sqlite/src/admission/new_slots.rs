//! Slots for new instances: an instance that a worker claims gets one in the commit of its start, if nothing waits
//! (P24).

use perdure_provider::{Pass, QueueState, WorkerId};
use rusqlite::params;

use super::{is_delayed_due, put_queue, slots, state, sweep};
use crate::error::Failure;
use crate::session::Session;

/// A slot for a new instance, which is not taken yet.
pub(crate) struct NewSlot<'q> {
    queue: &'q str,
    worker: &'q WorkerId,
    before: QueueState,
    pass: Pass,
    turn: i64,
}

impl<'q> NewSlot<'q> {
    /// Finds a slot for a new instance without a key that a worker claims, if nothing in the queue waits. `None`: the
    /// instance gets no slot now.
    pub(crate) fn find(
        session: &mut Session<'_>,
        queue: &'q str,
        worker: &'q WorkerId,
    ) -> Result<Option<Self>, Failure> {
        // The slots of the worker are counted once in a transaction.
        let mut pass = match session.take_pass(queue) {
            Some((owner, pass)) if owner == *worker => pass,
            _ => {
                let Some(state) = state(session, queue)? else {
                    return Ok(None);
                };
                sweep(session, queue)?;
                let slots = slots(session, queue, worker, &state.settings)?;
                Pass::new(state, slots, usize::MAX, session.now_ms())
            }
        };
        let before = pass.queue().clone();
        if pass.left() == 0 || waits(session, queue)? {
            session.keep_pass(queue, (worker.clone(), pass));
            return Ok(None);
        }
        Ok(pass.admit_new().map(|turn| Self {
            queue,
            worker,
            before,
            pass,
            turn,
        }))
    }

    /// Takes the slot for an instance that was inserted. Returns the turn of its key.
    pub(crate) fn take(self, session: &mut Session<'_>) -> Result<i64, Failure> {
        put_queue(session, self.queue, &self.before, self.pass.queue())?;
        session.keep_pass(self.queue, (self.worker.clone(), self.pass));
        Ok(self.turn)
    }
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
