//! What a worker tells of itself, with its heartbeats: a text in its row, which is JSON and which no store looks into.
//!
//! It is for people. Nothing in it changes while nothing happens, so that a worker without work has nothing to write.

use perdure_scheduler::LaneStats;
use serde::{Deserialize, Serialize};

use crate::options::{ABOUT_LANES_MAX, HOST_NAME_MAX};
use crate::shared::Shared;
use crate::worker::session::Session;

/// What a worker tells of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerAbout {
    /// What the machine is called; empty where that cannot be told.
    pub host_name: String,
    /// Version of Node.
    pub node_version: String,
    /// Version of Perdure.
    pub perdure_version: String,
    /// Threads that run user code besides the first.
    pub threads: u64,
    /// Activities that run at once, at most.
    pub activity_concurrency: u64,
    /// Those that do.
    pub running_activities: u64,
    /// Instances in memory: owned, or released with their generator kept.
    pub loaded_instances: u64,
    /// Of each thread, the first one first, up to [`ABOUT_LANES_MAX`] of them.
    pub lanes: Vec<LaneAbout>,
}

/// What it tells of one lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneAbout {
    /// Jobs that only this lane may run and that wait.
    pub pinned_jobs: u64,
    /// Jobs that it has taken for itself and others may steal.
    pub taken_jobs: u64,
    /// How often it stole from another lane.
    pub steals: u64,
    /// How often it was parked.
    pub parks: u64,
    /// How much of its time its thread has worked lately, 0 to 1.
    pub busy_share: f64,
}

impl WorkerAbout {
    /// What a runtime tells before it has any work.
    pub(crate) fn of_runtime(shared: &Shared) -> Self {
        let options = &shared.options;
        let lane = |(stats, busy_share): (LaneStats, f64)| LaneAbout {
            pinned_jobs: stats.pinned,
            taken_jobs: stats.taken,
            steals: stats.steals,
            parks: stats.parks,
            busy_share,
        };
        let lanes = shared.lanes.stats().into_iter().zip(shared.busy_shares());
        Self {
            host_name: shared.store.machine.name().chars().take(HOST_NAME_MAX).collect(),
            node_version: options.node_version.clone(),
            perdure_version: env!("CARGO_PKG_VERSION").to_owned(),
            threads: options.threads as u64,
            activity_concurrency: options.activity_concurrency as u64,
            running_activities: 0,
            loaded_instances: 0,
            lanes: lanes.take(ABOUT_LANES_MAX).map(lane).collect(),
        }
    }

    /// What it tells with a heartbeat.
    pub(crate) fn of_session(session: &Session) -> Self {
        Self {
            running_activities: session.activities.lock().running() as u64,
            loaded_instances: session.table.lock().loaded() as u64,
            ..Self::of_runtime(&session.shared)
        }
    }

    pub(crate) fn into_text(self) -> String {
        serde_json::to_string(&self).expect("numbers and texts are always JSON")
    }

    /// What a text of another worker says; `None`: it is of a version that says something else, or another program has changed it.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text takes at most, bytes: a store keeps it in one row.
    const BYTES_MAX: usize = 16 * 1024;

    #[test]
    fn what_is_told_is_read_again_and_never_large() {
        let lane = LaneAbout {
            pinned_jobs: u64::MAX,
            taken_jobs: u64::MAX,
            steals: u64::MAX,
            parks: u64::MAX,
            busy_share: 0.99,
        };
        let about = WorkerAbout {
            host_name: "\0".repeat(HOST_NAME_MAX),
            node_version: "20.20.2".into(),
            perdure_version: "0.1.0".into(),
            threads: u64::MAX,
            activity_concurrency: u64::MAX,
            running_activities: u64::MAX,
            loaded_instances: u64::MAX,
            lanes: vec![lane; ABOUT_LANES_MAX],
        };
        let text = about.clone().into_text();
        assert!(text.len() <= BYTES_MAX, "{}", text.len());
        assert_eq!(WorkerAbout::read(&text), Some(about));
    }

    #[test]
    fn what_is_no_such_text_tells_nothing() {
        for text in ["", "1", "{}", r#"{"hostName":1}"#, "[[["] {
            assert_eq!(WorkerAbout::read(text), None, "{text}");
        }
    }
}
