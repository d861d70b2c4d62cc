//! Perdure's store in a SQLite file or in memory: `perdure_provider::Provider` over `rusqlite`.
//!
//! Owns the tables (`migrations/`), the connections with their settings and the threads that use them. This crate knows
//! neither orchestrations nor napi. The invariants P1 to P29 that comments cite are those of `perdure_provider`.
//!
//! - One thread writes. All jobs that wait become one `BEGIN IMMEDIATE` transaction and are answered when it is durable
//!   (`writer.rs`). SQLite allows one writer only, and one writer makes the order of messages (P5) and the fences (P2)
//!   simple.
//! - Two threads read, each on a connection of its own. A store in memory is read by the writer.
//! - Two processes may share a file. The provider waits for locks, and users see a lock only if it lasts for seconds.
//!   Commits of the other process are noticed by `PRAGMA data_version`, which an idle writer reads when the log was
//!   written (`log_watch.rs`), and at intervals.
//! - Times are compared with the store's clock alone (P9).

mod acquire;
mod activity_sessions;
mod admission;
mod asks;
mod backup;
mod connection;
mod deletion;
mod error;
mod footprint;
mod history;
mod inbox;
mod inspection;
mod integrity;
mod job;
mod listeners;
mod listing;
mod locks;
mod log_watch;
mod logs;
mod open_work;
mod options;
mod overdue;
mod pragma;
mod provider;
mod queue;
mod queues;
mod readers;
mod registration;
mod revocation;
mod rows;
mod schema;
mod session;
mod state;
mod statement;
mod stats;
mod status;
mod streams;
mod suspicion;
mod takeovers;
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
