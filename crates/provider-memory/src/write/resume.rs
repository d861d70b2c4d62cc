//! Resumption of suspended instances: one by its id, or those that other code did not fit.

use perdure_engine::ExecutionId;
use perdure_provider::{InstanceKey, Mismatched, Outcome, ResumeMismatched, Status, Suspicion};

use crate::queues;
use crate::tables::Tables;

pub(super) fn resume(tables: &mut Tables, id: &str, time_ms: i64) -> Outcome {
    let Some(row) = tables.find(id) else {
        return Outcome::NotFound;
    };
    if row.status != Status::Suspended {
        return Outcome::NotSuspended { status: row.status };
    }
    let key = row.key;
    go_on(tables, key, time_ms);
    Outcome::Resumed
}

/// Resumes instances in order of code and key. Instances that are suspended with the request's own code are stepped
/// over.
pub(crate) fn resume_mismatched(tables: &mut Tables, request: &ResumeMismatched) -> Vec<Mismatched> {
    let of_it = tables
        .instances()
        .filter(|row| row.name == request.name && row.version == request.version);
    let mismatched = of_it.filter_map(|row| {
        let code = row.mismatched_code.clone()?;
        Some(Mismatched { code, key: row.key })
    });
    let mut resumed: Vec<Mismatched> = mismatched
        .filter(|mismatched| {
            mismatched.code != request.code && request.after.as_ref().is_none_or(|after| mismatched > after)
        })
        .collect();
    resumed.sort_unstable();
    resumed.truncate(request.limit);
    for mismatched in &resumed {
        go_on(tables, mismatched.key, request.time_ms);
    }
    resumed
}

/// Makes a suspended instance due now or at its start time, or puts it into the line of its queue again. An instance
/// that never had a turn is as it was when it was started.
fn go_on(tables: &mut Tables, key: InstanceKey, time_ms: i64) {
    let now_ms = tables.now_ms;
    let waits = queues::resume(tables, key);
    tables.edit(key, |row| {
        row.status = if row.turns == 0 && row.execution == ExecutionId::FIRST {
            Status::Pending
        } else {
            Status::Running
        };
        let start_at_ms = row.start_at_ms.take();
        row.wake_at_ms = (!waits).then(|| start_at_ms.map_or(now_ms, |at_ms| at_ms.max(now_ms)));
        row.report = None;
        row.mismatched_code = None;
        row.suspicion = Suspicion::default();
        row.updated_at_ms = time_ms;
    });
}
