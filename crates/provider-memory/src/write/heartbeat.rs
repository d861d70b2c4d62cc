//! Details of a heartbeat. They are kept until a turn says that the activity is over, or the instance is terminated.

use perdure_provider::{Heartbeat, Outcome};

use super::attempt;
use crate::rows::KeptHeartbeat;
use crate::tables::Tables;

pub(super) fn keep(tables: &mut Tables, heartbeat: &Heartbeat) -> Outcome {
    let activity = (heartbeat.key, heartbeat.execution, heartbeat.scheduled);
    if !attempt::is_run_by(tables, &activity, &heartbeat.worker, heartbeat.by) {
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
