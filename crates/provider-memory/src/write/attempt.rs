//! The fence of what a running attempt tells.

use perdure_provider::{Reporter, WorkerId};

use crate::tables::{EventKey, Tables};

/// Returns true if the worker runs the attempt of the activity, in this role.
pub(super) fn is_run_by(tables: &Tables, activity: &EventKey, worker: &WorkerId, by: Reporter) -> bool {
    match by {
        Reporter::Owner(epoch) => {
            let row = tables.instance(activity.0);
            row.is_some_and(|row| row.is_owned(worker, epoch) && row.execution == activity.1)
        }
        Reporter::Runner { attempt } => {
            let row = tables.tasks.get(activity);
            row.is_some_and(|row| row.task.attempt == attempt && row.worker.as_ref() == Some(worker))
        }
    }
}
