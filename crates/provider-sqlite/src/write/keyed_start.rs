//! A start that depends on the instance that its key has (P26).

use perdure_engine::ExecutionId;
use perdure_provider::{InstanceKey, KeyHolder, KeyedStart, KeyedStep, NewInstance, Outcome, Status};
use rusqlite::params;

use super::{message, start};
use crate::error::Failure;
use crate::rows::{integer, status};
use crate::session::Session;
use crate::statement::named;

/// Decides what becomes of a start, and carries it out.
pub(super) fn start(session: &mut Session<'_>, keyed: &KeyedStart) -> Result<Outcome, Failure> {
    keyed.check().map_err(Failure::internal)?;
    let new = &keyed.start;
    let holder = holder(session, keyed)?;
    match (keyed.rule.step(&new.id, holder.as_ref(), session.now_ms()), holder) {
        (KeyedStep::Keep, Some(KeyHolder { id, .. })) => Ok(Outcome::Joined { id }),
        (KeyedStep::Readdress, Some(KeyHolder { id, .. })) => Ok(Outcome::Readdress { id }),
        (KeyedStep::Renew { due_at_ms }, Some(KeyHolder { key, id, .. })) => {
            renew(session, key, new, due_at_ms)?;
            Ok(Outcome::Joined { id })
        }
        (KeyedStep::Join { is_last }, Some(holder)) => join(session, keyed, holder, is_last),
        (step, holder) => {
            let mut outcome = start::start(session, new)?;
            let Outcome::Started { key, terminated, .. } = &mut outcome else {
                return Ok(outcome);
            };
            put(session, keyed, *key)?;
            if let Some(message) = keyed.message(new.id.clone()) {
                message::send(session, &message)?;
            }
            if let (KeyedStep::Supersede, Some(before)) = (step, holder) {
                let cancelled = message::send(session, &keyed.cancellation(before.id))?;
                *terminated = Some(Box::new(cancelled));
            }
            Ok(outcome)
        }
    }
}

/// Returns the instance that a key has.
fn holder(session: &Session<'_>, keyed: &KeyedStart) -> Result<Option<KeyHolder>, Failure> {
    let now_ms = session.now_ms();
    session.query_optional(
        "SELECT i.key, i.id, i.status, i.epoch, coalesce(q.queued_at, i.wake_at), k.since, k.inputs
         FROM start_keys k JOIN instances i ON i.key = k.instance_key
         LEFT JOIN queue_places q ON q.key = i.key AND q.place = 3
         WHERE k.rule = ?1 AND k.scope = ?2 AND k.start_key = ?3",
        params![keyed.rule.name(), keyed.scope, keyed.key],
        |row| {
            let (status, epoch): (_, i64) = (status(row, 2)?, row.get(3)?);
            let due_at_ms: Option<i64> = row.get(4)?;
            let is_new = status == Status::Pending && epoch == 0;
            Ok(KeyHolder {
                key: InstanceKey(row.get(0)?),
                id: row.get(1)?,
                status,
                is_ahead: is_new && due_at_ms.is_some_and(|at_ms| at_ms > now_ms),
                since_ms: row.get(5)?,
                inputs: row.get(6)?,
            })
        },
    )
}

/// Gives the key an instance.
fn put(session: &Session<'_>, keyed: &KeyedStart, instance: InstanceKey) -> Result<(), Failure> {
    session.execute(
        "INSERT INTO start_keys (rule, scope, start_key, instance_key, since, inputs) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (rule, scope, start_key) DO UPDATE
         SET instance_key = excluded.instance_key, since = excluded.since, inputs = excluded.inputs",
        params![
            keyed.rule.name(),
            keyed.scope,
            keyed.key,
            instance.0,
            session.now_ms(),
            keyed.input.is_some()
        ],
    )?;
    Ok(())
}

/// Gives the input of a batch to the instance of its key. With the last one, the instance is due.
fn join(session: &mut Session<'_>, keyed: &KeyedStart, holder: KeyHolder, is_last: bool) -> Result<Outcome, Failure> {
    let KeyHolder { key, id, .. } = holder;
    if let Some(message) = keyed.message(id.clone()) {
        message::send(session, &message)?;
    }
    session.execute(
        "UPDATE start_keys SET inputs = inputs + 1 WHERE rule = ?1 AND scope = ?2 AND start_key = ?3",
        params![keyed.rule.name(), keyed.scope, keyed.key],
    )?;
    if is_last {
        session.execute(
            "UPDATE queue_places SET queued_at = ?2 WHERE key = ?1",
            params![key.0, session.now_ms()],
        )?;
        // An instance of a queue has no due time (P24).
        session.execute(
            "UPDATE instances SET wake_at = ?2 WHERE key = ?1 AND wake_at IS NOT NULL",
            params![key.0, session.now_ms()],
        )?;
    }
    Ok(Outcome::Joined { id })
}

/// Gives an instance that no worker has acquired what another start brings.
fn renew(session: &mut Session<'_>, key: InstanceKey, new: &NewInstance, due_at_ms: i64) -> Result<(), Failure> {
    session.execute(
        "UPDATE queue_places SET queued_at = ?2, version = ?3, priority = ?4 WHERE key = ?1",
        params![key.0, due_at_ms, new.version, new.priority],
    )?;
    // An instance of a queue has no due time (P24).
    named!(
        session.execute,
        "UPDATE instances SET version = $version, tags = $tags, priority = $priority,
           wake_at = CASE WHEN wake_at IS NOT NULL THEN $due_at END, created_at = $time, updated_at = $time
         WHERE key = $key",
        {
            key: key.0,
            version: new.version,
            tags: new.tags,
            priority: new.priority,
            due_at: due_at_ms,
            time: new.first_event.time_ms,
        }
    )?;
    session.execute("DELETE FROM history WHERE instance_key = ?1", params![key.0])?;
    session.append_event(key, integer(ExecutionId::FIRST.0), &new.first_event)
}
