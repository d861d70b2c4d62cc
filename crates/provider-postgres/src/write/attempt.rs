//! The fence of what a running attempt tells: its heartbeats, and its entries of streams.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, Reporter, WorkerId};

use crate::error::Failure;
use crate::params::P;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

/// An activity of an execution.
#[derive(Clone, Copy)]
pub(super) struct Activity {
    pub(super) key: P<'static>,
    pub(super) execution: P<'static>,
    pub(super) scheduled: P<'static>,
}

impl Activity {
    pub(super) fn of(key: InstanceKey, execution: ExecutionId, scheduled: EventId) -> Self {
        Self {
            key: P::Int(key.0),
            execution: P::Int(integer(execution.0)),
            scheduled: P::Int(integer(scheduled.0)),
        }
    }
}

/// The row of the instance is locked. Its owner cannot change before the end of the transaction.
const OWNED: &str = "SELECT 1 FROM {schema}.instances WHERE key = $key AND execution = $execution
AND (owner = $owner) IS TRUE AND epoch = $epoch";

/// A worker that is released or taken over gives its tasks back without a lock of their instances. So the task is
/// locked, too.
const RUN: &str = "SELECT 1 FROM {schema}.tasks
WHERE instance_key = $key AND execution = $execution AND event_id = $event AND attempt = $attempt
AND (owner = $owner) IS TRUE FOR SHARE";

/// Returns true if the worker runs the attempt of the activity, in this role, until the end of the transaction. The row
/// of the instance is locked.
pub(super) async fn is_run_by(
    session: &Session<'_>,
    activity: Activity,
    worker: &WorkerId,
    by: Reporter,
) -> Result<bool, Failure> {
    let Activity {
        key,
        execution,
        scheduled,
    } = activity;
    let owner = P::Text(&worker.0);
    let found = match by {
        Reporter::Owner(epoch) => {
            let epoch = P::Int(integer(epoch.0));
            named!(
                session.query_optional,
                OWNED,
                { key: key, execution: execution, owner: owner, epoch: epoch }
            )
            .await?
        }
        Reporter::Runner { attempt } => {
            let attempt = P::Int(attempt.into());
            named!(
                session.query_optional,
                RUN,
                { key: key, execution: execution, event: scheduled, owner: owner, attempt: attempt }
            )
            .await?
        }
    };
    Ok(found.is_some())
}
