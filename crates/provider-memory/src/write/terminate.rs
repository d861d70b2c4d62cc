//! The end of an instance from outside, with any owner or none.

use perdure_engine::{Event, EventRecord, Payload, TerminationEvent};
use perdure_provider::{InstanceKey, Outcome, Status, Terminate};

use super::cross_instance::Told;
use super::{cross_instance, task_done};
use crate::tables::{Tables, of_instance};
use crate::{history, revocation};

pub(super) fn terminate(tables: &mut Tables, termination: &Terminate) -> Outcome {
    let Some(row) = tables.find(&termination.id) else {
        return Outcome::NotFound;
    };
    if row.status.is_terminal() {
        return Outcome::Ended { status: row.status };
    }
    let (key, owner, time_ms) = (row.key, row.owner.clone(), termination.time_ms);
    let reason = || termination.reason.clone();
    let event = Event::Termination(TerminationEvent::ExecutionTerminated { reason: reason() });
    let mut told = Told::default();
    end(tables, key, Status::Terminated, [event], reason(), time_ms, &mut told);
    cross_instance::cancel_children(tables, key, time_ms, &mut told);
    let Told { receivers, stopped, .. } = told;
    Outcome::Terminated {
        key,
        owner,
        receivers,
        stopped,
    }
}

/// Ends an instance that has not ended, with these events, the last of which says how. Its parent is told; its children
/// are left to the caller.
pub(super) fn end(
    tables: &mut Tables,
    key: InstanceKey,
    status: Status,
    events: impl IntoIterator<Item = Event>,
    result: Payload,
    time_ms: i64,
    told: &mut Told,
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
        row.status = status;
        row.next_event_id = next;
        row.unread = 0;
        row.report = None;
        row.unfit_code = None;
        row.updated_at_ms = time_ms;
        row.completed_at_ms = Some(time_ms);
    });
    revocation::note(tables, owner.as_ref(), key, epoch);
    tables.remove_messages(key);
    tables.heartbeats.remove_range(of_instance(key));
    if let Some(parent) = parent {
        let settlement = cross_instance::settlement(status, result);
        cross_instance::tell(tables, parent, settlement, &mut told.receivers);
    }
    told.ended = true;
    told.stopped.extend(task_done::withdraw_all(tables, key));
}
