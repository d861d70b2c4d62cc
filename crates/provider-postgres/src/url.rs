//! Connection URLs: libpq's, with those parameters of TLS and authentication that `tokio-postgres` leaves to others.
//!
//! `sslmode`, `sslrootcert`, `sslcrl`, `sslcert`, `sslkey` and `require_auth` mean what they mean to libpq
//! (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS>). Those from `sslrootcert` to
//! `sslkey` name files in PEM.

use std::fmt::Display;
use std::fs;

use perdure_provider::{ProviderError, ProviderErrorKind as Kind};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

use crate::auth::RequireAuth;
use crate::error::{Failure, shortened};
use crate::options::{KEEPALIVE, PEM_BYTES_MAX, Pooler, TCP_USER_TIMEOUT, Tls, TlsMode};

/// A URL, taken apart.
pub(crate) struct Target {
    pub(crate) config: Config,
    /// TLS settings of the URL.
    pub(crate) tls: Tls,
    /// The methods of authentication that a server may ask for. `None`: any.
    pub(crate) require_auth: Option<RequireAuth>,
    /// The pooler that the URL names.
    pub(crate) pooler: Option<Pooler>,
    /// The location of the store, without the password.
    pub(crate) location: String,
}

/// Parses a URL. The error says what is wrong with the URL, and shows nothing of its contents.
pub(crate) fn parse(url: &str) -> Result<Target, Failure> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return refuse("its URL does not begin with 'postgres://'");
    }
    // A server would take only the part before the NUL, even of a password.
    if url.contains('\0') || url.contains("%00") {
        return refuse("its URL holds NUL");
    }
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let place = with_one_at(place)?;
    let parameters = Parameters::parse(query)?;
    let plain = if parameters.rest.is_empty() {
        place
    } else {
        format!("{place}?{}", parameters.rest.join("&"))
    };
    // The messages of the client name a parameter at most, never a value.
    let mut config: Config = plain.parse()?;
    let client = match (parameters.cert, parameters.key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return refuse("its URL must have both sslcert and sslkey, or neither"),
    };
    configure(&mut config)?;
    let location = location(&config);
    Ok(Target {
        config,
        tls: Tls {
            mode: parameters.mode.unwrap_or(TlsMode::Prefer),
            roots: parameters.roots,
            crls: parameters.crls,
            client,
        },
        require_auth: parameters.require_auth,
        pooler: parameters.pooler,
        location,
    })
}

fn refuse<T>(what: &str) -> Result<T, Failure> {
    Err(Failure::Found(Kind::CannotOpen, what.to_owned()))
}

/// The parameters of a URL.
#[derive(Default)]
struct Parameters {
    mode: Option<TlsMode>,
    roots: Option<String>,
    crls: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    require_auth: Option<RequireAuth>,
    pooler: Option<Pooler>,
    /// The parameters that the client reads itself.
    rest: Vec<String>,
}

impl Parameters {
    fn parse(query: &str) -> Result<Self, Failure> {
        let mut all = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sslmode" => all.mode = Some(mode_of(value)?),
                "sslrootcert" => all.roots = Some(read_pem(name, value)?),
                "sslcrl" => all.crls = Some(read_pem(name, value)?),
                "sslcert" => all.cert = Some(read_pem(name, value)?),
                "sslkey" => all.key = Some(read_pem(name, value)?),
                "require_auth" => all.require_auth = RequireAuth::parse(&percent_decoded(value))?,
                // The name of this parameter in other clients.
                "pgbouncer" => match value {
                    "true" => all.pooler = Some(Pooler::Transaction),
                    "false" => all.pooler = None,
                    _ => return refuse("pgbouncer is not true or false"),
                },
                // The client knows only the older word.
                "target_session_attrs" if value == "primary" => {
                    all.rest.push("target_session_attrs=read-write".to_owned());
                }
                _ if !is_name(name) => return refuse(&format!("its URL has malformed parameters{QUOTING}")),
                _ => all.rest.push(pair.replace('@', "%40")),
            }
        }
        Ok(all)
    }
}

