//! Errors of a store.

use std::fmt;

/// A store refused or failed. The message says what to do and holds no payload and no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// The sort of failure.
    pub kind: ProviderErrorKind,
    /// The message for a person.
    pub message: String,
    /// The fate of the write that failed. Without meaning for a call that only reads.
    pub outcome: CommitOutcome,
}

/// The known effect of a write that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The write did not take effect, and it never will.
    #[default]
    NotCommitted,
    /// The write may have taken effect, or may yet be found to have after a crash.
    Unknown,
}

impl CommitOutcome {
    /// Returns the text that users see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotCommitted => "not committed",
            Self::Unknown => "unknown",
        }
    }
}

/// Sorts of failure, by what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// The store is locked or overloaded for now. The same call may work later.
    Busy,
    /// The disk, the file system or the connection failed. The same call may work later.
    Io,
    /// This process does not have the memory for the call. The same call may work later; one that is too large for the
    /// process never does.
    NoMemory,
    /// The store has no room left. The same call may work once there is some.
    Full,
    /// An opened store refuses every request: no login, no writes, a defect of the server. The same call may work
    /// later.
    Unavailable,
    /// The place of the store does not exist or may not be opened.
    CannotOpen,
    /// The file or database found is not a store of this kind.
    NotADatabase,
    /// The stored data is damaged: a row cannot be read.
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
    /// A value that the codec of the store can never encode.
    Unencodable,
    /// A defect of Perdure: a write that no store can take.
    Internal,
}

impl ProviderErrorKind {
    /// Returns true if the same call may work later.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(
            self,
            Self::Busy | Self::NoMemory | Self::Io | Self::Full | Self::Unavailable
        )
    }

    /// Returns true if the store refuses this very write, or cannot read this very row. The same call fails again, and
    /// no other call suffers from it. All other kinds are no verdict on the request.
    #[must_use]
    pub const fn blames_row(self) -> bool {
        matches!(self, Self::Corrupt | Self::Unencodable | Self::Internal)
    }
}

impl ProviderError {
    /// Creates an error of a kind, after which nothing is committed.
    pub fn new(kind: ProviderErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
            outcome: CommitOutcome::NotCommitted,
        }
    }

    /// Returns the same error for a write that may have taken effect. The message then says so.
    #[must_use]
    pub fn of_unknown_outcome(self) -> Self {
        Self {
            message: format!("{} It is unknown if the write took effect.", self.message),
            outcome: CommitOutcome::Unknown,
            ..self
        }
    }

    /// Returns true if the same call may work later.
    #[must_use]
    pub const fn retryable(&self) -> bool {
        self.kind.retryable()
    }

    /// See [`ProviderErrorKind::blames_row`].
    #[must_use]
    pub const fn blames_row(&self) -> bool {
        self.kind.blames_row()
    }
}
