//! Perdure's store in a SQLite file or in memory: `perdure_provider::Provider` over `rusqlite`.
//!
//! Owns the tables (`migrations/`), the connections with their settings and the threads that use them. It knows nothing
//! of orchestrations or of napi. The invariants P1 to P16 that comments cite are those of `perdure_provider`.
//!
//! - One thread writes. Whatever waits becomes one `BEGIN IMMEDIATE` transaction, and is answered when that is durable
//!   (`writer.rs`). One writer is all that SQLite allows, and it makes the order of messages (P5) and the fences (P2) plain.
//! - Two threads read, each on a connection of its own; a store in memory is read by the writer.
//! - Two processes may share a file. Locks are waited for here and never shown to users unless they last for seconds;
//!   the commits of the other process are noticed by `PRAGMA data_version`.
//! - All times that are compared are the store's clock's (P9).

mod acquire;
mod backup;
mod connection;
mod deletion;
mod error;
mod inbox;
mod inspection;
mod integrity;
mod job;
mod listeners;
mod listing;
mod options;
mod provider;
mod queue;
mod readers;
mod revocation;
mod rows;
mod schema;
mod session;
mod stats;
mod status;
mod suspicion;
mod tasks;
#[cfg(test)]
#[path = "../tests/common/directory.rs"]
mod testing;
mod texts;
mod threads;
mod worker;
mod write;
mod writer;

pub use options::{Durability, SqliteOptions};
pub use provider::{SqliteProvider, SqliteStats};
