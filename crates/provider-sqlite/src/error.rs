//! Errors of SQLite, as sorts of failure that a caller can act on.

use std::fmt::{self, Display};

use perdure_provider::{ProviderError, ProviderErrorKind as Kind};
use rusqlite::ffi::ErrorCode;

/// A failure inside this crate. It gets the name of the file when it leaves the crate.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of SQLite, or of the conversion of a row.
    Sqlite(rusqlite::Error),
    /// A failure that this crate found.
    Found(Kind, String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

impl Failure {
    /// Creates the failure for a defect of the caller, refused before anything is written.
    pub(crate) fn internal(what: impl Display) -> Self {
        Failure::Found(Kind::Internal, what.to_string())
    }

    /// Creates the failure for rows that are not what this crate wrote.
    pub(crate) fn corrupt(what: impl Display) -> Self {
        Failure::Found(Kind::Corrupt, what.to_string())
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Failure::Found(kind, _) => *kind,
            Failure::Sqlite(error) => kind_of(error),
        }
    }

    /// Returns true if single rows cannot be read although the file can.
    pub(crate) fn is_undecodable(&self) -> bool {
        self.kind() == Kind::Corrupt && !matches!(self, Failure::Sqlite(rusqlite::Error::SqliteFailure(..)))
    }

    /// Returns true if a row holds a value that cannot be changed, such as the largest number, which cannot be
    /// incremented.
    pub(crate) fn is_impossible(&self) -> bool {
        let Failure::Sqlite(error) = self else { return false };
        error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
    }

    /// Does the same as [`named`](Self::named) for a store that is open. A failure that would have kept the store from
    /// being opened makes it unavailable for now, and may pass (a file whose rights were changed).
    pub(crate) fn named_of_open(self, location: &str) -> ProviderError {
        let failure = match self.kind() {
            Kind::CannotOpen | Kind::NotADatabase => Failure::Found(Kind::Unavailable, self.to_string()),
            _ => self,
        };
        failure.named(location)
    }

    /// Returns the error as callers see it: it names the store and says what to do. Neither SQLite nor rusqlite puts
    /// payloads into messages.
    pub(crate) fn named(self, location: &str) -> ProviderError {
        let kind = self.kind();
        let detail = self;
        let message = match kind {
            Kind::Busy => format!("The SQLite store '{location}' is locked by another process ({detail})."),
            Kind::NoMemory => {
                format!("This process has too little memory for the data of the SQLite store '{location}' ({detail}).")
            }
            Kind::Io => format!("Reading or writing the SQLite store '{location}' failed ({detail}); check its disk."),
            Kind::Full => {
                format!("The SQLite store '{location}' has no space left ({detail}); free space on its disk.")
            }
            Kind::Unavailable => format!("The SQLite store '{location}' refuses requests ({detail})."),
            Kind::CannotOpen => format!("The SQLite store '{location}' cannot be opened: {detail}"),
            Kind::NotADatabase => format!("'{location}' is not a Perdure store: {detail}"),
            Kind::Corrupt => format!("The SQLite store '{location}' is damaged ({detail}); restore it from a backup."),
            Kind::SchemaVersion { .. } => format!("The SQLite store '{location}' cannot be used: {detail}"),
            Kind::Closed => format!("The SQLite store '{location}' is closed."),
            Kind::Unencodable => format!("The SQLite store '{location}' cannot store a value: {detail}"),
            Kind::Internal => format!("Perdure's SQLite store '{location}' failed: {detail}"),
        };
        ProviderError::new(kind, message)
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
            // SQLITE_PROTOCOL says that others were faster at the locks of the log a hundred times in a row.
            // SQLITE_SCHEMA says that another process changes the tables.
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::SchemaChanged => Kind::Busy,
            ErrorCode::OutOfMemory => Kind::NoMemory,
            ErrorCode::DiskFull => Kind::Full,
            ErrorCode::SystemIoFailure => Kind::Io,
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly => Kind::CannotOpen,
            ErrorCode::NotADatabase => Kind::NotADatabase,
            ErrorCode::DatabaseCorrupt => Kind::Corrupt,
            // The codes that blame a row are a closed list. Any other code says nothing about the request, and may
            // pass.
            ErrorCode::ConstraintViolation
            | ErrorCode::TooBig
            | ErrorCode::TypeMismatch
            | ErrorCode::ParameterOutOfRange => Kind::Internal,
            _ => Kind::Unavailable,
        },
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::Utf8Error(..)
        | E::InvalidColumnType(..) => Kind::Corrupt,
        E::NulError(_) | E::InvalidPath(_) => Kind::CannotOpen,
        _ => Kind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    /// A turn that met SQLITE_PROTOCOL was once counted as one that cannot be stored.
    #[test]
    fn a_failure_of_the_locks_is_busy_and_may_be_tried_again() {
        for code in [
            ffi::SQLITE_BUSY,
            ffi::SQLITE_BUSY_SNAPSHOT,
            ffi::SQLITE_BUSY_RECOVERY,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_PROTOCOL,
            ffi::SQLITE_SCHEMA,
        ] {
            let failure = Failure::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            let error = failure.named("store.db");
            assert!(error.kind == Kind::Busy && error.retryable(), "{code}: {error:?}");
        }
    }

    /// The lack of memory was once counted as a lock of another process, and was waited for without an end.
    #[test]
    fn want_of_memory_is_no_lock() {
        let failure = Failure::from(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_NOMEM), None));
        let error = failure.named("store.db");
        assert!(error.kind == Kind::NoMemory && error.retryable(), "{error:?}");
    }
}