/// Completes the settings of the client.
fn configure(config: &mut Config) -> Result<(), Failure> {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return refuse("its URL has no host");
    }
    // A store is to be written, so one of several hosts has to take writes.
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
    if hosts > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    config.tcp_user_timeout(TCP_USER_TIMEOUT);
    config
        .keepalives_idle(KEEPALIVE)
        .keepalives_interval(KEEPALIVE)
        .keepalives_retries(2);
    if config.get_application_name().is_none() {
        config.application_name("perdure");
    }
    Ok(())
}

/// Longest name that Postgres keeps, in bytes. A location shows up to four times as much of a name.
const NAME_MAX: usize = 63;

/// The hint that explains most mistakes.
const QUOTING: &str = "; in a user, password or database, write '@', '/', '?' and '%' as %40, %2F, %3F and %25";

/// Returns the URL up to its parameters, with only its last '@' unescaped. The client takes the first '@', wherever it
/// is, for the end of the password, and would show the rest of a password that contains one as a host.
fn with_one_at(place: &str) -> Result<String, Failure> {
    let host = place.find("://").map_or(0, |scheme| scheme + 3);
    let (authority, path) = place.split_at(place[host..].find('/').map_or(place.len(), |slash| host + slash));
    if path.contains('@') {
        // Perhaps a password that contains a slash.
        return Err(Failure::Found(
            Kind::CannotOpen,
            format!("its URL has an '@' after the host{QUOTING}"),
        ));
    }
    Ok(match authority.rsplit_once('@') {
        Some((credentials, host)) => format!("{}@{host}{path}", credentials.replace('@', "%40")),
        None => place.to_owned(),
    })
}

/// Returns true if the text looks like the name of a parameter, and not like the end of a password that contains a '?'.
fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Returns the location of the store that a URL names, without the password.
///
/// # Errors
///
/// `CannotOpen` says what is wrong with the URL, and shows nothing secret of it.
pub fn location_of(url: &str) -> Result<String, ProviderError> {
    parse(url)
        .map(|target| target.location)
        .map_err(|failure| failure.named(""))
}

fn mode_of(value: &str) -> Result<TlsMode, Failure> {
    Ok(match value {
        "disable" => TlsMode::Disable,
        "allow" | "prefer" => TlsMode::Prefer,
        "require" => TlsMode::Require,
        "verify-ca" => TlsMode::VerifyCa,
        "verify-full" => TlsMode::VerifyFull,
        _ => {
            return Err(Failure::Found(
                Kind::CannotOpen,
                "sslmode is not one of disable, prefer, require, verify-ca and verify-full".into(),
            ));
        }
    })
}

/// Reads a plain file of limited size. A device may have no end, and a pipe may block the process that opens it.
fn read_pem(name: &str, path: &str) -> Result<String, Failure> {
    let path = percent_decoded(path);
    let refuse = |why: &dyn Display| Failure::Found(Kind::CannotOpen, format!("{name} '{path}' cannot be read: {why}"));
    let found = fs::metadata(&path).map_err(|error| refuse(&error))?;
    if !found.is_file() || found.len() > PEM_BYTES_MAX {
        return Err(refuse(&format_args!(
            "it is not a file of at most {PEM_BYTES_MAX} bytes"
        )));
    }
    fs::read_to_string(&path).map_err(|error| refuse(&error))
}

