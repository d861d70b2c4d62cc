//! Lanes and the processes that run on them; nothing here knows what an orchestration is.
//!
//! A *lane* is what one thread drains. A [*process*](Process) is a thing that is run in steps and is sent events from anywhere, by
//! reference or by [id](Directory); its [`Control`] makes sure that it is in a queue at most once and that no event is lost.
//! A [`Drain`] is how all of that ends.
//!
//! Invariants:
//!
//! - **L1** A process is queued at most once, and is run by one thread at a time.
//! - **L2** What happens while a process runs or is blocked makes it ready again afterwards: no wake is lost.
//! - **L3** A lane is woken only when it was parked, once; a job pushed to a lane that is not parked is found by the drain in progress.
//! - **L4** A job is taken exactly once, by a lane that may run it.
//! - **L5** No job waits for long: one for any lane never waits while a lane is parked, what a lane has taken for itself does not keep it
//!   from what waits for all, and new work is passed over by so many others at most.
//! - **L6** An event that a process keeps is taken once. A step that begins afterwards finds it, unless the process says that it makes
//!   nothing of it.
//! - **L7** Whoever waits for a drain is told as soon as all is at rest, and not before.
//!
//! The protocols that this rests on are model-checked ([loom](https://docs.rs/loom)), see `tests/models.rs`:
//! `RUSTFLAGS="--cfg loom" cargo test -p perdure-scheduler --release --test models`.

mod control;
mod deque;
mod directory;
mod drain;
mod lane;
mod lanes;
mod process;
mod sync;

pub use control::{Control, State, Then};
pub use directory::Directory;
pub use drain::Drain;
pub use lane::{Class, LaneId, LaneStats};
pub use lanes::{Lanes, Place};
pub use process::Process;
