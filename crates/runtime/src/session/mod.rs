//! A session: one start of a runtime. The tasks of a worker besides its turns, and the end of all that it has.

pub(crate) mod background;
pub(crate) mod description;
pub(crate) mod ownership;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the noun that the room is about"
)]
pub(crate) mod session;

pub(crate) use background::{other_workers, register, register_again, release, start_tasks};
