//! The end of an instance from outside, regardless of its owner.

use perdure_engine::{Event, EventRecord, MessageBody, Payload, TerminationEvent};
use perdure_provider::{InstanceKey, Outcome, Status, Terminate};

use super::cancel::{self, Held};
use super::cross_instance::{Told, add, settlement};
use super::events::Events;
use super::mailbox::{Messages, Sent};
use super::{Found, find, task_done, turn};
use crate::error::Failure;
use crate::params::P;
use crate::revocation;
use crate::rows::integer;
use crate::session::Session;

const END: &str = "WITH e AS (
    SELECT * FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::text[], $10::text[], $11::text[])
      AS e (key, execution, event_id, time, kind, ref_id, name, payload, meta)
  ), appended AS (
    INSERT INTO {schema}.history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
    SELECT * FROM e
  ), dropped AS (
    DELETE FROM {schema}.messages WHERE instance_key = $1
  ), forgotten AS (
    DELETE FROM {schema}.heartbeats WHERE instance_key = $1
  )
  UPDATE {schema}.instances SET status = $12, next_event_id = $13, owner = NULL, wake_at = NULL, unread = 0,
    report = NULL, unfit_code = NULL, updated_at = $2, completed_at = $2
  WHERE key = $1 RETURNING parent_key, parent_execution, parent_event";

pub(super) async fn terminate(session: &Session<'_>, termination: &Terminate) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, &termination.id).await? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status.is_terminal() {
        return Ok(Outcome::Ended {
            status: instance.status,
        });
    }
    let (reason, time_ms) = (|| termination.reason.clone(), termination.time_ms);
    let event = Event::Termination(TerminationEvent::ExecutionTerminated { reason: reason() });
    let mut told = Told::default();
    let held = end(
        session,
        &instance,
        Status::Terminated,
        [event],
        reason(),
        time_ms,
        &mut told,
    )
    .await?;
    cancel::end_held(session, held, time_ms, &mut told).await?;
    let Told { receivers, stopped, .. } = told;
    Ok(Outcome::Terminated {
        key: instance.key,
        owner: instance.owner,
        receivers,
        stopped,
    })
}

/// Ends an instance that has not ended, with these events, the last of which tells how. Its parent is told, and its
/// children are asked to cancel. Returns the children that are suspended.
pub(super) async fn end(
    session: &Session<'_>,
    instance: &Found,
    status: Status,
    ends: impl IntoIterator<Item = Event>,
    result: Payload,
    time_ms: i64,
    told: &mut Told,
) -> Result<Vec<Held>, Failure> {
    let (mut next, mut events) = (instance.next_event_id, Events::default());
    let records: Vec<EventRecord> = ends
        .into_iter()
        .map(|event| {
            let record = EventRecord::new(next, time_ms, event);
            next = next.next();
            record
        })
        .collect();
    for record in &records {
        events.push(instance.key, instance.execution, record);
    }
    let mut params = vec![P::Int(instance.key.0), P::Int(time_ms)];
    params.extend(events.params());
    params.extend([P::Text(status.as_str()), P::Int(integer(next.0))]);
    // The owner is cleared (P7) and the next event id moves on, so later writes of the former owner are fenced off
    // twice.
    let ended = session.query_one(END, &params).await?;
    revocation::note(session, instance.owner.as_ref(), instance.key, instance.epoch).await?;
    let parent = turn::parent(&ended, 0)?;
    let settled = parent.map(|parent| parent.told(settlement(status, result)));
    let cancel = MessageBody::Cancel { reason: None };
    let children = children_of(session, instance.key).await?;
    let mut messages = Messages::default();
    let mut bodies = Vec::new();
    if let (Some(parent), Some(settled)) = (&parent, &settled) {
        messages.tell(parent, settled, time_ms);
        bodies.push(settled);
    }
    for child in children {
        messages.send_to(child, &cancel, time_ms);
        bodies.push(&cancel);
    }
    let mut held = Vec::new();
    for (body, sent) in bodies.into_iter().zip(messages.send(session).await?) {
        match (Held::of(body, &sent), sent) {
            (Some(child), _) => held.push(child),
            (None, Sent::Delivered { owner, .. }) => add(&mut told.receivers, owner),
            _ => {}
        }
    }
    told.ended = true;
    told.stopped
        .extend(task_done::withdraw_of(session, instance.key).await?);
    Ok(held)
}

/// Returns the children, also those that have ended, which get no message.
async fn children_of(session: &Session<'_>, parent: InstanceKey) -> Result<Vec<InstanceKey>, Failure> {
    let rows = session
        .query(
            "SELECT key FROM {schema}.instances WHERE parent_key = $1 ORDER BY key",
            &[P::Int(parent.0)],
        )
        .await?;
    rows.iter().map(|row| Ok(InstanceKey(row.try_get(0)?))).collect()
}
