//! The rows of a new instance: its state and its first event.

use perdure_engine::{Bug, EventId, ExecutionId, is_planted};
use perdure_provider::{
    Epoch, InstanceKey, NewInstance, OnConflict, Outcome, ProbationStep, ProviderError, Status, Suspicion,
};

use super::terminate;
use crate::error::internal;
use crate::rows::{InstanceRow, Parent};
use crate::tables::{Tables, of_instance};
use crate::{admission, deletion, history, queues, streams};

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

/// Inserts an instance without its first turn. Returns the outcome of the start if it is refused. `by` is the instance
/// whose turn asks for it.
pub(super) fn insert(
    tables: &mut Tables,
    instance: &NewInstance,
    parent: Option<Parent>,
    by: Option<InstanceKey>,
) -> Result<Result<Inserted, Outcome>, ProviderError> {
    instance.check().map_err(internal)?;
    // A worker that is no longer registered must not own anything: no other worker would ever take its instances over.
    let claim = instance.claim.as_ref();
    let owner = claim.filter(|worker| tables.is_registered(worker)).cloned();
    let queue = instance.queue.as_ref();
    if queue.is_some_and(|entry| !tables.queues.contains(&entry.queue)) {
        return Ok(Err(Outcome::NoQueue));
    }
    let Some(terminated) = make_room(tables, instance, by) else {
        return Ok(Err(Outcome::Exists));
    };
    // The claim of an instance of a queue holds only with a slot.
    let slot = queue.zip(owner.as_ref());
    let slot = slot.and_then(|(entry, worker)| admission::admit_new(tables, &entry.queue, worker));
    let owner = owner.filter(|_| queue.is_none() || slot.is_some());
    // A claimed instance is in its first epoch (P3). An instance that is left to the first worker that acquires it is
    // in epoch 0. An instance of a queue is not due (P24).
    let claimed = owner.as_ref().map(|_| Epoch(1));
    let due_at_ms = instance.due.at_ms(tables.now_ms);
    let key = tables.next_key();
    let created_at_ms = instance.first_event.time_ms;
    tables.add_instance(InstanceRow {
        key,
        id: instance.id.clone(),
        name: instance.name.clone(),
        version: instance.version.clone(),
        execution: ExecutionId::FIRST,
        status: Status::Pending,
        wake_at_ms: (owner.is_none() && queue.is_none()).then_some(due_at_ms),
        owner,
        epoch: claimed.unwrap_or(Epoch(0)),
        next_event_id: EventId::FIRST.next(),
        turns: 0,
        custom_status: None,
        custom_status_version: 0,
        state_version: 0,
        priority: instance.priority,
        parent_id: instance.parent_id.clone(),
        parent,
        tags: instance.tags.clone(),
        start_at_ms: None,
        report: None,
        mismatched_code: None,
        released_by: None,
        created_at_ms,
        updated_at_ms: created_at_ms,
        completed_at_ms: None,
        open_work: None,
        unread: 0,
        suspicion: Suspicion::default(),
        probation: ProbationStep::End,
    });
    history::append(tables, key, ExecutionId::FIRST, &instance.first_event);
    if let Some(entry) = queue {
        queues::enter(tables, key, entry, due_at_ms, slot);
    }
    Ok(Ok(Inserted {
        key,
        claimed,
        terminated,
    }))
}

/// Makes the id free: removes the instance that has it, if the start may replace that. Returns the outcome of its
/// termination, if it had not ended. `None`: the id stays in use.
fn make_room(tables: &mut Tables, instance: &NewInstance, by: Option<InstanceKey>) -> Option<Option<Outcome>> {
    let Some(row) = tables.find(&instance.id) else {
        return Some(None);
    };
    if is_planted(Bug::TwoInstancesOfOneId) {
        return Some(None);
    }
    let (key, status) = (row.key, row.status);
    let terminated = if instance.on_conflict.replaces(status) {
        None
    } else if instance.on_conflict == OnConflict::TerminateAndRestart && by != Some(key) {
        Some(terminate::terminate(tables, &instance.termination()))
    } else {
        return None;
    };
    deletion::remove_instance(tables, key);
    tables.history.remove_range(of_instance(key));
    streams::remove_entries(tables, key);
    Some(terminated)
}
