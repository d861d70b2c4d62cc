//! Lanes and the processes that run on them; nothing here knows what an orchestration is.
//!
//! A *lane* is what one thread drains. A *process* is a thing that is run in steps and is notified from anywhere;
//! its [`Process`] state makes sure that it is in a queue at most once and that no notification is lost.
//!
//! Invariants:
//!
//! - **L1** A process is queued at most once, and is run by one thread at a time.
//! - **L2** A notification that comes while a process runs or is blocked makes it ready again afterwards: no wake is lost.
//! - **L3** A lane is woken only when it was parked, once; a job pushed to a lane that is not parked is found by the drain in progress.
//! - **L4** A job is taken exactly once, by a lane that may run it.
//! - **L5** No job waits for long: one for any lane never waits while a lane is parked, what a lane has taken for itself does not keep it
//!   from what waits for all, and new work is passed over by so many others at most.
//!
//! The protocols that this rests on are model-checked ([loom](https://docs.rs/loom)), see `tests/models.rs`:
//! `RUSTFLAGS="--cfg loom" cargo test -p perdure-scheduler --release --test models`.

mod deque;
mod lane;
mod lanes;
mod process;
mod sync;

pub use lane::{Class, LaneId, LaneStats};
pub use lanes::{Lanes, Place};
pub use process::{Process, State};
