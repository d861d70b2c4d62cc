//! Turns: from the job that begins a turn to the commit that ends it.
//!
//! This room owns turns in progress, the effects of a turn on other instances, and the work that follows once the turn
//! is durable. Replay and its check belong to the engine crate, batches to the committer.

mod committed;
pub(crate) mod cross_instance;
mod end;
mod failures;
pub(crate) mod in_progress;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the noun that the room is about"
)]
mod turn;

pub(crate) use end::end;
pub use turn::{Delivered, Issued};
pub(crate) use turn::{begin, finish, in_progress, interrupt, issue, next, suspend};
