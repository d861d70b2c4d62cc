//! What this store refuses: nothing of it can fail by itself.

use std::fmt::Display;

use perdure_provider::{ProviderError, ProviderErrorKind};

/// A defect of the caller, refused before anything is written.
pub(crate) fn internal(what: impl Display) -> ProviderError {
    ProviderError::new(
        ProviderErrorKind::Internal,
        format_args!("Perdure's store in memory failed: {what}"),
    )
}

/// A call of a handle that is closed.
pub(crate) fn closed() -> ProviderError {
    ProviderError::new(
        ProviderErrorKind::Closed,
        "The handle on the store in memory is closed.",
    )
}
