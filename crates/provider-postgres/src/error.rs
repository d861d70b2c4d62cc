//! Errors of Postgres, as kinds of failure that a caller can act on.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Display};

use deadpool::managed::{PoolError, TimeoutType};
use perdure_provider::{ProviderError, ProviderErrorKind as Kind};
use tokio_postgres::error::{Severity, SqlState};

use crate::auth::Refusal;

/// The most bytes shown of a text from a server, a name or a file.
const DETAIL_MAX: usize = 1_000;

/// The class of SQLSTATEs of a server that met a defect of its own.
const INTERNAL_ERROR: &str = "XX";

/// A failure inside this crate. It gets the name of the store when it leaves the crate.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the server, or of the way to it.
    Postgres(tokio_postgres::Error),
    /// A failure that this crate found.
    Found(Kind, String),
    /// One of these failures, of a write that may have taken effect.
    OfUnknownOutcome(Box<Failure>),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match refusal_of(&error) {
            Some(refusal) => Failure::Found(Kind::CannotOpen, refusal.to_string()),
            None => Failure::Postgres(error),
        }
    }
}

/// Returns the refusal if the error is that the server does not comply with `require_auth`.
fn refusal_of(error: &tokio_postgres::Error) -> Option<&Refusal> {
    let source = error.source()?.downcast_ref::<std::io::Error>()?;
    source.get_ref()?.downcast_ref()
}

impl From<PoolError<Failure>> for Failure {
    fn from(error: PoolError<Failure>) -> Self {
        match error {
            PoolError::Backend(failure) => failure,
            PoolError::Timeout(TimeoutType::Wait) => Failure::Found(
                Kind::Busy,
                "every connection of the pool is in use; the option `poolSize` sets their number".into(),
            ),
            PoolError::Timeout(_) => Failure::silent(),
            PoolError::Closed => Failure::Found(Kind::Closed, String::new()),
            PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
                Failure::internal("its connection pool is in an unexpected state")
            }
        }
    }
}

impl Failure {
    /// Returns the failure for a defect of Perdure: of the caller, or of this crate.
    pub(crate) fn internal(what: impl Display) -> Self {
        Failure::Found(Kind::Internal, what.to_string())
    }

    /// Returns the failure of a server, or of a program in its place, that does not answer.
    pub(crate) fn silent() -> Self {
        Failure::Found(Kind::Io, "the server did not respond in time".into())
    }

    /// Returns the failure for a server that was not found.
    pub(crate) fn unreachable(why: impl Display) -> Self {
        Failure::Found(Kind::Io, why.to_string())
    }

