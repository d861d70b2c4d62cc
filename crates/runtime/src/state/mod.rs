//! The state of one instance and of one attempt in memory.
//!
//! This room is data: it knows no worker, no lane and no task. Rooms above it decide what happens to the data.

pub(crate) mod alarm;
pub(crate) mod attempt;
pub(crate) mod backlog;
pub(crate) mod heartbeats;
pub(crate) mod instance;
pub(crate) mod page_ahead;
pub(crate) mod pending_start;
pub(crate) mod remote_activities;
pub(crate) mod turn_lines;

pub use instance::Token;
pub(crate) use instance::{Core, Instance, NO_KEY, TurnNeed};
