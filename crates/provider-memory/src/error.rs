//! The errors of this store. Each one refuses a call: the store cannot fail by itself.

use std::fmt::Display;

use perdure_provider::{ProviderError, ProviderErrorKind};

/// Creates the error for a defect of the caller, refused before anything is written.
pub(crate) fn internal(what: impl Display) -> ProviderError {
    ProviderError::new(
        ProviderErrorKind::Internal,
        format_args!("Perdure's store in memory failed: {what}"),
    )
}

/// Creates the error for a call of a closed handle.
pub(crate) fn closed() -> ProviderError {
    ProviderError::new(
        ProviderErrorKind::Closed,
        "The handle on the store in memory is closed.",
    )
}
