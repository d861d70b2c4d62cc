//! Attempts that any worker may run (P12): they are offered and withdrawn with a turn.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{
    EntryKey, InstanceKey, ProviderError, QueueEntry, ROUTE_ANY, ROUTE_LINE, ROUTE_OPEN, TaskName, TaskOffer, WorkerId,
};

use crate::error::internal;
use crate::queues;
use crate::rows::TaskRow;
use crate::tables::Tables;
use crate::tasks::{self, place};

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
    let due_at_ms = offer.waits_from_ms(tables.now_ms);
    let place_key = enter_queue(tables, task, offer, due_at_ms);
    let route = match offer.session {
        _ if place_key.is_some() => ROUTE_LINE,
        None => ROUTE_ANY,
        Some(_) => ROUTE_OPEN,
    };
    let row = TaskRow {
        task,
        queue: offer.queue.clone(),
        name: offer.name.clone(),
        priority: offer.priority,
        due_at_ms,
        deadline_ms: offer.deadline_ms,
        start_within_ms: offer.start_within_ms,
        start_by_ms: offer.start_by_ms(tables.now_ms),
        worker: None,
        session: offer.session.clone(),
        route: route.to_owned(),
        place_key,
    };
    tables.tasks.insert(place(&task), row);
    Ok(())
}

/// Puts an attempt that has a key into its queue, if that is set (P27). Returns the key of its place.
fn enter_queue(tables: &mut Tables, task: TaskName, offer: &TaskOffer, due_at_ms: i64) -> Option<EntryKey> {
    let entry = QueueEntry {
        queue: offer.queue.clone(),
        key: offer.key.clone()?,
    };
    let is_set = tables.queues.contains(&entry.queue);
    is_set.then(|| queues::enter_attempt(tables, task, &entry, due_at_ms))
}

/// Deletes a task. Returns the worker that runs it, if there is one.
pub(super) fn withdraw(
    tables: &mut Tables,
    key: InstanceKey,
    execution: ExecutionId,
    scheduled: EventId,
) -> Option<WorkerId> {
    tasks::remove(tables, &(key, execution, scheduled))?.worker
}

/// Deletes all tasks of an instance. Returns the workers that run them.
pub(super) fn withdraw_all(tables: &mut Tables, key: InstanceKey) -> Vec<WorkerId> {
    let removed = tasks::remove_all(tables, key).into_iter();
    removed.filter_map(|row| row.worker).collect()
}
