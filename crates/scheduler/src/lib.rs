//! Lanes and the processes that run on them; nothing here knows what an orchestration is.
//!
//! A *lane* is a set of job queues that one thread drains. A [*process*](Process) runs in steps and receives events
//! from any thread, by reference or by [id](Directory). Its [`Control`] ensures that it is in a queue at most once and
//! that no event is lost. A [`Drain`] ends all processes.
//!
//! Invariants:
//!
//! - **L1** A process is queued at most once, and is run by one thread at a time.
//! - **L2** An event while a process runs or is blocked makes the process ready again afterwards: no wake is lost.
//! - **L3** A lane is woken only when it was parked, once; a job pushed to a lane that is not parked is found by the
//!   drain in progress.
//! - **L4** A job is taken exactly once, by a lane that may run it.
//! - **L5** No job waits for long. A job for any lane never waits while a lane is parked. The jobs that a lane has
//!   taken for itself do not keep it from the shared jobs. New work is passed over by a limited number of other jobs.
//! - **L6** An event that a process keeps is taken once. A step that begins afterwards finds it, unless the process
//!   says that the event changes nothing.
//! - **L7** The waiter of a drain is told as soon as all is at rest, and not before.
//!
//! The protocols behind these invariants are model-checked ([loom](https://docs.rs/loom)), see `tests/models.rs`:
//! `RUSTFLAGS="--cfg loom" cargo test -p perdure-scheduler --release --test models`.

mod control;
mod deque;
mod directory;
mod drain;
mod lane;
mod lanes;
mod process;
mod sync;

pub use control::{Control, NextAction, State};
pub use directory::Directory;
pub use drain::Drain;
pub use lane::{Class, LaneId, LaneStats};
pub use lanes::{Lanes, Place};
pub use process::Process;
