//! Lanes and the processes that run on them; nothing here knows what an orchestration is.
//!
//! A *lane* is a queue that one thread drains. A *process* is a thing that is run in steps and is notified from anywhere;
//! its [`Process`] state makes sure that it is in a queue at most once and that no notification is lost.
//!
//! Invariants:
//!
//! - **L1** A process is queued at most once, and is run by one thread at a time.
//! - **L2** A notification that comes while a process runs or is blocked makes it ready again afterwards: no wake is lost.
//! - **L3** A lane is woken only when it was parked, once; a job pushed to a lane that is not parked is found by the drain in progress.

mod lane;
mod process;

pub use lane::{Class, Lane};
pub use process::{Process, State};
