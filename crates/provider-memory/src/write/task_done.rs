//! The end of an attempt that a worker ran for another worker's instance (P12).

use perdure_engine::{AttemptResult, Settlement};
use perdure_provider::{Outcome, TaskDone};

use super::mailbox;
use crate::activity_sessions;
use crate::rows::Parent;
use crate::tables::Tables;
use crate::tasks::place;

pub(super) fn done(tables: &mut Tables, done: &TaskDone) -> Outcome {
    let TaskDone {
        worker, task, result, ..
    } = done;
    let place = place(task);
    let row = tables.tasks.get(&place);
    if !row.is_some_and(|row| row.task == *task && row.worker.as_ref() == Some(worker)) {
        return Outcome::Fenced;
    }
    let of_session = row.and_then(|row| Some((row.queue.clone(), row.session.clone()?)));
    tables.tasks.remove(&place);
    if let Some(key) = of_session {
        activity_sessions::used(tables, &key);
    }
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
    mailbox::settle(tables, waiting, settlement, &mut receivers);
    Outcome::TaskDone { receivers }
}
