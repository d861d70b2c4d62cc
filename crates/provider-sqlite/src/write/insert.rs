//! The rows of a new instance: its state and its first event.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{Epoch, InstanceKey, NewInstance, OnConflict, Outcome};
use rusqlite::params;

use super::found::{Found, Parent, find};
use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;
use crate::worker;

/// An instance that was inserted.
pub(super) struct Inserted {
    pub(super) key: InstanceKey,
    /// Epoch of the instance, if it was claimed.
    pub(super) claimed: Option<Epoch>,
}

impl Inserted {
    /// Returns the outcome of the start, with that of the first turn.
    pub(super) fn outcome(&self, turn: Option<Outcome>) -> Outcome {
        Outcome::Started {
            key: self.key,
            claimed: self.claimed,
            turn: turn.map(Box::new),
        }
    }
}

/// Inserts an instance without its first turn. Returns `None` if its id is in use.
pub(super) fn insert(
    session: &mut Session<'_>,
    instance: &NewInstance,
    parent: Option<&Parent>,
) -> Result<Option<Inserted>, Failure> {
    let first = &instance.first_event;
    instance.check().map_err(Failure::internal)?;
    // A worker that is no longer registered must not own anything: no other worker would ever take its instances over.
    let claim = match &instance.claim {
        Some(worker) if worker::is_registered(session, worker)? => Some(worker),
        _ => None,
    };
    // A claimed instance is in its first epoch (P3). An instance that is left to the first worker that acquires it is
    // due now and in epoch 0.
    let (epoch, wake_at) = if claim.is_some() {
        (Epoch(1), None)
    } else {
        (Epoch(0), Some(session.now_ms()))
    };
    let insert = |session: &Session<'_>| {
        session.execute(
            "INSERT INTO instances (id, name, version, execution, status, owner, epoch, next_event_id, turns, wake_at,
               custom_status_version, priority, parent_id, tags, created_at, updated_at, parent_key, parent_execution, parent_event)
             VALUES (?1, ?2, ?3, ?4, 'Pending', ?5, ?6, ?7, 0, ?8, 0, ?9, ?10, ?11, ?12, ?12, ?13, ?14, ?15)
             ON CONFLICT (id) DO NOTHING",
            params![
                instance.id,
                instance.name,
                instance.version,
                integer(ExecutionId::FIRST.0),
                claim.map(|worker| &*worker.0),
                integer(epoch.0),
                integer(EventId::FIRST.next().0),
                wake_at,
                instance.priority,
                instance.parent_id,
                instance.tags,
                first.time_ms,
                parent.map(|parent| parent.key.0),
                parent.map(|parent| integer(parent.execution.0)),
                parent.map(|parent| integer(parent.event.0)),
            ],
        )
    };
    if insert(session)? == 0 {
        if !make_room(session, instance)? {
            return Ok(None);
        }
        let inserted = insert(session)?;
        assert_eq!(inserted, 1, "the id was made free in this transaction");
    }
    let key = InstanceKey(session.connection().last_insert_rowid());
    session.append_event(key, integer(ExecutionId::FIRST.0), first)?;
    Ok(Some(Inserted {
        key,
        claimed: claim.map(|_| epoch),
    }))
}

/// Removes the instance that has the id, if the start may replace it.
fn make_room(session: &Session<'_>, instance: &NewInstance) -> Result<bool, Failure> {
    match (instance.on_conflict, find(session, &instance.id)?) {
        (OnConflict::RestartIfTerminal, Some(Found { key, status, .. })) if status.is_terminal() => {
            // The instance has no messages: they were deleted with the commit that ended it (P6).
            session.execute("DELETE FROM history WHERE instance_key = ?1", params![key.0])?;
            session.execute("DELETE FROM instances WHERE key = ?1", params![key.0])?;
            Ok(true)
        }
        _ => Ok(false),
    }
}
