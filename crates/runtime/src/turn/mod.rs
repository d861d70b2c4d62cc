//! Turns: from the job that begins a turn to the commit that ends it.
//!
//! This room owns turns in progress, starts that are run before they are written, the effects of a turn on other
//! instances, and the work that follows once the turn is durable. Replay and its check belong to the engine crate,
//! batches to the committer.

pub(crate) mod maps;
pub(crate) mod others;
pub(crate) mod pending_start;
pub(crate) mod starting;
pub(crate) mod starts;
pub(crate) mod status;
pub(crate) mod trace;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the noun that the room is about"
)]
mod turn;

pub use turn::{Delivered, Issued, Next};
pub(crate) use turn::{begin, end, finish, in_progress, interrupt, issue, step, suspend};
