//! Perdure's store in memory, for tests: `perdure_provider::Provider` over maps, with all behaviour of a store and
//! nothing that depends on chance.
//!
//! Owns the tables, their indexes and the notifications to listeners. This crate knows neither orchestrations nor napi,
//! and no faults: a test that wants a store that fails, or answers late, puts another provider in front of it. The
//! invariants P1 to P29 that comments cite are those of `perdure_provider`.
//!
//! - A [`MemoryStore`] is the database, a [`MemoryProvider`] one process' handle on it. The writes of one handle are
//!   told to the others.
//! - A call takes effect whole and at the moment it is made (a batch with
//!   [`commit`](perdure_provider::Provider::commit), every other call when its future is first polled), and never
//!   waits.
//! - Answers to batches, and notifications of others' writes, come later and in order, from a task of the tokio runtime
//!   in which the handle was made: no thread, no clock but the store's own (P9), no randomness. On a runtime of one
//!   thread the same calls give the same store and the same order of answers.
//! - No size is limited: the store holds as much as fits into memory.

mod acquire;
mod activity_sessions;
mod admission;
mod asks;
mod callbacks;
mod change_notifier;
mod deletion;
mod error;
mod footprint;
mod history;
mod inbox;
mod indexes;
mod integrity;
mod listing;
mod logs;
mod open_work;
mod overdue;
mod provider;
mod queues;
mod revocation;
mod rows;
mod snapshot;
mod start_keys;
mod state;
mod stats;
mod status;
mod store;
mod streams;
mod suspicion;
mod table;
mod tables;
mod takeovers;
mod tasks;
mod texts;
mod worker;
mod write;

pub use provider::MemoryProvider;
pub use rows::{InstanceRow, Parent, QueuePlaceRow, SessionRow, TaskRow, WorkerRow};
pub use snapshot::{ExecutionRow, HeartbeatRow, MessageRow, Snapshot};
pub use store::{BeforeAnswers, MemoryStore};
