//! Postgres, by plain `postgres` on one connection.

pub(crate) mod commit;
pub(crate) mod read;
pub(crate) mod server;
mod store;
pub(crate) mod write;
