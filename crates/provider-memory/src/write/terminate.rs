//! The end of an instance from outside, whoever owns it.

use perdure_engine::{Event, EventRecord};
use perdure_provider::{Outcome, Status, Terminate};

use super::{others, task};
use crate::tables::{Tables, of_instance};
use crate::{history, revocation};

pub(super) fn terminate(tables: &mut Tables, termination: &Terminate) -> Outcome {
    let Some(row) = tables.find(&termination.id) else {
        return Outcome::NotFound;
    };
    if row.status.is_terminal() {
        return Outcome::Ended { status: row.status };
    }
    let (key, epoch, owner, parent) = (row.key, row.epoch, row.owner.clone(), row.parent);
    let (execution, event_id) = (row.execution, row.next_event_id);
    let reason = || termination.reason.clone();
    let event = Event::ExecutionTerminated { reason: reason() };
    let event = EventRecord::new(event_id, termination.time_ms, event);
    history::append(tables, key, execution, &event);
    // The owner is cleared (P7) and the next event id moves on: what the former owner still sends is fenced off twice.
    tables.edit(key, |row| {
        row.disown(None);
        row.status = Status::Terminated;
        row.next_event_id = row.next_event_id.next();
        row.unread = 0;
        row.report = None;
        row.unfit_code = None;
        row.updated_at_ms = termination.time_ms;
        row.completed_at_ms = Some(termination.time_ms);
    });
    revocation::note(tables, owner.as_ref(), key, epoch);
    tables.remove_messages(key);
    tables.heartbeats.remove_range(of_instance(key));
    let mut receivers = Vec::new();
    if let Some(parent) = parent {
        let settlement = others::settlement(Status::Terminated, reason());
        others::tell(tables, parent, settlement, &mut receivers);
    }
    others::cancel_children(tables, key, &mut receivers);
    Outcome::Terminated {
        key,
        owner,
        receivers,
        stopped: task::withdraw_all(tables, key),
    }
}
