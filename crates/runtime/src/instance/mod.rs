//! Instances in memory: their state, the table in which they are found, and their way into memory and out of it.
//!
//! This room owns loading from the store, the backlog of messages, the cache of generators, and the instance as a
//! process of the scheduler. It runs no turn and commits nothing.

pub(crate) mod backlog;
pub(crate) mod cache;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the noun that the room is about"
)]
mod instance;
pub(crate) mod loading;
pub(crate) mod page_ahead;
pub(crate) mod process;
pub(crate) mod table;

pub use instance::Token;
pub(crate) use instance::{Core, Instance, NO_KEY, Needs};
