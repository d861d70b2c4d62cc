//! Operations of clients, and the store as one process uses it.
//!
//! This room owns starts, messages, suspensions, deletions, lists, histories and the waits for a status. It runs no
//! instance. A worker attaches itself to the store, which tells it through a trait about changes that concern it.

pub(crate) mod abandoning;
pub(crate) mod asking;
pub(crate) mod housekeeping;
pub(crate) mod keyed_start;
pub(crate) mod pending_wake;
pub(crate) mod queues;
pub(crate) mod reading;
pub(crate) mod recoding;
pub(crate) mod sending;
pub(crate) mod store;
pub(crate) mod streams;
pub(crate) mod suspension;
pub(crate) mod watch;
