//! Requests to cancel suspended instances. None of the code of such an instance can run. So it ends in the commit that
//! brings the request, without its cleanup, and its children are cancelled with it.

use perdure_engine::{Event, MessageBody, NoteEvent, Payload, TerminationEvent};
use perdure_provider::{InstanceKey, NewMessage, Outcome, Status};

use super::cross_instance::Told;
use super::mailbox::Sent;
use super::{find_by_key, terminate};
use crate::error::Failure;
use crate::session::Session;

/// A request to cancel a suspended instance, whose row is locked.
pub(super) struct Held {
    pub(super) key: InstanceKey,
    pub(super) reason: Payload,
}

impl Held {
    /// Returns the request. `None`: the message is no request to cancel, or its receiver is not suspended.
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

/// Returns the outcome of a client's message that was sent to the mailbox of its instance.
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

/// Ends suspended instances as cancelled. Their children are asked to cancel. Children that are suspended end in the
/// same way, one after the other, at any depth.
pub(super) async fn end_held(
    session: &Session<'_>,
    mut held: Vec<Held>,
    time_ms: i64,
    told: &mut Told,
) -> Result<(), Failure> {
    while let Some(Held { key, reason }) = held.pop() {
        // Another request of the same commit may have ended the instance.
        let found = find_by_key(session, key).await?;
        let Some(instance) = found.filter(|found| found.status == Status::Suspended) else {
            continue;
        };
        let events = [
            Event::Note(NoteEvent::CancelRequested { reason }),
            Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        ];
        held.extend(terminate::end(session, &instance, Status::Cancelled, events, None, time_ms, told).await?);
    }
    Ok(())
}
