//! What Postgres says, as sorts of failure that a caller can act on.

use std::error::Error;
use std::fmt::{self, Display};

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use perdure_provider::{ProviderError, ProviderErrorKind as Kind};
use tokio_postgres::error::SqlState;

/// A failure inside this crate; it gets the name of the store when it leaves it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server, or the way to it.
    Postgres(tokio_postgres::Error),
    /// Found here.
    Found(Kind, String),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Failure::Postgres(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Failure::Postgres(error),
            PoolError::Timeout(TimeoutType::Wait) => Failure::Found(
                Kind::Busy,
                "every connection of the pool is in use; `poolSize` says how many there are".into(),
            ),
            PoolError::Timeout(_) => Failure::silent(),
            PoolError::PostCreateHook(HookError::Backend(error)) => Failure::Postgres(error),
            PoolError::PostCreateHook(HookError::Message(_)) => Failure::silent(),
            PoolError::Closed => Failure::Found(Kind::Closed, String::new()),
            other => Failure::internal(other),
        }
    }
}

impl Failure {
    /// A defect of the caller, refused before anything is written.
    pub(crate) fn internal(what: impl Display) -> Self {
        Failure::Found(Kind::Internal, what.to_string())
    }

    /// A server, or what is in its place, that does not answer.
    pub(crate) fn silent() -> Self {
        Failure::Found(Kind::Io, "the server did not answer in time".into())
    }

    /// Rows that are not what this crate wrote.
    pub(crate) fn corrupt(what: impl Display) -> Self {
        Failure::Found(Kind::Corrupt, what.to_string())
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Failure::Found(kind, _) => *kind,
            Failure::Postgres(error) => kind_of(error),
        }
    }

    /// Whether single rows cannot be read although the server can.
    pub(crate) fn is_undecodable(&self) -> bool {
        matches!(self, Failure::Found(Kind::Corrupt, _))
    }

    fn state(&self) -> Option<&SqlState> {
        match self {
            Failure::Postgres(error) => error.code(),
            Failure::Found(..) => None,
        }
    }

    /// Whether the server took a transaction back because of another one: the same again may pass at once.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self.state(), Some(state) if *state == SqlState::T_R_SERIALIZATION_FAILURE || *state == SqlState::T_R_DEADLOCK_DETECTED)
    }

    /// Whether the way to the server broke, so that it is not known what became of a statement on its own. An end of the connection is
    /// told in the middle of a commit, too.
    pub(crate) fn is_unknown(&self) -> bool {
        self.kind() == Kind::Io
    }

    /// Whether a prepared statement is not what the server has by now: another connection behind a pooler, or other tables.
    pub(crate) fn is_stale_statement(&self) -> bool {
        matches!(self.state(), Some(state) if *state == SqlState::INVALID_SQL_STATEMENT_NAME || *state == SqlState::FEATURE_NOT_SUPPORTED)
    }

    /// Whether the same on another connection may pass at once.
    pub(crate) fn is_to_be_tried_again(&self) -> bool {
        self.is_conflict() || self.is_stale_statement()
    }

    /// The error as callers see it: it names the store and says what to do. Only the server's own words are in it, never the row that it
    /// shows as their detail.
    pub(crate) fn named(self, location: &str) -> ProviderError {
        let kind = self.kind();
        let detail = self;
        // A URL that cannot be read tells no location.
        let store = if location.is_empty() {
            "Postgres store".to_owned()
        } else {
            format!("Postgres store '{location}'")
        };
        let message = match kind {
            Kind::Busy => format!("The {store} has no room for this now ({detail})."),
            Kind::Io => format!("The {store} cannot be reached ({detail})."),
            Kind::Full => format!("There is no room left for the {store} ({detail}); free some and it goes on."),
            Kind::CannotOpen => format!("The {store} cannot be opened: {detail}"),
            Kind::NotADatabase => format!("'{location}' is no Perdure store: {detail}"),
            Kind::Corrupt => format!("The {store} is damaged ({detail}); restore it from a backup."),
            Kind::SchemaVersion { .. } => format!("The {store} was made by a newer Perdure: {detail}"),
            Kind::Closed => format!("The {store} is closed."),
            Kind::Internal => format!("Perdure's {store} failed: {detail}"),
        };
        ProviderError { kind, message }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Found(_, detail) => f.write_str(detail),
            Failure::Postgres(error) => match error.as_db_error() {
                Some(told) => write!(f, "{} [{}]", told.message(), told.code().code()),
                None => {
                    error.fmt(f)?;
                    // The reason is in the source, most often "connection refused".
                    error.source().map_or(Ok(()), |source| write!(f, ": {source}"))
                }
            },
        }
    }
}

fn kind_of(error: &tokio_postgres::Error) -> Kind {
    let Some(state) = error.code() else {
        return kind_without_state(error);
    };
    match *state {
        SqlState::DISK_FULL => Kind::Full,
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Kind::Corrupt,
        // Of a row: what callers hand over is brought into range before.
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE => Kind::Corrupt,
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => Kind::Busy,
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Kind::Busy,
        // A server that became a standby: its successor takes writes.
        SqlState::READ_ONLY_SQL_TRANSACTION => Kind::Io,
        SqlState::INVALID_CATALOG_NAME | SqlState::INSUFFICIENT_PRIVILEGE => Kind::CannotOpen,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Kind::Io,
        // A transaction that lasted too long for the server's settings (`transaction_timeout`, PostgreSQL 17).
        _ if state.code() == "25P04" => Kind::Io,
        _ => match &state.code()[..2] {
            // Connection, operator intervention, system error.
            "08" | "57" | "58" => Kind::Io,
            // Too many connections, out of memory.
            "53" => Kind::Busy,
            // Wrong password, no such role.
            "28" => Kind::CannotOpen,
            _ => Kind::Internal,
        },
    }
}

/// It never came to an answer of the server.
fn kind_without_state(error: &tokio_postgres::Error) -> Kind {
    let source = error.source();
    if source.is_some_and(|source| source.is::<rustls::Error>() || is_invalid_data(source) || is_without_tls(source)) {
        return Kind::CannotOpen;
    }
    let words = error.to_string();
    if words.starts_with("error deserializing column") {
        Kind::Corrupt
    } else if words.starts_with("invalid conn")
        || words.starts_with("invalid config")
        || words.starts_with("authentication error")
    {
        Kind::CannotOpen
    } else if words.starts_with("error serializing parameter") {
        Kind::Internal
    } else {
        Kind::Io
    }
}

/// How the client says that it was told to use TLS and the server has none, which no other try changes.
fn is_without_tls(source: &(dyn Error + 'static)) -> bool {
    source.to_string() == "server does not support TLS"
}

/// How TLS says that it does not believe a certificate.
fn is_invalid_data(source: &(dyn Error + 'static)) -> bool {
    source.downcast_ref::<std::io::Error>().is_some_and(|error| {
        error.kind() == std::io::ErrorKind::InvalidData
            || error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
    })
}
