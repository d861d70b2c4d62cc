//! The rows of a new instance: its state and its first event.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{Epoch, InstanceKey, NewInstance, OnConflict, Outcome, WorkerId};
use rusqlite::params;

use super::found::{Found, Parent, find};
use super::terminate;
use crate::admission::NewSlot;
use crate::deletion;
use crate::error::Failure;
use crate::queues::{self, NewPlace};
use crate::registration;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

/// An instance that was inserted.
pub(super) struct Inserted {
    pub(super) key: InstanceKey,
    /// Epoch of the instance, if it was claimed.
    pub(super) claimed: Option<Epoch>,
    /// Outcome of the termination of the instance that had the id.
    terminated: Option<Outcome>,
}

impl Inserted {
    /// Returns the outcome of the start, with that of the first turn.
    pub(super) fn outcome(self, turn: Option<Outcome>) -> Outcome {
        Outcome::Started {
            key: self.key,
            claimed: self.claimed,
            turn: turn.map(Box::new),
            terminated: self.terminated.map(Box::new),
        }
    }
}

/// Inserts an instance without its first turn. Returns the outcome of the start if it is refused. `by` is the
/// instance whose turn asks for it.
pub(super) fn insert(
    session: &mut Session<'_>,
    instance: &NewInstance,
    parent: Option<&Parent>,
    by: Option<InstanceKey>,
) -> Result<Result<Inserted, Outcome>, Failure> {
    let first = &instance.first_event;
    instance.check().map_err(Failure::internal)?;
    let due_at_ms = instance.due.at_ms(session.now_ms());
    if let Some(entry) = &instance.queue
        && !queues::exists(session, &entry.queue)?
    {
        return Ok(Err(Outcome::NoQueue));
    }
    let queue = instance.queue.as_ref();
    let (claim, slot) = claim_of(session, instance)?;
    // A claimed instance is in its first epoch (P3). An instance that is left to the first worker that acquires it is
    // in epoch 0. An instance of a queue is not due (P24).
    let (epoch, wake_at) = if claim.is_some() {
        (Epoch(1), None)
    } else {
        (Epoch(0), queue.is_none().then_some(due_at_ms))
    };
    let insert = |session: &Session<'_>| {
        named!(
            session.execute,
            "INSERT INTO instances ({columns}, status, turns, custom_status_version, updated_at)
             VALUES ({values}, 'Pending', 0, 0, $created_at) ON CONFLICT (id) DO NOTHING",
            {
                id: instance.id,
                name: instance.name,
                version: instance.version,
                execution: integer(ExecutionId::FIRST.0),
                owner: claim.map(|worker| &*worker.0),
                epoch: integer(epoch.0),
                next_event_id: integer(EventId::FIRST.next().0),
                wake_at: wake_at,
                priority: instance.priority,
                parent_id: instance.parent_id,
                tags: instance.tags,
                created_at: first.time_ms,
                parent_key: parent.map(|parent| parent.key.0),
                parent_execution: parent.map(|parent| integer(parent.execution.0)),
                parent_event: parent.map(|parent| integer(parent.event.0)),
            }
        )
    };
    let mut terminated = None;
    if insert(session)? == 0 {
        match make_room(session, instance, by)? {
            Some(ended) => terminated = ended,
            None => return Ok(Err(Outcome::Exists)),
        }
        let inserted = insert(session)?;
        assert_eq!(inserted, 1, "the id was made free in this transaction");
    }
    let key = InstanceKey(session.connection().last_insert_rowid());
    session.append_event(key, integer(ExecutionId::FIRST.0), first)?;
    if let Some(entry) = queue {
        let turn = slot.map(|slot| slot.take(session)).transpose()?;
        NewPlace::of_instance(key, instance, entry, due_at_ms).enter(session, turn)?;
    }
    Ok(Ok(Inserted {
        key,
        claimed: claim.map(|_| epoch),
        terminated,
    }))
}

/// Returns the worker whose claim of an instance holds, and the slot that the instance gets with it.
fn claim_of<'i>(
    session: &mut Session<'_>,
    instance: &'i NewInstance,
) -> Result<(Option<&'i WorkerId>, Option<NewSlot<'i>>), Failure> {
    // A worker that is no longer registered must not own anything: no other worker would ever take its instances over.
    let worker = match &instance.claim {
        Some(worker) if registration::is_registered(session, worker)? => worker,
        _ => return Ok((None, None)),
    };
    let Some(entry) = &instance.queue else {
        return Ok((Some(worker), None));
    };
    // The claim of an instance of a queue holds only with a slot.
    let slot = NewSlot::find(session, &entry.queue, worker)?;
    Ok((slot.is_some().then_some(worker), slot))
}

/// Removes the instance that has the id, if the start may replace it. Returns the outcome of its termination, if it had
/// not ended. `None`: the id stays in use.
fn make_room(
    session: &mut Session<'_>,
    instance: &NewInstance,
    by: Option<InstanceKey>,
) -> Result<Option<Option<Outcome>>, Failure> {
    let Some(Found { key, status, .. }) = find(session, &instance.id)? else {
        return Ok(None);
    };
    let terminated = if instance.on_conflict.replaces(status) {
        None
    } else if instance.on_conflict == OnConflict::TerminateAndRestart && by != Some(key) {
        Some(terminate::terminate(session, &instance.termination())?)
    } else {
        return Ok(None);
    };
    // The instance has no messages: they were deleted with the write that ended it (P6).
    session.execute("DELETE FROM history WHERE instance_key = ?1", params![key.0])?;
    session.execute("DELETE FROM stream_chunks WHERE instance_key = ?1", params![key.0])?;
    session.execute("DELETE FROM stream_writers WHERE instance_key = ?1", params![key.0])?;
    deletion::remove_records(session, key)?;
    session.execute("DELETE FROM instances WHERE key = ?1", params![key.0])?;
    Ok(Some(terminated))
}