/// Decodes bytes that are written as `%41` in a URL. A '%' without such a code is left as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'%').then(|| tail.get(..2)).flatten();
        let byte = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn location(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        #[cfg(not(unix))]
        Some(_) => String::new(),
        None => config
            .get_hostaddrs()
            .first()
            .map(ToString::to_string)
            .unwrap_or_default(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let [user, host, database] = [user, &host, database].map(|name| shortened(name, 4 * NAME_MAX));
    format!("postgres://{user}@{host}:{port}/{database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_location_shows_no_password() {
        let target = parse("postgres://ada:s3cret@db.example:6432/shop?sslmode=require&application_name=x")
            .expect("it is a URL");
        assert_eq!(target.location, "postgres://ada@db.example:6432/shop");
        assert_eq!(target.tls.mode, TlsMode::Require);
        assert_eq!(target.config.get_application_name(), Some("x"));
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_without_its_secrets() {
        for url in [
            "",
            "mysql://ada:s3cret@h/db",
            "postgres://",
            "postgres:///db?password=s3cret",
            "postgres://ada:s3cret@h:port/db",
            "postgres://ada:s3cret@h:99999/db",
            "postgres://ada:s3cret@h/db?sslmode=s3cret",
            "postgres://ada:s3cret@h/db?no_such_option=s3cret",
            "postgres://ada:s3cret@h/db?sslcert=/no/such/file",
            "postgres://ada:s3cret@h/db?require_auth=s3cret",
            "postgres://ada:s3cret@h/db?require_auth=md5,!s3cret",
            "postgres://ada:s3cret@[::1/db",
            "postgres://ada:s3cret@h/db\0",
            "postgres://ada:s3cret%00@h/db",
            &format!("postgres://ada:s3cret@h/db?{}=1", "x".repeat(64)),
            "postgres://ada:s3cret%GG@h:x/db",
            // A password that is not escaped, and an '@' elsewhere.
            "postgres://ada:x/s3cret@h/db",
            "postgres://ada:12/s3cret@h/db",
            "postgres://ada:12?s3cret@h/db",
            "postgres://ada:12?s3cret=1@h/db",
            "postgres://ada:p@12/s3cret@h/db",
            "postgres://h/db?s3cret",
            "postgres://h/db?user=ada@x&password=s3cret&port=x",
            // Paths that are no plain files.
            "postgres://ada:s3cret@h/db?sslrootcert=/dev/zero",
            "postgres://ada:s3cret@h/db?sslrootcert=/",
        ] {
            let failure = parse(url).err().unwrap_or_else(|| panic!("{url:?} is refused"));
            let error = failure.named("x");
            assert_eq!(error.kind, Kind::CannotOpen, "{url:?}: {error}");
            assert!(!error.message.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_long_name_is_shown_in_part() {
        let long = "é".repeat(100_000);
        let location = location_of(&format!("postgres://{long}@{long}/{long}")).expect("it is a URL");
        assert!(location.len() < 1_000 && location.contains("é…@é"), "{location}");
    }

    #[test]
    fn an_at_within_a_password_or_a_parameter_shows_nothing_of_it() {
        for (url, location) in [
            ("postgres://ada:p@s3cret@h/db", "postgres://ada@h:5432/db"),
            ("postgres://ada:p@ss:s3cret@h:1/db", "postgres://ada@h:1/db"),
            (
                "postgres://h/db?user=ada@x&password=s3cret",
                "postgres://ada@x@h:5432/db",
            ),
            ("postgres://h?password=s3cret@1&user=ada", "postgres://ada@h:5432/ada"),
        ] {
            let target = parse(url).unwrap_or_else(|failure| panic!("{url} is one: {failure}"));
            assert_eq!(target.location, location);
        }
        let target = parse("postgres://a%40b:p@s%2Fs@h/d%40b").expect("it is a URL");
        assert_eq!(target.config.get_password(), Some(&b"p@s/s"[..]));
        assert_eq!(
            (target.config.get_user(), target.config.get_dbname()),
            (Some("a@b"), Some("d@b"))
        );
    }

    #[test]
    fn of_several_hosts_it_is_one_that_takes_writes() {
        let wanted = |url: &str| parse(url).expect("it is a URL").config.get_target_session_attrs();
        assert_eq!(wanted("postgres://a/db"), TargetSessionAttrs::Any);
        assert_eq!(wanted("postgres://a,b/db"), TargetSessionAttrs::ReadWrite);
        assert_eq!(
            wanted("postgres://a/db?target_session_attrs=primary"),
            TargetSessionAttrs::ReadWrite
        );
    }

    #[test]
    fn the_last_require_auth_counts_as_it_is_decoded() {
        let required = |query: &str| {
            let target = parse(&format!("postgres://h/db?{query}")).expect("it is a URL");
            target.require_auth.map(|rule| rule.to_string())
        };
        assert_eq!(required("sslmode=disable"), None);
        assert_eq!(required("require_auth="), None);
        assert_eq!(required("require_auth"), None);
        assert_eq!(
            required("require_auth=scram-sha-256%2Cmd5").as_deref(),
            Some("md5, scram-sha-256")
        );
        assert_eq!(
            required("require_auth=none&require_auth=%21none,!gss,!sspi,!oauth").as_deref(),
            Some("password, md5, scram-sha-256")
        );
    }

    #[test]
    fn a_percent_stands_for_bytes() {
        assert_eq!(percent_decoded("/a%20b%C3%A9%zz%"), "/a bé%zz%");
    }
}
