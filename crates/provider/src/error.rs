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
    /// What became of the write that failed; of no meaning for what only reads.
    pub outcome: CommitOutcome,
}

/// What is known of a write that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It did not take effect, and it never will.
    #[default]
    NotCommitted,
    /// It may have taken effect, or may yet be found to have after a crash.
    Unknown,
}

impl CommitOutcome {
    /// As it is told to users.
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
    /// Locked or overloaded for now: the same call may work later.
    Busy,
    /// Disk, file system or connection failed: may work later.
    Io,
    /// This process has not the memory for it. May work later; what is too large for the process never does.
    NoMemory,
    /// No room left in the store: may work once there is some.
    Full,
    /// An opened store refuses its service, whatever is asked: no login, no writes, a defect of the server. May work later.
    Unavailable,
    /// The place of the store does not exist or may not be opened.
    CannotOpen,
    /// What is there is no store of this kind.
    NotADatabase,
    /// What is stored is damaged: a row cannot be read.
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
    /// Whether the same call may work later.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(
            self,
            Self::Busy | Self::NoMemory | Self::Io | Self::Full | Self::Unavailable
        )
    }

    /// Whether the store refuses this very write, or cannot read this very row: the same again fares the same, and everything else does
    /// not suffer from it. All other kinds are no verdict on what was asked.
    #[must_use]
    pub const fn blames_row(self) -> bool {
        matches!(self, Self::Corrupt | Self::Unencodable | Self::Internal)
    }
}

impl ProviderError {
    /// An error of a kind, after which nothing is committed.
    pub fn new(kind: ProviderErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
            outcome: CommitOutcome::NotCommitted,
        }
    }

    /// The same error of a write that may have taken effect, which the message then says.
    #[must_use]
    pub fn of_unknown_outcome(self) -> Self {
        Self {
            message: format!("{} Whether this was written is not known.", self.message),
            outcome: CommitOutcome::Unknown,
            ..self
        }
    }

    /// Whether the same call may work later.
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
