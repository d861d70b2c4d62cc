//! Requests to cancel that come to a suspended instance. None of its code can run, so that it ends in the commit that brings the request,
//! without its cleanup, and its children are cancelled with it.

use perdure_engine::{CancelPoint, Event, MessageBody, Payload};
use perdure_provider::{InstanceKey, NewMessage, Outcome, Status};

use super::message::Sent;
use super::others::Told;
use super::{find_by_key, terminate};
use crate::error::Failure;
use crate::session::Session;

/// A request that came to a suspended instance, whose row is locked.
pub(super) struct Held {
    pub(super) key: InstanceKey,
    pub(super) reason: Payload,
}

impl Held {
    /// `None`: what was sent is no such request, or its receiver can hear of it.
    pub(super) fn of(body: &MessageBody, sent: &Sent) -> Option<Self> {
        match (body, sent) {
            (MessageBody::Cancel { reason }, Sent::Delivered { key, is_held: true, .. }) => Some(Self {
                key: *key,
                reason: reason.clone(),
            }),
            _ => None,
        }
    }
}

/// What a client's message came to, which was put into the mailbox of its instance.
pub(super) async fn outcome(session: &Session<'_>, message: &NewMessage, sent: Sent) -> Result<Outcome, Failure> {
    let Some(held) = Held::of(&message.body, &sent) else {
        return Ok(sent.outcome(message));
    };
    let (key, mut told) = (held.key, Told::default());
    end_held(session, vec![held], message.time_ms, &mut told).await?;
    let Told { receivers, stopped, .. } = told;
    Ok(Outcome::Terminated {
        key,
        owner: None,
        receivers,
        stopped,
    })
}

/// End suspended instances as cancelled. Their children are asked to cancel, and those that are suspended end in the same way: one after the
/// other, however deep that goes.
pub(super) async fn end_held(
    session: &Session<'_>,
    mut held: Vec<Held>,
    time_ms: i64,
    told: &mut Told,
) -> Result<(), Failure> {
    while let Some(Held { key, reason }) = held.pop() {
        // Another request of the same commit may have ended it.
        let found = find_by_key(session, key).await?;
        let Some(instance) = found.filter(|found| found.status == Status::Suspended) else {
            continue;
        };
        let events = [
            Event::CancelRequested {
                reason,
                at: CancelPoint::Suspended,
            },
            Event::ExecutionCancelled {
                error: None,
                outside: true,
            },
        ];
        held.extend(terminate::end(session, &instance, Status::Cancelled, events, None, time_ms, told).await?);
    }
    Ok(())
}
