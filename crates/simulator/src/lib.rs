//! The simulator: the real engine, runtime and scheduler under a virtual clock, with a store in memory, a host that runs random programs, and
//! everything going wrong that can.
//!
//! A seed makes a [plan](plan): programs, processes, what clients ask for and which faults come when. The [world](world) runs it on one
//! thread, where each choice is drawn from the same seed, so one seed gives one run, line by line. Meanwhile the [witness](witness) sees what
//! reaches the store and what begins outside, and at the end the [checker](checker) reads all that is left and compares it with what each
//! program is worth. What they look for are the invariants S1 to S28 and L1 to L8 that the violations name.
//!
//! What is not simulated: SQL, threads that truly run at once (the models of `perdure-scheduler` do that), and JavaScript.

mod backend;
mod checker;
mod cleanup;
mod client;
mod code;
mod differential;
mod fibers;
mod guards;
mod link;
mod liveness;
mod log;
mod machine;
mod outside;
mod plan;
mod process;
mod program;
mod run;
mod shrink;
mod witness;
mod world;

pub use outside::Place;
pub use run::{Report, Run, run};
pub use shrink::shrink;
pub use witness::Figures;
