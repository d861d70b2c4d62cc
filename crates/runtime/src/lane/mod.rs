//! Lanes as the runtime sees them: the jobs that a lane hands to its thread, and signs of life of that thread.
//!
//! This room owns the trait of the host, the definition of a job, and the end of a thread together with all that the
//! thread had. The queues of lanes and the stealing between them belong to the scheduler crate.

pub(crate) mod job;
pub(crate) mod log_record;
pub(crate) mod losing;
pub(crate) mod pulse;
