//! Instances that keep a thread from its work, and threads that are held up or lost.
//!
//! This room collects the evidence against an instance that holds up or ends its thread, releases what that thread
//! does not come to, and resumes suspended instances when other code is registered. Suspending an instance on request
//! belongs to clients, probations belong to the room of instances.

pub(crate) mod mismatched;
pub(crate) mod release;
pub(crate) mod thread_loss;
pub(crate) mod watchdog;
