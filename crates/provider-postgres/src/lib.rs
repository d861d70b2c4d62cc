//! Perdure's store in a schema of a Postgres database: `perdure_provider::Provider` over `tokio-postgres`.
//!
//! This crate owns the tables (`migrations/`), the connections and the statements on them. It knows nothing of
//! orchestrations or of napi. The invariants P1 to P18 that comments cite are those of `perdure_provider`.
//!
//! - One task writes. All batches that wait become one transaction, and are answered when that is durable
//!   (`writer.rs`). Its statements take arrays and are sent together (`write/`). Other processes write at the same
//!   time, so rows are locked in one order (`write/lock.rs`). The outcome of a transaction whose answer was lost is
//!   told by its mark (`session.rs`, `marks.rs`).
//! - Each other operation takes a connection of the pool for as long as it lasts.
//! - All connections lead to one server, the first of the URL's hosts that takes writes (`hosts.rs`).
//! - Changes by other processes are heard on a separate connection, and looked for once a second
//!   (`change_notifier.rs`).
//! - All times that are compared are those of the server's clock (P9).
//! - The provider has a thread of its own, on which all of this runs and each answer is given. A batch that finds no
//!   other batch before it is sent by the thread that hands it over (`drive.rs`). The thread that waits for the answer
//!   is woken before the answer is read (`early_wake.rs`).

mod acquire;
mod activity_sessions;
mod addresses;
mod admission;
mod asks;
mod auth;
mod auth_stream;
mod change_notifier;
mod connection;
mod deletion;
mod drive;
mod due;
mod early_wake;
mod error;
mod executions;
mod footprint;
mod history;
mod hosts;
mod inbox;
mod index_builds;
mod inspection;
mod integrity;
mod lineage;
mod listing;
mod load;
mod logs;
mod marks;
mod notify_pace;
mod open_work;
mod opening;
mod options;
mod overdue;
mod params;
mod pooler;
mod provider;
mod query;
mod queues;
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
mod text;
mod texts;
mod time;
mod tls;
mod url;
mod worker;
mod write;
mod writer;

pub use options::{DEFAULT_POOL_SIZE, DEFAULT_SCHEMA, PasswordSource, Pooler, PostgresOptions, Tls, TlsMode};
pub use provider::PostgresProvider;
pub use url::location_of;
