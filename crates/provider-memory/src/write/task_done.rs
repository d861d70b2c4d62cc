//! Attempts that any worker may run. They are offered and withdrawn with a turn, and ended by the worker that ran them
//! (P12).

use perdure_engine::{AttemptResult, EventId, ExecutionId, Settlement};
use perdure_provider::{InstanceKey, Outcome, ProviderError, TaskDone, TaskName, TaskOffer, WorkerId};

use super::cross_instance::tell;
use crate::error::internal;
use crate::rows::{Parent, TaskRow};
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
    let row = TaskRow {
        task,
        queue: offer.queue.clone(),
        name: offer.name.clone(),
        priority: offer.priority,
        due_at_ms: offer.due_at_ms,
        deadline_ms: offer.deadline_ms,
        worker: None,
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

pub(super) fn done(tables: &mut Tables, done: &TaskDone) -> Outcome {
    let TaskDone {
        worker, task, result, ..
    } = done;
    let place = place(task);
    let row = tables.tasks.get(&place);
    if !row.is_some_and(|row| row.task == *task && row.worker.as_ref() == Some(worker)) {
        return Outcome::Fenced;
    }
    tables.tasks.remove(&place);
    if matches!(result, AttemptResult::Completed(_)) {
        tables.heartbeats.remove(&place);
    }
    let waiting = Parent {
        key: task.key,
        execution: task.execution,
        event: task.scheduled,
    };
    let settlement = Settlement::Attempted {
        attempt: task.attempt,
        result: result.clone(),
    };
    let mut receivers = Vec::new();
    tell(tables, waiting, settlement, &mut receivers);
    Outcome::Told { receivers }
}
