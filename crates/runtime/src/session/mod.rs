//! A session: one start of a runtime. The tasks of a worker besides its turns, and the end of all that it has.

mod acquisition;
pub(crate) mod description;
mod inbox;
mod old_entries;
mod old_lines;
pub(crate) mod ownership;
mod registration;
mod renewal;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the noun that the room is about"
)]
mod session;
mod start;
mod takeover;

pub(crate) use registration::{register, register_again, release};
pub(crate) use session::Session;
pub(crate) use takeover::other_workers;
