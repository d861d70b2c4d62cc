//! The fence of what a running attempt tells.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, Reporter, WorkerId};
use rusqlite::params;

use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;

/// An activity: the event of an execution that scheduled it.
pub(super) type Activity = (InstanceKey, ExecutionId, EventId);

/// Returns true if the worker runs the attempt of the activity, in this role.
pub(super) fn is_run_by(
    session: &Session<'_>,
    (key, execution, scheduled): Activity,
    worker: &WorkerId,
    by: Reporter,
) -> Result<bool, Failure> {
    let (execution, worker) = (integer(execution.0), &*worker.0);
    let found = match by {
        Reporter::Owner(epoch) => session.query_optional(
            "SELECT 1 FROM instances WHERE key = ?1 AND owner = ?2 AND epoch = ?3 AND execution = ?4",
            params![key.0, worker, integer(epoch.0), execution],
            |_| Ok(()),
        ),
        Reporter::Runner { attempt } => session.query_optional(
            "SELECT 1 FROM tasks WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3 AND attempt = ?4
             AND owner = ?5",
            params![key.0, execution, integer(scheduled.0), attempt, worker],
            |_| Ok(()),
        ),
    };
    Ok(found?.is_some())
}
