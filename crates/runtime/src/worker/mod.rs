//! The worker: one start of a runtime under an id of its own, with its lease and what it owns in the store.

pub(crate) mod lease;
pub(crate) mod owned;
pub(crate) mod release_requests;
