//! The end of an instance that none of its own turns brings about.

use perdure_engine::{Event, EventRecord, MessageBody, Payload};
use perdure_provider::{Affected, InstanceKey, Status, settlement};

use super::events::Events;
use super::found::{Found, parent};
use super::mailbox::{CancelAtOnce, Messages, Sent, add_receiver};
use super::offer;
use crate::error::Failure;
use crate::params::P;
use crate::queues::release_next;
use crate::revocation;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::query;

/// The row of an instance in its queue is deleted. So the slot that the instance may have is free at once.
const END: &str = concat!(
    "WITH e AS (
    SELECT * FROM {r}
  ), appended AS (
    INSERT INTO {schema}.history ({r.columns}) SELECT * FROM e
  ), dropped AS (
    DELETE FROM {schema}.messages WHERE instance_key = $key
  ), forgotten AS (
    DELETE FROM {schema}.heartbeats WHERE instance_key = $key
  ), gone AS (
    DELETE FROM {schema}.queue_places WHERE key = $key RETURNING queue, queue_key, place
  ), let AS (
    ",
    release_next!("(SELECT queue, queue_key FROM gone WHERE place = 0)"),
    "
  )
  UPDATE {schema}.instances SET status = $status, next_event_id = $next, owner = NULL, wake_at = NULL, unread = 0,
    report = NULL, start_at = NULL, mismatched_code = NULL, open_work = NULL, updated_at = $time, completed_at = $time
  WHERE key = $key RETURNING parent_key, parent_execution, parent_event"
);

/// Ends an instance that has not ended, with these events, the last of which tells how. Its parent is told, and its
/// children are asked to cancel. Returns the children that cannot run.
pub(super) async fn end(
    session: &Session<'_>,
    instance: &Found,
    status: Status,
    ends: impl IntoIterator<Item = Event>,
    result: Payload,
    time_ms: i64,
    affected: &mut Affected,
) -> Result<Vec<CancelAtOnce>, Failure> {
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
    // The owner is cleared (P7) and the next event id moves on, so later writes of the former owner are fenced off
    // twice.
    let end = query!(
        END,
        {
            key: P::Int(instance.key.0),
            time: P::Int(time_ms),
            status: P::Text(status.as_str()),
            next: P::Int(integer(next.0)),
        };
        r: Events = events
    );
    let ended = session.query_one(end.sql, &end.params).await?;
    revocation::note(session, instance.owner.as_ref(), instance.key, instance.epoch).await?;
    let parent = parent(&ended, 0)?;
    let settled = parent.map(|parent| parent.settled(settlement(status, result)));
    let cancel = MessageBody::Cancel { reason: None };
    let children = children_of(session, instance.key).await?;
    let mut messages = Messages::default();
    let mut bodies = Vec::new();
    if let (Some(parent), Some(settled)) = (&parent, &settled) {
        messages.settle(parent, settled, time_ms);
        bodies.push(settled);
    }
    for child in children {
        messages.send_to(child, &cancel, time_ms);
        bodies.push(&cancel);
    }
    let mut ending = Vec::new();
    for (body, sent) in bodies.into_iter().zip(messages.send(session).await?) {
        match (CancelAtOnce::of(body, &sent), sent) {
            (Some(child), _) => ending.push(child),
            (None, Sent::Delivered { owner, .. }) => add_receiver(&mut affected.receivers, owner),
            _ => {}
        }
    }
    affected.ended = true;
    affected
        .stopped
        .extend(offer::withdraw_of(session, instance.key).await?);
    Ok(ending)
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
