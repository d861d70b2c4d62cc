//! The suspension of an instance from outside, with any owner or none.

use perdure_provider::{Epoch, Outcome, Status, Suspend};

use crate::tables::Tables;
use crate::{queues, revocation};

pub(super) fn suspend(tables: &mut Tables, suspension: &Suspend) -> Outcome {
    let Some(row) = tables.find(&suspension.id) else {
        return Outcome::NotFound;
    };
    let status = row.status;
    if status.is_terminal() {
        return Outcome::Ended { status };
    }
    let (key, epoch, owner) = (row.key, row.epoch, row.owner.clone());
    if status != Status::Suspended {
        // The owner is cleared (P7): no commit of the owner matches any more, and the epoch goes on from where it was.
        tables.edit(key, |row| {
            row.start_at_ms = row.wake_at_ms.filter(|_| epoch == Epoch(0));
            row.disown(None);
            row.status = Status::Suspended;
            row.report = Some(suspension.report.clone());
            row.updated_at_ms = suspension.time_ms;
        });
        queues::suspend(tables, key);
        revocation::note(tables, owner.as_ref(), key, epoch);
    }
    Outcome::Suspended { key, epoch, owner }
}
