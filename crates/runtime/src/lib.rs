//! The runtime: workers, committer, timers, leases, activity attempts and client operations around the pure engine.
//!
//! It knows nothing of napi or SQL. User code is run by a [`Host`] that drains a lane on a thread of its own: it asks for a [`Job`], drives it
//! by synchronous calls, and never blocks a thread of this crate. The invariants of ARCHITECTURE.md are cited here by number.

mod activity;
mod client;
mod commit;
mod error;
mod instance;
mod lane;
mod metrics;
mod options;
mod platform;
mod poison;
mod registry;
mod runtime;
mod shared;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod turn;
mod worker;

pub use activity::attempt::{AbortReason, ActivityToken};
pub use client::reading::{HistoryPage, HistoryRequest};
pub use client::store::{Conflict, Reply, StartRequest, Store};
pub use client::watch::{Awaiting, WaitId};
pub use commit::committer::CommitStats;
pub use error::RuntimeError;
pub use instance::Token;
pub use lane::job::{ActivityJob, Host, Job};
pub use lane::log_record::{Level, LogRecord};
pub use metrics::{BUCKETS_US, Durations, Metrics};
pub use options::RuntimeOptions;
pub use perdure_scheduler::{LaneId, LaneStats};
pub use platform::machine::{Machine, Process, ThisMachine};
pub use platform::virtual_time::VirtualTime;
pub use poison::report::{mismatch_error, shown as mismatch_report};
pub use runtime::{Facts, Failure, MapSizes, Runtime};
pub use turn::{Delivered, Issued, Next};
pub use worker::about::{LaneAbout, WorkerAbout};
