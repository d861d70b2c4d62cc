//! What an operator asks a store: how it is set up, and who works on it.

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
}
