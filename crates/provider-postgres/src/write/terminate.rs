//! The end of an instance from outside, whoever owns it.

use perdure_engine::{Event, EventRecord, MessageBody};
use perdure_provider::{InstanceKey, Outcome, Status, Terminate};

use super::events::Events;
use super::message::{Messages, Sent};
use super::others::{add, settlement};
use super::{find, task, turn};
use crate::error::Failure;
use crate::params::P;
use crate::revocation;
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
  UPDATE {schema}.instances SET status = 'Terminated', next_event_id = next_event_id + 1, owner = NULL, wake_at = NULL, unread = 0,
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
    let event = Event::ExecutionTerminated {
        reason: termination.reason.clone(),
    };
    let event = EventRecord::new(instance.next_event_id, termination.time_ms, event);
    let mut events = Events::default();
    events.push(instance.key, instance.execution, &event);
    let mut params = vec![P::Int(instance.key.0), P::Int(termination.time_ms)];
    params.extend(events.params());
    // The owner is cleared (P7) and the next event id moves on: what the former owner still sends is fenced off twice.
    let ended = session.query_one(END, &params).await?;
    revocation::note(session, instance.owner.as_ref(), instance.key, instance.epoch).await?;
    let parent = turn::parent(&ended, 0)?;
    let told = parent.map(|parent| parent.told(settlement(Status::Terminated, termination.reason.clone())));
    let cancel = MessageBody::Cancel { reason: None };
    let children = children_of(session, instance.key).await?;
    let mut messages = Messages::default();
    if let (Some(parent), Some(told)) = (&parent, &told) {
        messages.tell(parent, told, termination.time_ms);
    }
    for child in children {
        messages.send_to(child, &cancel, termination.time_ms);
    }
    let mut receivers = Vec::new();
    for sent in messages.send(session).await? {
        if let Sent::Delivered { owner, .. } = sent {
            add(&mut receivers, owner);
        }
    }
    Ok(Outcome::Terminated {
        key: instance.key,
        owner: instance.owner,
        receivers,
        stopped: task::withdraw_of(session, instance.key).await?,
    })
}

/// Those that have ended get no message.
async fn children_of(session: &Session<'_>, parent: InstanceKey) -> Result<Vec<InstanceKey>, Failure> {
    let rows = session
        .query(
            "SELECT key FROM {schema}.instances WHERE parent_key = $1 ORDER BY key",
            &[P::Int(parent.0)],
        )
        .await?;
    rows.iter().map(|row| Ok(InstanceKey(row.try_get(0)?))).collect()
}
