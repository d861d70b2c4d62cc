//! Requests to cancel a suspended instance. None of its code can run, so the instance ends in the commit that brings
//! the request, without its cleanup, and its children are cancelled with it.

use perdure_engine::{Event, NoteEvent, Payload, TerminationEvent};
use perdure_provider::Status;

use super::cross_instance::{self, Told};
use super::{Found, terminate};
use crate::error::Failure;
use crate::session::Session;

/// Ends a suspended instance as cancelled. Its children are asked to cancel, and suspended children end in the same
/// way: one after the other, to any depth.
pub(super) fn end_held(
    session: &mut Session<'_>,
    instance: Found,
    mut reason: Payload,
    time_ms: i64,
    told: &mut Told,
) -> Result<(), Failure> {
    let mut held = vec![instance];
    while let Some(instance) = held.pop() {
        let events = [
            Event::Note(NoteEvent::CancelRequested { reason: reason.take() }),
            Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        ];
        terminate::end(session, &instance, Status::Cancelled, events, None, time_ms, told)?;
        held.extend(cross_instance::ask_children(session, instance.key, time_ms, told)?);
    }
    Ok(())
}
