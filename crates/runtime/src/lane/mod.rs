//! Lanes as the runtime sees them: the jobs that a lane hands to its thread, and signs of life of that thread.
//!
//! This room owns the trait of the host, the definition of a job, and the instance as a process of the scheduler. The
//! queues of lanes and the stealing between them belong to the scheduler crate.

pub(crate) mod job;
pub(crate) mod process;
pub(crate) mod pulse;
