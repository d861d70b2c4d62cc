//! The simulator: the real engine, runtime and scheduler under a virtual clock, with a store in memory, a host that
//! runs random programs, and every kind of fault.
//!
//! A seed makes a [plan](plan): programs, processes, the requests of clients, and the times of the faults. The
//! [world](world) runs it on one thread, where each choice is drawn from the same seed, so one seed gives one run, line
//! by line. Meanwhile the [witness](witness) sees all writes that reach the store and all attempts that begin outside.
//! At the end the [checker](checker) reads all that is left and compares it with the value of each program. They check
//! the invariants S1 to S34 and L1 to L8 that the violations name, and P15, P24 and P25 of the providers.
//!
//! Not simulated: SQL, threads that truly run at once (the models of `perdure-scheduler` do that), and JavaScript.

mod backend;
mod checker;
mod cleanup;
mod code;
mod differential;
mod entries;
mod fibers;
mod guards;
mod link;
mod log;
mod machine;
mod outside;
mod plan;
mod process;
mod program;
mod queues;
mod requests;
mod run;
mod shrink;
mod terms;
mod witness;
mod world;

pub use outside::Place;
pub use run::{Report, Run, run};
pub use shrink::shrink;
pub use witness::Figures;
