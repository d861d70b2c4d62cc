//! Operations of clients, and the store as one process uses it.
//!
//! This room owns starts, messages, holds, deletions, lists, histories and the waits for a status. It runs no instance: a worker that
//! attaches itself to the store is told what concerns it, through a trait.

pub(crate) mod holding;
pub(crate) mod housekeeping;
pub(crate) mod reading;
pub(crate) mod recoding;
pub(crate) mod store;
pub(crate) mod watch;
