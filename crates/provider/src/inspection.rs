//! What an operator asks a store: how it is set up, who works on it, and what nobody takes.

use crate::WorkerLoad;

/// A store as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// What its clock shows, ms since 1970.
    pub now_ms: i64,
    /// Version of its schema; 0 where it has none.
    pub schema_version: u32,
    /// What it takes on the disk with its indexes, bytes; 0 where it takes nothing.
    pub bytes: u64,
    /// How it is set up, by the names of the store's own language (`synchronous`, `server_version`), in an order that reads well.
    pub settings: Vec<(&'static str, String)>,
    /// Every registered worker, in order of ids.
    pub workers: Vec<WorkerLoad>,
    /// What is overdue, by orchestration and version: the longest due first, at most [`OVERDUE_SORTS_MAX`](crate::OVERDUE_SORTS_MAX) of them.
    pub overdue: Vec<Overdue>,
}

/// Instances of one version of one orchestration that have been due for longer than [`OVERDUE_MS`](crate::OVERDUE_MS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Name of the orchestration.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How many they are.
    pub instances: u64,
    /// Since when the longest due of them is, ms since 1970.
    pub since_ms: i64,
    /// Id of that one.
    pub id: String,
}
