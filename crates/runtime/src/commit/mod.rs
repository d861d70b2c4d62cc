//! The committer: writes of turns and of clients become batches, and each batch becomes one transaction of the provider.
//!
//! This room owns the order of writes, their retries and how long a caller waits for them. It does not know what a write means, nor what
//! follows from its outcome: whoever hands a write over brings a function that is told.

pub(crate) mod committer;
