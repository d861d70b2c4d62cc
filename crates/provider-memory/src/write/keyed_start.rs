//! A start that depends on the instance that its key has (P26).

use perdure_engine::{Bug, ExecutionId, is_planted};
use perdure_provider::{
    Epoch, InstanceKey, KeyHolder, KeyedStart, KeyedStep, NewInstance, Outcome, ProviderError, Status,
};

use super::{message, start};
use crate::error::internal;
use crate::queues;
use crate::rows::{StartKey, StartKeyRow};
use crate::start_keys;
use crate::tables::{Tables, of_execution};

/// Decides what becomes of a start, and carries it out.
pub(super) fn start(tables: &mut Tables, keyed: &KeyedStart) -> Result<Outcome, ProviderError> {
    keyed.check().map_err(internal)?;
    let (new, at) = (&keyed.start, start_keys::of(keyed));
    let holder = holder(tables, &at);
    match (keyed.rule.step(&new.id, holder.as_ref(), tables.now_ms), holder) {
        (KeyedStep::Keep, Some(KeyHolder { id, .. })) => Ok(Outcome::Joined { id }),
        (KeyedStep::Readdress, Some(KeyHolder { id, .. })) => Ok(Outcome::Readdress { id }),
        (KeyedStep::Renew { due_at_ms }, Some(KeyHolder { key, id, .. })) => {
            renew(tables, key, new, due_at_ms);
            Ok(Outcome::Joined { id })
        }
        (KeyedStep::Join { is_last }, Some(holder)) => Ok(join(tables, keyed, &at, holder, is_last)),
        (step, holder) => {
            let mut outcome = start::start(tables, new)?;
            let Outcome::Started { key, terminated, .. } = &mut outcome else {
                return Ok(outcome);
            };
            let row = StartKeyRow {
                instance: *key,
                since_ms: tables.now_ms,
                inputs: keyed.input.is_some().into(),
            };
            start_keys::put(tables, at, row);
            if let Some(message) = keyed.message(new.id.clone()) {
                message::send(tables, &message);
            }
            if let (KeyedStep::Supersede, Some(before)) = (step, holder) {
                let cancelled = message::send(tables, &keyed.cancellation(before.id));
                *terminated = Some(Box::new(cancelled));
            }
            Ok(outcome)
        }
    }
}

/// Returns the instance that a key has.
fn holder(tables: &Tables, at: &StartKey) -> Option<KeyHolder> {
    let row = tables
        .start_keys
        .get(at)
        .filter(|_| !is_planted(Bug::StartKeyForgotten))?;
    let instance = tables.instance(row.instance)?;
    let due_at_ms = queues::delayed_until(tables, row.instance).or(instance.wake_at_ms);
    let is_new = instance.status == Status::Pending && instance.epoch == Epoch(0);
    let is_ahead = is_new && due_at_ms.is_some_and(|at_ms| at_ms > tables.now_ms);
    let takes_late_input = is_planted(Bug::BatchTakesLateInput) && row.inputs > 0 && !instance.status.is_terminal();
    Some(KeyHolder {
        key: row.instance,
        id: instance.id.clone(),
        status: instance.status,
        is_ahead: is_ahead || takes_late_input,
        since_ms: row.since_ms,
        inputs: row.inputs,
    })
}

/// Gives the input of a batch to the instance of its key. With the last one, the instance is due.
fn join(tables: &mut Tables, keyed: &KeyedStart, at: &StartKey, holder: KeyHolder, is_last: bool) -> Outcome {
    let KeyHolder { key, id, .. } = holder;
    if let Some(message) = keyed.message(id.clone()) {
        message::send(tables, &message);
    }
    if !is_planted(Bug::BatchNotCounted) {
        tables.start_keys.edit(at, |row| row.inputs += 1);
    }
    if is_last {
        let now_ms = tables.now_ms;
        let is_queued = queues::delay(tables, key, now_ms);
        tables.edit(key, |row| row.wake_at_ms = (!is_queued).then_some(now_ms));
    }
    Outcome::Joined { id }
}

/// Gives an instance that no worker has acquired what another start brings.
fn renew(tables: &mut Tables, key: InstanceKey, new: &NewInstance, due_at_ms: i64) {
    let is_queued = queues::delay(tables, key, due_at_ms);
    tables.edit(key, |row| {
        row.version.clone_from(&new.version);
        row.tags.clone_from(&new.tags);
        row.priority = new.priority;
        row.wake_at_ms = (!is_queued).then_some(due_at_ms);
        row.created_at_ms = new.first_event.time_ms;
        row.updated_at_ms = new.first_event.time_ms;
    });
    tables.history.remove_range(of_execution(key, ExecutionId::FIRST));
    crate::history::append(tables, key, ExecutionId::FIRST, &new.first_event);
}
