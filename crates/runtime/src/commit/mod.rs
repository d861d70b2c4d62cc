//! The committer: writes of turns and of clients become batches, and each batch becomes one transaction of the
//! provider.
//!
//! This room owns the order of writes, their retries and the time that a caller waits for them. It does not know the
//! meaning of a write or the consequences of its outcome: each caller brings a callback that receives the outcome.

pub(crate) mod committer;
