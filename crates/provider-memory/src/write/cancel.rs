//! Requests to cancel instances. None of the code of a suspended instance can run, so it ends in the commit that brings
//! the request, without its cleanup, and its children are cancelled with it.

use perdure_engine::{Event, MessageBody, NoteEvent, Payload, TerminationEvent};
use perdure_provider::{Affected, InstanceKey, Status};

use super::end;
use super::mailbox;
use crate::tables::Tables;

/// Cancels all children of an instance, which has ended.
pub(super) fn cancel_children(tables: &mut Tables, parent: InstanceKey, time_ms: i64, affected: &mut Affected) {
    let children = tables.children_of(parent, None);
    cancel_all(tables, children, time_ms, affected);
}

/// Cancels instances that have not ended.
pub(super) fn cancel_all(tables: &mut Tables, children: Vec<InstanceKey>, time_ms: i64, affected: &mut Affected) {
    for suspended in request(tables, children, affected) {
        end_suspended(tables, suspended, None, time_ms, affected);
    }
}

/// Ends a suspended instance as cancelled. Its children are asked to cancel, and suspended children end in the same
/// way: one after the other, to any depth.
pub(super) fn end_suspended(
    tables: &mut Tables,
    key: InstanceKey,
    reason: Payload,
    time_ms: i64,
    affected: &mut Affected,
) {
    let (mut suspended, mut reason) = (vec![key], reason);
    while let Some(key) = suspended.pop() {
        let events = [
            Event::Note(NoteEvent::CancelRequested { reason: reason.take() }),
            Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        ];
        end::end(tables, key, Status::Cancelled, events, None, time_ms, affected);
        let children = tables.children_of(key, None);
        suspended.extend(request(tables, children, affected));
    }
}

/// Sends instances a request to cancel. Suspended instances get no message, and are returned.
fn request(tables: &mut Tables, children: Vec<InstanceKey>, affected: &mut Affected) -> Vec<InstanceKey> {
    let (suspended, others): (Vec<_>, Vec<_>) = children.into_iter().partition(|child| {
        tables
            .instance(*child)
            .is_some_and(|row| row.status == Status::Suspended)
    });
    for child in others {
        mailbox::put(tables, child, MessageBody::Cancel { reason: None });
        let row = tables.instance(child).expect("it was just sent a message");
        mailbox::add_receiver(&mut affected.receivers, row.owner.clone());
    }
    suspended
}
