//! The termination of an instance, with any owner or none.

use perdure_engine::{Event, TerminationEvent};
use perdure_provider::{Affected, Outcome, Status, Terminate};

use super::cancel;
use super::end;
use crate::tables::Tables;

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
    let mut affected = Affected::default();
    end::end(
        tables,
        key,
        Status::Terminated,
        [event],
        reason(),
        time_ms,
        &mut affected,
    );
    cancel::cancel_children(tables, key, time_ms, &mut affected);
    affected.terminated(key, owner)
}
