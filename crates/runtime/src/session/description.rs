//! The report of a worker about itself. The worker writes it with its heartbeats as JSON text in its row; no store
//! reads the text.
//!
//! The report is for people. Nothing in it changes while nothing happens, so a worker without work has nothing to
//! write.

use perdure_provider::Queues;
use perdure_scheduler::LaneStats;
use serde::{Deserialize, Serialize};

use crate::instance::instances::Instances;
use crate::options::{DESCRIBED_LANES_MAX, DESCRIBED_NAME_EXTRA, DESCRIBED_NAMES_BYTES, HOST_NAME_MAX};
use crate::registry::Registry;
use crate::shared::Shared;

/// The report of a worker about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerDescription {
    /// The name of the machine; empty if the machine does not tell it.
    pub host_name: String,
    /// Version of Node.
    pub node_version: String,
    /// Version of Perdure.
    pub perdure_version: String,
    /// The number of threads that run user code besides the first.
    pub threads: u64,
    /// The greatest number of activities that run at once.
    pub activity_concurrency: u64,
    /// The greatest number of instances that the worker works on at once.
    pub orchestration_concurrency: u64,
    /// The number of activities that run.
    pub running_activities: u64,
    /// The number of instances in memory: owned, or released with their generator kept.
    pub loaded_instances: u64,
    /// One entry per thread, the first thread first, up to [`DESCRIBED_LANES_MAX`] of them.
    pub lanes: Vec<LaneDescription>,
    /// The work that the worker can run. `None`: its version does not report this.
    #[serde(default)]
    pub registered: Option<RegisteredNames>,
}

/// The part of the report about the work that a worker can run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredNames {
    /// The orchestrations, by name.
    pub orchestrations: Vec<RegisteredOrchestration>,
    /// Names of the activities, in order.
    pub activities: Vec<String>,
    /// The queues whose activities the worker runs.
    pub queues: Vec<String>,
    /// True if the worker runs the activities of every queue. Then no queue is named.
    #[serde(default)]
    pub any_queue: bool,
    /// True if names are left out, because they take more than 32 KiB together.
    pub is_cut: bool,
}

/// A registered orchestration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegisteredOrchestration {
    /// Its name.
    pub name: String,
    /// Its versions, the highest last.
    pub versions: Vec<String>,
}

/// The part of the report about one lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneDescription {
    /// Jobs that wait and that only this lane may run.
    pub pinned_jobs: u64,
    /// Jobs that this lane has taken for itself and other lanes may steal.
    pub taken_jobs: u64,
    /// The number of times that this lane stole from another lane.
    pub steals: u64,
    /// The number of times that this lane was parked.
    pub parks: u64,
    /// The share of its time that the lane's thread has worked recently, 0 to 1.
    pub busy_share: f64,
}

impl WorkerDescription {
    /// Returns the report of a runtime that has no work yet.
    pub(crate) fn of_runtime(shared: &Shared) -> Self {
        let options = &shared.options;
        let lane = |(stats, busy_share): (LaneStats, f64)| LaneDescription {
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
            orchestration_concurrency: options.orchestration_concurrency as u64,
            running_activities: 0,
            loaded_instances: 0,
            lanes: lanes.take(DESCRIBED_LANES_MAX).map(lane).collect(),
            registered: Some(RegisteredNames::of(&shared.registry.lock(), &options.queues)),
        }
    }

    /// Returns the report that a session writes with a heartbeat.
    pub(crate) fn of_session(instances: &Instances) -> Self {
        Self {
            running_activities: instances.activities.attempts.lock().running() as u64,
            loaded_instances: instances.table.lock().loaded() as u64,
            ..Self::of_runtime(&instances.shared)
        }
    }

    pub(crate) fn into_text(self) -> String {
        serde_json::to_string(&self).expect("numbers and texts are always JSON")
    }

    /// Reads the report of another worker. `None`: its version writes another report, or another program has changed
    /// the text.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl RegisteredNames {
    fn of(registry: &Registry, queues: &Queues) -> Self {
        let mut names = Self::default();
        let mut room = DESCRIBED_NAMES_BYTES;
        let mut is_cut = false;
        // Once a name has no room, no further name has any.
        let mut admit = |name: &str| {
            room = room.saturating_sub(quoted_length(name) + DESCRIBED_NAME_EXTRA);
            is_cut |= room == 0;
            room > 0
        };
        match queues {
            Queues::Any => names.any_queue = true,
            Queues::Named(queues) => names.queues = queues.iter().filter(|queue| admit(queue)).cloned().collect(),
        }
        for (name, version) in registry.all() {
            if !admit(&name) || !admit(&version) {
                break;
            }
            match names.orchestrations.last_mut() {
                Some(last) if last.name == name => last.versions.push(version),
                _ => names.orchestrations.push(RegisteredOrchestration {
                    name,
                    versions: vec![version],
                }),
            }
        }
        names.activities = registry.activities().into_iter().filter(|name| admit(name)).collect();
        names.is_cut = is_cut;
        names
    }
}

/// Returns the length of a text in JSON, bytes.
fn quoted_length(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX, |quoted| quoted.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest length of a report, bytes: a store keeps it in one row.
    const BYTES_MAX: usize = 16 * 1024 + DESCRIBED_NAMES_BYTES;

    #[test]
    fn names_beyond_the_limit_are_cut() {
        let mut registry = Registry::default();
        for n in 0..1_000 {
            registry.add(crate::registry::Registered {
                name: format!("{n:\0>60}"),
                version: "1.0.0".into(),
                code: String::new(),
            });
            registry.add_activity(format!("activity {n}"));
        }
        let names = RegisteredNames::of(&registry, &Queues::Named(vec!["default".to_owned()]));
        assert!(names.is_cut && names.activities.is_empty() && names.queues == ["default"]);
        assert!(names.orchestrations.len() > 50);
        let text = serde_json::to_string(&names).expect("names are JSON");
        assert!(text.len() <= DESCRIBED_NAMES_BYTES, "{}", text.len());
    }

    #[test]
    fn a_description_round_trips_and_is_never_large() {
        let lane = LaneDescription {
            pinned_jobs: u64::MAX,
            taken_jobs: u64::MAX,
            steals: u64::MAX,
            parks: u64::MAX,
            busy_share: 0.99,
        };
        let description = WorkerDescription {
            host_name: "\0".repeat(HOST_NAME_MAX),
            node_version: "20.20.2".into(),
            perdure_version: "0.1.0".into(),
            threads: u64::MAX,
            activity_concurrency: u64::MAX,
            orchestration_concurrency: u64::MAX,
            running_activities: u64::MAX,
            loaded_instances: u64::MAX,
            lanes: vec![lane; DESCRIBED_LANES_MAX],
            registered: None,
        };
        let text = description.clone().into_text();
        assert!(text.len() <= BYTES_MAX, "{}", text.len());
        assert_eq!(WorkerDescription::read(&text), Some(description));
    }

    #[test]
    fn another_text_is_no_description() {
        for text in ["", "1", "{}", r#"{"hostName":1}"#, "[[["] {
            assert_eq!(WorkerDescription::read(text), None, "{text}");
        }
    }
}
