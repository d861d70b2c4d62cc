//! The end of an instance that none of its own turns brings about.

use perdure_engine::{Event, EventRecord, Payload};
use perdure_provider::{Affected, Epoch, InstanceKey, Status, settlement};

use super::{mailbox, offer};
use crate::tables::{Tables, of_instance};
use crate::{history, queues, revocation};

/// Ends an instance that has not ended, with these events, the last of which says how. Its parent is told; its children
/// are left to the caller.
pub(super) fn end(
    tables: &mut Tables,
    key: InstanceKey,
    status: Status,
    events: impl IntoIterator<Item = Event>,
    result: Payload,
    time_ms: i64,
    affected: &mut Affected,
) {
    let row = tables.instance(key).expect("it was just found");
    let (epoch, owner, parent) = (row.epoch, row.owner.clone(), row.parent);
    let (execution, mut next) = (row.execution, row.next_event_id);
    for event in events {
        history::append(tables, key, execution, &EventRecord::new(next, time_ms, event));
        next = next.next();
    }
    // The owner is cleared (P7) and the next event id moves on, so that any later write of the former owner is fenced
    // off twice.
    tables.edit(key, |row| {
        row.disown(None);
        row.open_work = None;
        row.status = status;
        row.next_event_id = next;
        row.unread = 0;
        row.start_at_ms = None;
        row.report = None;
        row.mismatched_code = None;
        row.updated_at_ms = time_ms;
        row.completed_at_ms = Some(time_ms);
    });
    revocation::note(tables, owner.as_ref(), key, epoch);
    if epoch == Epoch(0) {
        queues::leave(tables, key.into());
    }
    tables.remove_messages(key);
    tables.heartbeats.remove_range(of_instance(key));
    if let Some(parent) = parent {
        let settlement = settlement(status, result);
        mailbox::settle(tables, parent, settlement, &mut affected.receivers);
    }
    affected.ended = true;
    affected.stopped.extend(offer::withdraw_all(tables, key));
}
