//! Perdure's store in memory, for tests: `perdure_provider::Provider` over maps, with everything a store does and nothing that depends on
//! chance.
//!
//! Owns the tables, their indexes and what goes out to those who listen. It knows nothing of orchestrations or of napi, and nothing of
//! faults: whoever wants a store that fails, or answers late, puts something in front of it. The invariants P1 to P16 that comments cite
//! are those of `perdure_provider`.
//!
//! - A [`MemoryStore`] is the database, a [`MemoryProvider`] one process' handle on it. What one handle writes the others hear of.
//! - A call takes effect whole and at the moment it is made (a batch with [`commit`](perdure_provider::Provider::commit), everything else
//!   when its future is first polled), and never waits for anything.
//! - Answers to batches, and what is heard of others' writes, come later and in order, from a task of the tokio runtime in which the handle
//!   was made: no thread, no clock but the store's own (P9), no randomness. On a runtime of one thread the same calls give the same store
//!   and the same order of answers.
//! - Nothing here is limited in size: it holds what fits into memory.

mod acquire;
mod deletion;
mod error;
mod history;
mod inbox;
mod indexes;
mod integrity;
mod listing;
mod outgoing;
mod provider;
mod revocation;
mod rows;
mod snapshot;
mod stats;
mod status;
mod store;
mod suspicion;
mod table;
mod tables;
mod tasks;
mod texts;
mod wake;
mod worker;
mod write;

pub use provider::MemoryProvider;
pub use rows::{InstanceRow, Parent, TaskRow, WorkerRow};
pub use snapshot::{ExecutionRow, HeartbeatRow, MessageRow, Snapshot};
pub use store::{BeforeAnswers, MemoryStore};
