//! The worker: one start of a runtime, with its lease and all that it owns in the store.
//!
//! This folder owns the session, the heartbeat of the worker's row, acquisition and the inbox, the takeover of dead
//! workers, the comparison of what is owned with what is known, and giving back. The work of an instance, a turn or an
//! attempt belongs to the folder of each.

pub(crate) mod about;
pub(crate) mod alarm;
pub(crate) mod giving_back;
pub(crate) mod lease;
pub(crate) mod open_requests;
pub(crate) mod owned;
pub(crate) mod ownership;
pub(crate) mod session;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the noun that the room is about"
)]
mod worker;

pub(crate) use worker::{others, register, register_again, release, set_going};
