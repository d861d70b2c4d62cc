//! The runtime: workers, committer, timers, leases, activity attempts and client operations around the pure engine.
//!
//! The runtime knows nothing of napi or SQL. A [`Host`] runs user code: it drains a lane on a thread of its own. The
//! host asks for a [`Job`], drives the job by synchronous calls, and never blocks a thread of this crate. Comments cite
//! the invariants of ARCHITECTURE.md by number.

mod activity;
mod client;
mod commit;
mod error;
mod instance;
#[doc(hidden)]
pub mod internals;
mod lane;
mod log;
mod metrics;
mod options;
mod platform;
mod poison;
mod registry;
mod report;
mod runtime;
mod session;
mod shared;
mod state;
mod turn;
mod worker;

pub use activity::stream_appends::Appended;
pub use client::asking::AskRequest;
pub use client::keyed_start::{KeyedAnswer, KeyedStartRequest};
pub use client::reading::{ExecutionsPage, ExecutionsQuery, HistoryPage, HistoryRequest};
pub use client::store::{Reply, StartRequest, Store};
pub use client::streams::StreamPlace;
pub use client::watch::{Awaiting, WaitId};
pub use commit::committer::CommitStats;
pub use error::RuntimeError;
pub use lane::job::{ActivityJob, Host, Job};
pub use log::{Level, LineFields, LogRecord};
pub use metrics::outcomes::OutcomeCount;
pub use metrics::{BUCKETS_US, Durations, Metrics};
pub use options::{KeepLogs, RuntimeOptions};
pub use perdure_scheduler::{LaneId, LaneStats};
pub use platform::machine::{Machine, Process, ThisMachine};
pub use platform::virtual_time::VirtualTime;
pub use report::{mismatch_error, mismatch_report};
pub use runtime::{Facts, Failure, MapSizes, Runtime};
pub use session::description::{LaneDescription, RegisteredNames, RegisteredOrchestration, WorkerDescription};
pub use state::Token;
pub use state::attempt::{AbortReason, ActivityToken};
pub use turn::{Delivered, Issued};
