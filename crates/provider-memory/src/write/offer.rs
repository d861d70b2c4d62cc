//! Attempts that any worker may run (P12): they are offered and withdrawn with a turn.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, ProviderError, ROUTE_ANY, ROUTE_OPEN, TaskName, TaskOffer, WorkerId};

use crate::error::internal;
use crate::rows::TaskRow;
use crate::tables::{Tables, of_instance};
use crate::tasks::place;

pub(super) fn offer(
    tables: &mut Tables,
    key: InstanceKey,
    execution: ExecutionId,
    offer: &TaskOffer,
) -> Result<(), ProviderError> {
    let task = TaskName {
        key,
        execution,
        scheduled: offer.scheduled,
        attempt: offer.attempt,
    };
    if tables.tasks.contains(&place(&task)) {
        return Err(internal(format_args!("{task:?} is offered while another attempt is")));
    }
    // A wait for the worker of the session counts from now on.
    let (route, due_at_ms) = match offer.session {
        None => (ROUTE_ANY, offer.due_at_ms),
        Some(_) => (ROUTE_OPEN, offer.due_at_ms.max(tables.now_ms)),
    };
    let row = TaskRow {
        task,
        queue: offer.queue.clone(),
        name: offer.name.clone(),
        priority: offer.priority,
        due_at_ms,
        deadline_ms: offer.deadline_ms,
        worker: None,
        session: offer.session.clone(),
        route: route.to_owned(),
    };
    tables.tasks.insert(place(&task), row);
    Ok(())
}

/// Deletes a task. Returns the worker that runs it, if there is one.
pub(super) fn withdraw(
    tables: &mut Tables,
    key: InstanceKey,
    execution: ExecutionId,
    scheduled: EventId,
) -> Option<WorkerId> {
    let place = (key, execution, scheduled);
    let worker = tables.tasks.get(&place)?.worker.clone();
    tables.tasks.remove(&place);
    worker
}

/// Deletes all tasks of an instance. Returns the workers that run them.
pub(super) fn withdraw_all(tables: &mut Tables, key: InstanceKey) -> Vec<WorkerId> {
    let rows = tables.tasks.range(of_instance(key));
    let workers = rows.filter_map(|(_, row)| row.worker.clone()).collect();
    tables.tasks.remove_range(of_instance(key));
    workers
}
