//! Requests to cancel instances. None of the code of a suspended instance can run, and none of an instance that no
//! worker has acquired yet and that is not due has run (P25). Such an instance ends in the commit that brings the
//! request, without its cleanup, and its children are cancelled with it.

use perdure_engine::{Event, MessageBody, NoteEvent, Payload, TerminationEvent};
use perdure_provider::{Affected, Epoch, InstanceKey, Status};

use super::end;
use super::mailbox;
use crate::rows::InstanceRow;
use crate::tables::Tables;

/// Cancels all children of an instance, which has ended.
pub(super) fn cancel_children(tables: &mut Tables, parent: InstanceKey, time_ms: i64, affected: &mut Affected) {
    let children = tables.children_of(parent, None);
    cancel_all(tables, children, time_ms, affected);
}

/// Cancels instances that have not ended.
pub(super) fn cancel_all(tables: &mut Tables, children: Vec<InstanceKey>, time_ms: i64, affected: &mut Affected) {
    for child in request(tables, children, affected) {
        end_at_once(tables, child, None, time_ms, affected);
    }
}

/// Returns true if none of the code of an instance can run now, which has not ended.
pub(super) fn cannot_run(tables: &Tables, row: &InstanceRow) -> bool {
    let is_due = row.wake_at_ms.is_some_and(|at| at <= tables.now_ms);
    let is_new = row.epoch == Epoch(0) && row.owner.is_none();
    row.status == Status::Suspended || is_new && !is_due
}

/// Ends an instance that cannot run as cancelled. Its children are asked to cancel, and children that cannot run end in
/// the same way: one after the other, to any depth.
pub(super) fn end_at_once(
    tables: &mut Tables,
    key: InstanceKey,
    reason: Payload,
    time_ms: i64,
    affected: &mut Affected,
) {
    let (mut ending, mut reason) = (vec![key], reason);
    while let Some(key) = ending.pop() {
        let events = [
            Event::Note(NoteEvent::CancelRequested { reason: reason.take() }),
            Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        ];
        end::end(tables, key, Status::Cancelled, events, None, time_ms, affected);
        let children = tables.children_of(key, None);
        ending.extend(request(tables, children, affected));
    }
}

/// Sends instances a request to cancel. Instances that cannot run get no message, and are returned.
fn request(tables: &mut Tables, children: Vec<InstanceKey>, affected: &mut Affected) -> Vec<InstanceKey> {
    let (ending, others): (Vec<_>, Vec<_>) = children
        .into_iter()
        .partition(|child| tables.instance(*child).is_some_and(|row| cannot_run(tables, row)));
    for child in others {
        mailbox::put(tables, child, MessageBody::Cancel { reason: None });
        let row = tables.instance(child).expect("it was just sent a message");
        mailbox::add_receiver(&mut affected.receivers, row.owner.clone());
    }
    ending
}
