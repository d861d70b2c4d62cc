//! SQLite, by plain rusqlite on one thread.

pub(crate) mod commit;
pub(crate) mod read;
mod store;
pub(crate) mod write;
