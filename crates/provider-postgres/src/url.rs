//! Connection URLs: libpq's, with those parameters about TLS that `tokio-postgres` leaves to others.
//!
//! `sslmode`, `sslrootcert`, `sslcert` and `sslkey` mean what they mean to libpq
//! (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS>); the last three name files in PEM.

use std::fs;
use std::time::Duration;

use perdure_provider::ProviderErrorKind as Kind;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::error::Failure;
use crate::options::{CONNECT_TIMEOUT, CONNECT_TIMEOUT_MIN, KEEPALIVE, TCP_USER_TIMEOUT, Tls, TlsMode};

/// A URL, taken apart.
pub(crate) struct Target {
    pub(crate) config: Config,
    /// What it says of TLS.
    pub(crate) tls: Tls,
    /// Where that is, without the password.
    pub(crate) location: String,
    /// How long it may take until one of its hosts has let us in.
    pub(crate) connecting_max: Duration,
}

/// Read a URL; the error says what is wrong with it, and not what is in it.
pub(crate) fn parse(url: &str) -> Result<Target, Failure> {
    let refuse = |what: &str| Err(Failure::Found(Kind::CannotOpen, what.to_owned()));
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return refuse("its URL does not begin with 'postgres://'");
    }
    if url.contains('\0') {
        return refuse("its URL holds NUL");
    }
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut mode, mut roots, mut cert, mut key) = (None, None, None, None);
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "sslmode" => mode = Some(mode_of(value)?),
            "sslrootcert" => roots = Some(read_pem(name, value)?),
            "sslcert" => cert = Some(read_pem(name, value)?),
            "sslkey" => key = Some(read_pem(name, value)?),
            _ => rest.push(pair),
        }
    }
    let plain = if rest.is_empty() {
        place.to_owned()
    } else {
        format!("{place}?{}", rest.join("&"))
    };
    // Its own messages name a parameter at most, never a value.
    let mut config: Config = plain.parse()?;
    let client = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return refuse("its URL has one of sslcert and sslkey without the other"),
    };
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return refuse("its URL names no host");
    }
    // Hosts are tried one after the other.
    let hosts = u32::try_from(config.get_hosts().len().max(config.get_hostaddrs().len())).unwrap_or(u32::MAX);
    let each = (CONNECT_TIMEOUT / hosts).max(CONNECT_TIMEOUT_MIN);
    let each = config.get_connect_timeout().copied().unwrap_or(each);
    config.connect_timeout(each);
    config.tcp_user_timeout(TCP_USER_TIMEOUT);
    config
        .keepalives_idle(KEEPALIVE)
        .keepalives_interval(KEEPALIVE)
        .keepalives_retries(2);
    if config.get_application_name().is_none() {
        config.application_name("perdure");
    }
    let location = location(&config);
    Ok(Target {
        config,
        tls: Tls {
            mode: mode.unwrap_or(TlsMode::Prefer),
            roots,
            client,
        },
        location,
        connecting_max: each.saturating_mul(hosts),
    })
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

fn read_pem(name: &str, path: &str) -> Result<String, Failure> {
    let path = percent_decoded(path);
    fs::read_to_string(&path)
        .map_err(|error| Failure::Found(Kind::CannotOpen, format!("{name} '{path}' cannot be read: {error}")))
}

/// Bytes that stand as `%41` in a URL; what is none is left.
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
            "postgres://ada:s3cret@[::1/db",
            "postgres://ada:s3cret@h/db\0",
            "postgres://ada:s3cret%GG@h:x/db",
        ] {
            let failure = parse(url).err().unwrap_or_else(|| panic!("{url:?} is refused"));
            let error = failure.named("x");
            assert_eq!(error.kind, Kind::CannotOpen, "{url:?}: {error}");
            assert!(!error.message.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn all_hosts_of_a_url_share_the_time_unless_it_says_otherwise() {
        let times = |url: &str| {
            let target = parse(url).expect("it is a URL");
            let each = target.config.get_connect_timeout().copied();
            (each.map(|each| each.as_millis()), target.connecting_max.as_millis())
        };
        assert_eq!(times("postgres://a/db"), (Some(4_000), 4_000));
        assert_eq!(times("postgres://a,b/db"), (Some(2_000), 4_000));
        assert_eq!(times("postgres://a,b,c,d,e,f,g,h/db"), (Some(1_000), 8_000));
        assert_eq!(times("postgres://a,b/db?connect_timeout=7"), (Some(7_000), 14_000));
    }

    #[test]
    fn a_percent_stands_for_bytes() {
        assert_eq!(percent_decoded("/a%20b%C3%A9%zz%"), "/a bé%zz%");
    }
}
