//! What SQLite says, as sorts of failure that a caller can act on.

use std::fmt::{self, Display};

use perdure_provider::{ProviderError, ProviderErrorKind as Kind};
use rusqlite::ffi::ErrorCode;

/// A failure inside this crate; it gets the name of the file when it leaves it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// SQLite, or the conversion of a row.
    Sqlite(rusqlite::Error),
    /// Found here.
    Found(Kind, String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

impl Failure {
    /// A defect of the caller, refused before anything is written.
    pub(crate) fn internal(what: impl Display) -> Self {
        Failure::Found(Kind::Internal, what.to_string())
    }

    /// Rows that are not what this crate wrote.
    pub(crate) fn corrupt(what: impl Display) -> Self {
        Failure::Found(Kind::Corrupt, what.to_string())
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Failure::Found(kind, _) => *kind,
            Failure::Sqlite(error) => kind_of(error),
        }
    }

    /// Whether single rows cannot be read although the file can.
    pub(crate) fn is_undecodable(&self) -> bool {
        self.kind() == Kind::Corrupt && !matches!(self, Failure::Sqlite(rusqlite::Error::SqliteFailure(..)))
    }

    /// Whether a row holds what cannot be changed, such as a number that no larger one follows.
    pub(crate) fn is_impossible(&self) -> bool {
        let Failure::Sqlite(error) = self else { return false };
        error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
    }

    /// The error as callers see it: it names the store and says what to do. Neither SQLite nor rusqlite puts payloads into messages.
    pub(crate) fn named(self, location: &str) -> ProviderError {
        let kind = self.kind();
        let detail = self;
        let message = match kind {
            Kind::Busy => format!("The SQLite store '{location}' is locked by another process ({detail})."),
            Kind::Io => format!("Reading or writing the SQLite store '{location}' failed ({detail}); see to its disk."),
            Kind::Full => {
                format!("There is no room left for the SQLite store '{location}' ({detail}); free some and it goes on.")
            }
            Kind::CannotOpen => format!("The SQLite store '{location}' cannot be opened: {detail}"),
            Kind::NotADatabase => format!("'{location}' is no Perdure store: {detail}"),
            Kind::Corrupt => format!("The SQLite store '{location}' is damaged ({detail}); restore it from a backup."),
            Kind::SchemaVersion { .. } => {
                format!("The SQLite store '{location}' was made by a newer Perdure: {detail}")
            }
            Kind::Closed => format!("The SQLite store '{location}' is closed."),
            Kind::Internal => format!("Perdure's SQLite store '{location}' failed: {detail}"),
        };
        ProviderError { kind, message }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Sqlite(error) => error.fmt(f),
            Failure::Found(_, detail) => f.write_str(detail),
        }
    }
}

fn kind_of(error: &rusqlite::Error) -> Kind {
    use rusqlite::Error as E;
    match error {
        E::SqliteFailure(failure, _) => match failure.code {
            // Out of memory is an overload too: the same call may work later.
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OutOfMemory => Kind::Busy,
            ErrorCode::DiskFull => Kind::Full,
            ErrorCode::SystemIoFailure => Kind::Io,
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly => Kind::CannotOpen,
            ErrorCode::NotADatabase => Kind::NotADatabase,
            ErrorCode::DatabaseCorrupt => Kind::Corrupt,
            _ => Kind::Internal,
        },
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::Utf8Error(..)
        | E::InvalidColumnType(..) => Kind::Corrupt,
        E::NulError(_) | E::InvalidPath(_) => Kind::CannotOpen,
        _ => Kind::Internal,
    }
}
