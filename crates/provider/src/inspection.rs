//! The facts that an operator asks of a store: how it is set up, and which workers use it.

use crate::WorkerLoad;

/// A store as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The time of the store's clock, ms since 1970.
    pub now_ms: i64,
    /// Version of the store's schema; 0 if the store has none.
    pub schema_version: u32,
    /// Size of the store on the disk with its indexes, bytes; 0 if it takes no space there.
    pub bytes: u64,
    /// Settings of the store, by their names in the store's own language (`synchronous`, `server_version`), in an order
    /// that reads well.
    pub settings: Vec<(&'static str, String)>,
    /// Every registered worker, in order of ids.
    pub workers: Vec<WorkerLoad>,
}