    /// Returns the failure for rows that are not as this crate wrote them.
    pub(crate) fn corrupt(what: impl Display) -> Self {
        Failure::Found(Kind::Corrupt, what.to_string())
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Failure::Found(kind, _) => *kind,
            Failure::Postgres(error) => kind_of(error),
            Failure::OfUnknownOutcome(failure) => failure.kind(),
        }
    }

    /// Returns the same failure, of a write that may have taken effect and whose outcome could not be found out.
    pub(crate) fn of_unknown_outcome(self) -> Self {
        match self {
            Failure::OfUnknownOutcome(_) => self,
            failure => Failure::OfUnknownOutcome(Box::new(failure)),
        }
    }

    /// Returns true if single rows cannot be read although the server can be.
    pub(crate) fn is_undecodable(&self) -> bool {
        matches!(self, Failure::Found(Kind::Corrupt, _))
    }

    fn state(&self) -> Option<&SqlState> {
        match self {
            Failure::Postgres(error) => error.code(),
            Failure::Found(..) | Failure::OfUnknownOutcome(_) => None,
        }
    }

    /// Returns true if the server rolled a transaction back because of another one. The same transaction may succeed at
    /// once.
    pub(crate) fn is_conflict(&self) -> bool {
        const CONFLICTS: [SqlState; 2] = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        self.state().is_some_and(|state| CONFLICTS.contains(state))
    }

    /// Returns true if the server takes no writes: it is a standby, or its settings say so.
    pub(crate) fn is_read_only(&self) -> bool {
        self.state() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Returns true if the answer to a statement was lost (a *lost acknowledgement*): the statement may have taken
    /// effect, and may still take effect later. A statement that the server refuses with an ERROR is rolled back. The
    /// end of a connection may be reported in the middle of a commit, too.
    pub(crate) fn is_unknown(&self) -> bool {
        let Failure::Postgres(error) = self else {
            return self.kind() == Kind::Io;
        };
        let Some(told) = error.as_db_error() else {
            return self.kind() == Kind::Io;
        };
        let state = told.code();
        // Poolers and proxies report the end of a connection as an ERROR, too.
        told.parsed_severity() != Some(Severity::Error)
            || *state == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
            || ["08", "57P", "58"].iter().any(|of| state.code().starts_with(of))
    }

    /// Returns true if a prepared statement does not fit the server any more: the pooler gave another connection, or
    /// the tables have changed.
    pub(crate) fn is_stale_statement(&self) -> bool {
        const STALE: [SqlState; 2] = [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::FEATURE_NOT_SUPPORTED];
        self.state().is_some_and(|state| STALE.contains(state))
    }

    /// Returns true if a new instance got the key of another one.
    pub(crate) fn is_key_in_use(&self) -> bool {
        let Failure::Postgres(error) = self else { return false };
        let constraint = error.as_db_error().and_then(|told| told.constraint());
        self.state() == Some(&SqlState::UNIQUE_VIOLATION) && constraint == Some("instances_pkey")
    }

    /// Returns true if the same work may succeed at once on another connection, or with other keys.
    pub(crate) fn is_to_be_tried_again(&self) -> bool {
        self.is_conflict() || self.is_stale_statement() || self.is_key_in_use()
    }

    /// Converts a failure of the first exchange with a server. A refusal there that says nothing about the server's own
    /// state is about the request: a database that takes no connections, settings that the server does not know.
    pub(crate) fn of_start_up(self) -> Self {
        let is_refusal = self.kind() == Kind::Unavailable
            && self
                .state()
                .is_some_and(|state| !state.code().starts_with(INTERNAL_ERROR));
        if is_refusal {
            Failure::Found(Kind::CannotOpen, self.to_string())
        } else {
            self
        }
    }

    /// Like [`named`](Self::named), for a store that is open. A failure that would have kept the store from being
    /// opened keeps it from being used for now, and may pass (a role that may not log in, a database that is being
    /// restored).
    pub(crate) fn named_of_open(self, location: &str) -> ProviderError {
        let failure = match self.kind() {
            Kind::CannotOpen | Kind::NotADatabase => {
                let failure = Failure::Found(Kind::Unavailable, self.to_string());
                if matches!(self, Failure::OfUnknownOutcome(_)) {
                    failure.of_unknown_outcome()
                } else {
                    failure
                }
            }
            _ => self,
        };
        failure.named(location)
    }

    /// Returns the error as callers see it: it names the store and says what to do. The error contains only the
    /// server's own words, never the row that the server shows as their detail.
    pub(crate) fn named(self, location: &str) -> ProviderError {
        let kind = self.kind();
        let is_unknown = matches!(self, Failure::OfUnknownOutcome(_));
        let detail = shortened(&self.to_string(), DETAIL_MAX).into_owned();
        // A URL that cannot be parsed tells no location.
        let store = if location.is_empty() {
            "Postgres store".to_owned()
        } else {
            format!("Postgres store '{location}'")
        };
        let message = match kind {
            Kind::Busy => format!("The {store} is overloaded ({detail})."),
            Kind::NoMemory => format!("This process has too little memory for the data of the {store} ({detail})."),
            Kind::Io => format!("The {store} cannot be reached ({detail})."),
            Kind::Full => format!("The {store} has no space left ({detail}); free space on the server."),
            Kind::Unavailable => format!("The {store} refuses requests ({detail}); check its server."),
            Kind::CannotOpen => format!("The {store} cannot be opened: {detail}"),
            Kind::NotADatabase => format!("'{location}' is not a Perdure store: {detail}"),
            Kind::Corrupt => format!("The {store} is damaged ({detail}); restore it from a backup."),
            Kind::SchemaVersion { .. } => format!("The {store} cannot be used: {detail}"),
            Kind::Closed => format!("The {store} is closed."),
            Kind::Unencodable => format!("The {store} cannot store a value: {detail}"),
            Kind::Internal => format!("Perdure's {store} failed: {detail}"),
        };
        let error = ProviderError::new(kind, message);
        if is_unknown { error.of_unknown_outcome() } else { error }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Found(_, detail) => f.write_str(detail),
            Failure::OfUnknownOutcome(failure) => failure.fmt(f),
            Failure::Postgres(error) => {
                match error.as_db_error() {
                    Some(told) => write!(f, "{} [{}]", told.message(), told.code().code()),
                    None => {
                        error.fmt(f)?;
                        // The reason is in the source, most often "connection refused".
                        let Some(source) = error.source() else { return Ok(()) };
                        write!(f, ": {source}")?;
                        if is_without_list(source) {
                            f.write_str(": `sslcrl` or `tls.crl` contains no list of the authority that signed it")?;
                        }
                        Ok(())
                    }
                }
            }
        }
    }
}

