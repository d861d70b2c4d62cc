//! Details of a heartbeat. They are kept until a turn says that the activity is over, or the instance is terminated.

use perdure_provider::{Heartbeat, Outcome, Reporter};

use crate::rows::KeptHeartbeat;
use crate::tables::Tables;

pub(super) fn keep(tables: &mut Tables, heartbeat: &Heartbeat) -> Outcome {
    let Heartbeat {
        key,
        worker,
        execution,
        scheduled,
        ..
    } = heartbeat;
    let activity = (*key, *execution, *scheduled);
    let is_its_own = match heartbeat.by {
        Reporter::Owner(epoch) => {
            let row = tables.instance(*key);
            row.is_some_and(|row| row.is_owned(worker, epoch) && row.execution == *execution)
        }
        Reporter::Runner { attempt } => {
            let row = tables.tasks.get(&activity);
            row.is_some_and(|row| row.task.attempt == attempt && row.worker.as_ref() == Some(worker))
        }
    };
    if !is_its_own {
        return Outcome::Fenced;
    }
    match &heartbeat.details {
        Some(details) => {
            let (details, time_ms) = (details.clone(), heartbeat.time_ms);
            tables.heartbeats.insert(activity, KeptHeartbeat { details, time_ms });
        }
        None => {
            tables.heartbeats.remove(&activity);
        }
    }
    Outcome::Noted
}
