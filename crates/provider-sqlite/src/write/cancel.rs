//! Requests to cancel instances. None of the code of a suspended instance can run, and none of an instance that no
//! worker has acquired yet and that is not due has run (P25). Such an instance ends in the commit that brings the
//! request, without its cleanup, and its children are cancelled with it.

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
    for child in request(session, children, time_ms, affected)? {
        end_at_once(session, child, None, time_ms, affected)?;
    }
    Ok(())
}

/// Ends an instance that cannot run as cancelled. Its children are asked to cancel, and children that cannot run end in
/// the same way: one after the other, to any depth.
pub(super) fn end_at_once(
    session: &mut Session<'_>,
    instance: Found,
    mut reason: Payload,
    time_ms: i64,
    affected: &mut Affected,
) -> Result<(), Failure> {
    let mut ending = vec![instance];
    while let Some(instance) = ending.pop() {
        let events = [
            Event::Note(NoteEvent::CancelRequested { reason: reason.take() }),
            Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        ];
        end::end(session, &instance, Status::Cancelled, events, None, time_ms, affected)?;
        let children = find_children(session, instance.key, None)?;
        ending.extend(request(session, children, time_ms, affected)?);
    }
    Ok(())
}

/// Sends instances a request to cancel. Instances that cannot run get no message, and are returned.
fn request(
    session: &Session<'_>,
    children: Vec<Found>,
    time_ms: i64,
    affected: &mut Affected,
) -> Result<Vec<Found>, Failure> {
    let mut ending = Vec::new();
    for child in children {
        if child.cannot_run(session.now_ms()) {
            ending.push(child);
            continue;
        }
        mailbox::put(session, &child, &MessageBody::Cancel { reason: None }, time_ms)?;
        mailbox::add_receiver(&mut affected.receivers, child.owner);
    }
    Ok(ending)
}