/// Returns as much of a text as a reader needs: about `max` bytes.
pub(crate) fn shortened(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().find(|(place, _)| *place >= max) {
        Some((place, _)) => format!("{}…", &text[..place]).into(),
        None => text.into(),
    }
}

fn kind_of(error: &tokio_postgres::Error) -> Kind {
    error.code().map_or_else(|| kind_without_state(error), kind_of_state)
}

/// Returns the kind of failure for a SQLSTATE. The states that blame a row are a list. A state that is not on it says
/// nothing about the request, and may pass.
fn kind_of_state(state: &SqlState) -> Kind {
    match *state {
        SqlState::DISK_FULL => Kind::Full,
        // A damaged index has another state. It concerns all rows: it is rebuilt, and no row is to blame.
        SqlState::DATA_CORRUPTED => Kind::Corrupt,
        // The number is in a stored row: numbers from callers are brought into range before.
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE => Kind::Corrupt,
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => Kind::Busy,
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Kind::Busy,
        // The server became a standby. Its successor takes writes.
        SqlState::READ_ONLY_SQL_TRANSACTION => Kind::Io,
        SqlState::INVALID_CATALOG_NAME | SqlState::INSUFFICIENT_PRIVILEGE => Kind::CannotOpen,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Kind::Io,
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN => Kind::Io,
        // The transaction lasted too long for the server's settings (`transaction_timeout`, PostgreSQL 17).
        _ if state.code() == "25P04" => Kind::Io,
        _ => match &state.code()[..2] {
            // Connection, operator intervention, system error.
            "08" | "57" | "58" => Kind::Io,
            // A value, a constraint, a limit of the server: cardinality, data, integrity, check option, program limit.
            "21" | "22" | "23" | "44" | "54" => Kind::Internal,
            // Too many connections, out of memory.
            "53" => Kind::Busy,
            // Wrong password, no such role.
            "28" => Kind::CannotOpen,
            _ => Kind::Unavailable,
        },
    }
}

/// Returns the kind of failure for an error without an answer of the server.
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

/// The words of the client for a server without TLS.
pub(crate) const WITHOUT_TLS: &str = "server does not support TLS";

/// Returns true if the client was told to use TLS and the server has none. Another try does not change that.
fn is_without_tls(source: &(dyn Error + 'static)) -> bool {
    source.to_string() == WITHOUT_TLS
}

/// Returns true if TLS cannot know whether a certificate was revoked.
fn is_without_list(source: &(dyn Error + 'static)) -> bool {
    let inner = source
        .downcast_ref::<std::io::Error>()
        .and_then(|error| error.get_ref());
    matches!(
        inner.and_then(|inner| inner.downcast_ref()),
        Some(rustls::Error::InvalidCertificate(
            rustls::CertificateError::UnknownRevocationStatus
        ))
    )
}

/// Returns true if TLS does not accept a certificate.
fn is_invalid_data(source: &(dyn Error + 'static)) -> bool {
    source.downcast_ref::<std::io::Error>().is_some_and(|error| {
        error.kind() == std::io::ErrorKind::InvalidData
            || error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that refused logins or writes for two seconds made each turn look like one that cannot be stored, and
    /// its worker lost each such instance for good.
    #[test]
    fn only_an_error_of_a_row_is_a_verdict_on_a_write() {
        let passes = [
            "28000", "28P01", "3D000", "42501", "42P01", "53300", "53200", "57P01", "57P03", "0A000", "25006", "XX000",
            "40001", "40003", "40P01", "08006", "08007", "55P03", "57014", "P0001", "58030", "F0000", "XX002",
        ];
        for code in passes {
            let kind = kind_of_state(&SqlState::from_code(code));
            assert!(!kind.blames_row(), "{code} is {kind:?}");
        }
        for code in ["21000", "22P02", "22021", "22003", "23505", "23502", "54000", "XX001"] {
            let kind = kind_of_state(&SqlState::from_code(code));
            assert!(kind.blames_row(), "{code} is {kind:?}");
        }
    }

    #[test]
    fn an_error_that_keeps_an_open_store_from_use_is_retryable() {
        let refused = || Failure::Found(Kind::CannotOpen, "role \"app\" is not permitted to log in".into());
        assert!(!refused().named("x").retryable());
        let error = refused().named_of_open("x");
        assert!(
            error.retryable() && error.message.contains("not permitted to log in"),
            "{error}"
        );
    }
}
