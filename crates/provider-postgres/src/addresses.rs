//! The addresses of the hosts of a URL: their resolution, their time limits and their settings.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};

use crate::error::Failure;
use crate::options::{ADDRESSES_MAX, CONNECT_TIMEOUT, CONNECT_TIMEOUT_MIN};

/// An address at which a server may listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// `name` is compared with the certificate.
    Tcp {
        name: Option<String>,
        ip: IpAddr,
        port: u16,
    },
    #[cfg(unix)]
    Unix { path: PathBuf, port: u16 },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { name, ip, port } => match name {
                Some(name) if name.parse::<IpAddr>().is_err() => write!(f, "{name}:{port} ({ip})"),
                _ => write!(f, "{}", SocketAddr::new(*ip, *port)),
            },
            #[cfg(unix)]
            Self::Unix { path, port } => write!(f, "{}:{port}", path.display()),
        }
    }
}

/// Returns the time limit of each address: the limit in the URL, or else its share of [`CONNECT_TIMEOUT`], at least
/// [`CONNECT_TIMEOUT_MIN`].
pub(crate) fn limit_of_each(config: &Config, addresses: usize) -> Duration {
    let share = CONNECT_TIMEOUT / u32::try_from(addresses.max(1)).unwrap_or(u32::MAX);
    config
        .get_connect_timeout()
        .copied()
        .unwrap_or(share.max(CONNECT_TIMEOUT_MIN))
}

/// Returns the addresses of all hosts of a configuration, at most [`ADDRESSES_MAX`].
pub(crate) async fn addresses_of(config: &Config) -> Result<Vec<Address>, Failure> {
    let (hosts, numbers) = (config.get_hosts(), config.get_hostaddrs());
    let mut found = Vec::new();
    let mut failure = None;
    for i in 0..hosts.len().max(numbers.len()) {
        let ports = config.get_ports();
        let port = ports.get(i).or_else(|| ports.first()).copied().unwrap_or(5432);
        match (hosts.get(i), numbers.get(i)) {
            #[cfg(unix)]
            (Some(Host::Unix(path)), _) => found.push(Address::Unix {
                path: path.clone(),
                port,
            }),
            (Some(Host::Tcp(name)), None) => match resolved(name, port).await {
                Ok(ips) => found.extend(ips.into_iter().map(|ip| Address::Tcp {
                    name: Some(name.clone()),
                    ip,
                    port,
                })),
                Err(why) => failure = Some(why),
            },
            (name, Some(ip)) => found.push(Address::Tcp {
                name: match name {
                    Some(Host::Tcp(name)) => Some(name.clone()),
                    _ => None,
                },
                ip: *ip,
                port,
            }),
            #[allow(unreachable_patterns, reason = "there is a second kind of host on Unix alone")]
            _ => {}
        }
    }
    found.truncate(ADDRESSES_MAX);
    match failure {
        Some(failure) if found.is_empty() => return Err(failure),
        _ => {}
    }
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        // Any order will do if it differs from one process to the next.
        let by_chance = usize::try_from(uuid::Uuid::new_v4().as_u128() % 64).unwrap_or(0);
        let first = by_chance % found.len().max(1);
        found.rotate_left(first);
    }
    Ok(found)
}

async fn resolved(name: &str, port: u16) -> Result<Vec<IpAddr>, Failure> {
    let found = timeout(CONNECT_TIMEOUT, lookup_host((name, port))).await;
    let found =
        found.map_err(|_| Failure::unreachable(format!("the name of the host '{name}' was not resolved in time")))?;
    let mut ips: Vec<IpAddr> = Vec::new();
    for address in
        found.map_err(|error| Failure::unreachable(format!("the host '{name}' cannot be resolved: {error}")))?
    {
        if !ips.contains(&address.ip()) {
            ips.push(address.ip());
        }
    }
    Ok(ips)
}

/// Returns the same settings for one address.
pub(crate) fn only(config: &Config, address: &Address) -> Config {
    let mut one = Config::new();
    match address {
        Address::Tcp { name, ip, port } => {
            // Without a name, a certificate has to show the address.
            one.host(name.clone().unwrap_or_else(|| ip.to_string()));
            one.hostaddr(*ip).port(*port);
        }
        #[cfg(unix)]
        Address::Unix { path, port } => {
            one.host_path(path).port(*port);
        }
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(database) = config.get_dbname() {
        one.dbname(database);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding());
    one
}

/// Returns the failure for the case that no address accepted a connection: a single failure as it is, several with
/// their addresses.
pub(crate) fn all_failed(mut failures: Vec<(Address, Failure)>) -> Failure {
    if failures.len() <= 1 {
        return failures.pop().map_or_else(
            || Failure::unreachable("its host has no address"),
            |(_, failure)| failure,
        );
    }
    // One failure that may pass makes another try of them all worthwhile.
    let kinds = || failures.iter().map(|(_, failure)| failure.kind());
    let kind = kinds().find(|kind| kind.retryable()).or_else(|| kinds().next());
    let told: Vec<String> = failures
        .iter()
        .map(|(address, failure)| format!("{address}: {failure}"))
        .collect();
    Failure::Found(kind.expect("there is more than one"), told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_share_the_time_unless_the_url_says_otherwise() {
        let each = |url: &str, addresses| {
            let config = crate::url::parse(url).expect("it is a URL").config;
            limit_of_each(&config, addresses).as_millis()
        };
        assert_eq!(each("postgres://a/db", 1), 4_000);
        assert_eq!(each("postgres://a,b/db", 2), 2_000);
        assert_eq!(each("postgres://a/db", 8), 1_000);
        assert_eq!(each("postgres://a,b/db?connect_timeout=7", 2), 7_000);
    }
}
