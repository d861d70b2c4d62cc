//! What can go wrong in a store.

use std::fmt;

/// A store refused or failed. The message says what to do and holds no payload and no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What sort of failure it is.
    pub kind: ProviderErrorKind,
    /// For a person.
    pub message: String,
}

/// Sorts of failure, by what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// Locked or overloaded for now: the same call may work later.
    Busy,
    /// Disk, file system or connection failed: may work later.
    Io,
    /// No room left in the store: may work once there is some.
    Full,
    /// The place of the store does not exist or may not be opened.
    CannotOpen,
    /// What is there is no store of this kind.
    NotADatabase,
    /// The store is damaged.
    Corrupt,
    /// The store's schema is newer than this version knows, or older and not to be changed.
    SchemaVersion {
        /// Version found.
        found: u32,
        /// Newest version known here.
        supported: u32,
    },
    /// The provider was closed.
    Closed,
    /// A defect of Perdure or of the store.
    Internal,
}

impl ProviderErrorKind {
    /// Whether the same call may work later.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Io | Self::Full)
    }
}

impl ProviderError {
    /// An error of a kind.
    pub fn new(kind: ProviderErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
        }
    }

    /// Whether the same call may work later.
    #[must_use]
    pub const fn retryable(&self) -> bool {
        self.kind.retryable()
    }
}
