//! Requests to cancel a suspended instance. None of its code can run, so the instance ends in the commit that brings
//! the request, without its cleanup, and its children are cancelled with it.

use perdure_engine::{Event, NoteEvent, Payload, TerminationEvent};
use perdure_provider::{InstanceKey, Status};

use super::cross_instance::{self, Told};
use super::terminate::end;
use crate::tables::Tables;

/// Returns true if an instance is suspended.
pub(super) fn is_held(tables: &Tables, key: InstanceKey) -> bool {
    tables.instance(key).is_some_and(|row| row.status == Status::Suspended)
}

/// Ends a suspended instance as cancelled. Its children are asked to cancel, and suspended children end in the same
/// way: one after the other, to any depth.
pub(super) fn end_held(tables: &mut Tables, key: InstanceKey, reason: Payload, time_ms: i64, told: &mut Told) {
    let (mut held, mut reason) = (vec![key], reason);
    while let Some(key) = held.pop() {
        let events = [
            Event::Note(NoteEvent::CancelRequested { reason: reason.take() }),
            Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        ];
        end(tables, key, Status::Cancelled, events, None, time_ms, told);
        held.extend(cross_instance::ask_children(tables, key, told));
    }
}
