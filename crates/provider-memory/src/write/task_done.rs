//! The end of an attempt that a worker ran for another worker's instance (P12).

use perdure_engine::{AttemptResult, Settlement};
use perdure_provider::{Outcome, TaskDone};

use super::mailbox;
use crate::activity_sessions;
use crate::rows::{Parent, TaskRow};
use crate::tables::Tables;
use crate::tasks::{self, place};

pub(super) fn done(tables: &mut Tables, done: &TaskDone) -> Outcome {
    let TaskDone {
        worker, task, result, ..
    } = done;
    let place = place(task);
    let is_own = |row: &TaskRow| row.task == *task && row.worker.as_ref() == Some(worker);
    if !tables.tasks.get(&place).is_some_and(is_own) {
        return Outcome::Fenced;
    }
    let row = tasks::remove(tables, &place).expect("it was just found");
    if let Some(session) = row.session {
        activity_sessions::used(tables, &(row.queue, session));
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
    Outcome::TaskDone {
        receivers,
        freed: row.place_key.is_some(),
    }
}
