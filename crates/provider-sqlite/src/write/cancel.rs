//! Requests to cancel instances. None of the code of a suspended instance can run, so it ends in the commit that brings
//! the request, without its cleanup, and its children are cancelled with it.

use perdure_engine::{Event, MessageBody, NoteEvent, Payload, TerminationEvent};
use perdure_provider::{Affected, InstanceKey, Status};

use super::end;
use super::found::{Found, find_children};
use super::mailbox;
use crate::error::Failure;
use crate::session::Session;

/// Cancels all children of an instance, which has ended.
pub(super) fn cancel_children(
    session: &mut Session<'_>,
    parent: InstanceKey,
    time_ms: i64,
    affected: &mut Affected,
) -> Result<(), Failure> {
    let children = find_children(session, parent, None)?;
    cancel_all(session, children, time_ms, affected)
}

/// Cancels instances that have not ended.
pub(super) fn cancel_all(
    session: &mut Session<'_>,
    children: Vec<Found>,
    time_ms: i64,
    affected: &mut Affected,
) -> Result<(), Failure> {
    for suspended in request(session, children, time_ms, affected)? {
        end_suspended(session, suspended, None, time_ms, affected)?;
    }
    Ok(())
}

/// Ends a suspended instance as cancelled. Its children are asked to cancel, and suspended children end in the same
/// way: one after the other, to any depth.
pub(super) fn end_suspended(
    session: &mut Session<'_>,
    instance: Found,
    mut reason: Payload,
    time_ms: i64,
    affected: &mut Affected,
) -> Result<(), Failure> {
    let mut suspended = vec![instance];
    while let Some(instance) = suspended.pop() {
        let events = [
            Event::Note(NoteEvent::CancelRequested { reason: reason.take() }),
            Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        ];
        end::end(session, &instance, Status::Cancelled, events, None, time_ms, affected)?;
        let children = find_children(session, instance.key, None)?;
        suspended.extend(request(session, children, time_ms, affected)?);
    }
    Ok(())
}

/// Sends instances a request to cancel. Suspended instances get no message, and are returned.
fn request(
    session: &Session<'_>,
    children: Vec<Found>,
    time_ms: i64,
    affected: &mut Affected,
) -> Result<Vec<Found>, Failure> {
    let mut suspended = Vec::new();
    for child in children {
        if child.status == Status::Suspended {
            suspended.push(child);
            continue;
        }
        mailbox::put(session, &child, &MessageBody::Cancel { reason: None }, time_ms)?;
        mailbox::add_receiver(&mut affected.receivers, child.owner);
    }
    Ok(suspended)
}
