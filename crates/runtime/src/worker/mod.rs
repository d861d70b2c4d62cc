//! The worker: one start of a runtime under an id of its own, with its lease and what it owns in the store.
//!
//! This room owns the tasks of the worker, its end, and the records of what is on its way in and out: claims, releases
//! and release requests. It knows the instances and attempts by their keys alone.

pub(crate) mod lease;
pub(crate) mod owned;
pub(crate) mod release_requests;
pub(crate) mod slots;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the noun that the room is about"
)]
pub(crate) mod worker;

pub(crate) use worker::Worker;
