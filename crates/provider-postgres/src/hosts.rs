//! The hosts of a URL: the choice of the host that the connections of a store lead to, and the making of connections.
//!
//! - **H1** Each address has a time limit of its own for everything before the first statement: socket, TLS, password,
//!   and the check whether it takes writes. So has each name that is resolved. An address that accepts connections and
//!   stays silent is skipped like one that refuses them.
//! - **H2** Addresses are tried in turn. The one that accepted the last connection comes first; one that was found
//!   silent comes last.
//! - **H3** All connections lead to one server. Two servers are told apart by the times at which they were started.
//!   When a new connection finds another server, or another way around a silent address, the connections to the former
//!   one are cut: work under way there fails at once, not when its time limit ends.
//! - **H4** A connection is handed out only after its server was asked whether it continues the same commits
//!   ([`Lineage`]).
//! - **H5** A connection whose making began before such a move, and that leads elsewhere, is dropped: a former primary
//!   that wakes up gets no connection back.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
#[cfg(unix)]
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::config::{Host, LoadBalanceHosts};
#[cfg(unix)]
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, Connection, SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::auth::RequireAuth;
use crate::auth_stream::Watched;
use crate::error::Failure;
use crate::lineage::Lineage;
use crate::options::{ADDRESSES_MAX, CONNECT_TIMEOUT, CONNECT_TIMEOUT_MIN, PASSWORD_MAX, PasswordSource};
#[cfg(unix)]
use crate::tls::TellingOnce;
use crate::tls::{Guard, Telling};

/// The future that drives a connection. A task has to poll it.
pub(crate) enum Carrier {
    Made(Connection<Socket, Watched<Socket>>),
    /// A connection over a Unix socket that this crate has opened.
    #[cfg(unix)]
    MadeHere(Connection<UnixStream, Watched<UnixStream>>),
}

impl Carrier {
    /// Polls for the next notification or notice.
    pub(crate) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<AsyncMessage, tokio_postgres::Error>>> {
        match self {
            Self::Made(connection) => connection.poll_message(context),
            #[cfg(unix)]
            Self::MadeHere(connection) => connection.poll_message(context),
        }
    }
}

impl Future for Carrier {
    type Output = Result<(), tokio_postgres::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Made(connection) => Pin::new(connection).poll(context),
            #[cfg(unix)]
            Self::MadeHere(connection) => Pin::new(connection).poll(context),
        }
    }
}

/// Spawns the task that drives a connection.
pub(crate) type Carry<'c> = &'c (dyn Fn(Carrier) -> JoinHandle<()> + Send + Sync);

/// The first question on a connection: when its server was started, which no two servers have in common.
const SERVER: &str = "SELECT pg_catalog.pg_postmaster_start_time()";

pub(crate) struct Hosts {
    /// The configuration of the URL, with all its hosts.
    config: Config,
    tls: MakeRustlsConnect,
    /// Set if the URL has `require_auth`.
    guard: Option<Guard>,
    password: Option<Arc<dyn PasswordSource>>,
    lineage: Arc<Lineage>,
    state: Mutex<State>,
    /// The number of times that the connections have moved.
    moves: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    current: Option<Server>,
    /// The address that was found silent and has not answered since.
    silent: Option<Address>,
    /// The tasks of the connections that exist.
    links: Vec<AbortHandle>,
}

/// The server that a connection leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    address: Address,
    started: String,
    is_encrypted: bool,
}

/// An address at which a server may listen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
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

/// A task that is aborted when its holder is dropped.
pub(crate) struct Aborted(Option<JoinHandle<()>>);

impl Aborted {
    /// Lets the task go on without a holder.
    pub(crate) fn kept(mut self) -> JoinHandle<()> {
        self.0.take().expect("it is there until it is kept")
    }
}

impl Drop for Aborted {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl Hosts {
    pub(crate) fn new(
        mut config: Config,
        tls: MakeRustlsConnect,
        require_auth: Option<RequireAuth>,
        password: Option<Arc<dyn PasswordSource>>,
        lineage: Arc<Lineage>,
    ) -> Self {
        let guard = require_auth.map(|rule| Guard::before(&mut config, rule));
        Self {
            config,
            tls,
            guard,
            password,
            lineage,
            state: Mutex::default(),
            moves: watch::Sender::new(0),
        }
    }

    /// Makes a connection to the first server that accepts it. `settings` are run on it first.
    pub(crate) async fn connect(&self, carry: Carry<'_>, settings: &str) -> Result<(Client, Aborted), Failure> {
        let mut moves = self.moves.subscribe();
        loop {
            let begun = *moves.borrow_and_update();
            let connected = tokio::select! {
                biased;
                // Other connections have found a server meanwhile.
                _ = moves.changed() => continue,
                connected = self.try_all(carry, settings, None) => connected?,
            };
            if let Some(made) = self.settle(connected, begun) {
                let heeded = timeout(CONNECT_TIMEOUT, self.lineage.heed(&made.0)).await;
                heeded.map_err(|_| Failure::silent())??;
                return Ok(made);
            }
        }
    }

    /// Tries each address except the current one. If a server there takes writes, the connections move to it.
    pub(crate) async fn look_elsewhere(&self, carry: Carry<'_>) {
        let begun = *self.moves.borrow();
        let Some(current) = self.state.lock().current.clone() else {
            return;
        };
        if let Ok(connected) = self.try_all(carry, "", Some(&current.address)).await {
            drop(self.settle(connected, begun));
        }
    }

    /// Returns true if the connections go over a network without encryption.
    pub(crate) fn is_open_to_all(&self) -> bool {
        let state = self.state.lock();
        state.current.as_ref().is_some_and(|server| match &server.address {
            Address::Tcp { ip, .. } => !ip.is_loopback() && !server.is_encrypted,
            #[cfg(unix)]
            Address::Unix { .. } => false,
        })
    }

    /// Notes that the current address does not answer.
    pub(crate) fn found_silent(&self) {
        let mut state = self.state.lock();
        state.silent = state.current.as_ref().map(|server| server.address.clone());
    }

    /// Returns the number of times that the connections have moved to another server.
    pub(crate) fn moves(&self) -> u64 {
        *self.moves.borrow()
    }

    /// Tells the server to cancel the statement of a connection, which may have ended by then. Ignores failures, and
    /// gives up after [`CONNECT_TIMEOUT`].
    pub(crate) async fn cancel(&self, token: CancelToken) {
        let tls = Telling::of(&self.tls, self.guard);
        drop(timeout(CONNECT_TIMEOUT, self.tell_to_cancel(&token, tls)).await);
    }

    async fn tell_to_cancel(&self, token: &CancelToken, tls: Telling) -> Result<(), Failure> {
        #[cfg(unix)]
        if let Some((path, port)) = self.socket_opened_here() {
            let (socket, tls) = opened_here(&path, port, tls).await?;
            return Ok(token.cancel_query_raw(socket, tls).await?);
        }
        Ok(token.cancel_query(tls).await?)
    }

    /// Returns the socket of the current connections, if this crate opens it itself.
    #[cfg(unix)]
    fn socket_opened_here(&self) -> Option<(PathBuf, u16)> {
        self.guard?;
        match &self.state.lock().current.as_ref()?.address {
            Address::Unix { path, port } => Some((path.clone(), *port)),
            Address::Tcp { .. } => None,
        }
    }

    async fn try_all(
        &self,
        carry: Carry<'_>,
        settings: &str,
        but: Option<&Address>,
    ) -> Result<(Client, Aborted, Server), Failure> {
        let mut config = self.config.clone();
        if let Some(source) = &self.password {
            let password = timeout(PASSWORD_MAX, source.password()).await;
            config.password(
                password
                    .map_err(|_| Failure::unreachable("`password` gave none in time"))?
                    .map_err(|error| Failure::Found(error.kind, error.message))?,
            );
        }
        let addresses = self.addresses().await?;
        let each = limit_of_each(&self.config, addresses.len());
        let mut failures = Vec::new();
        for address in addresses.into_iter().filter(|address| Some(address) != but) {
            let config = only(&config, &address);
            match timeout(each, self.try_one(&config, &address, carry, settings)).await {
                Ok(Ok(made)) => return Ok(made),
                Ok(Err(failure)) => failures.push((address, failure)),
                Err(_) => {
                    self.state.lock().silent = Some(address.clone());
                    failures.push((address, Failure::silent()));
                }
            }
        }
        Err(all_failed(failures))
    }

    async fn try_one(
        &self,
        config: &Config,
        address: &Address,
        carry: Carry<'_>,
        settings: &str,
    ) -> Result<(Client, Aborted, Server), Failure> {
        let tls = Telling::of(&self.tls, self.guard);
        let connected = match address {
            #[cfg(unix)]
            Address::Unix { path, port } if self.guard.is_some() => {
                connect_here(config, path, *port, tls.clone()).await
            }
            _ => config
                .connect(tls.clone())
                .await
                .map(|(client, connection)| (client, Carrier::Made(connection)))
                .map_err(Failure::from),
        };
        let (client, carrier) = connected.map_err(Failure::of_start_up)?;
        #[cfg(unix)]
        let is_made_here = matches!(carrier, Carrier::MadeHere(_));
        let carrier = Aborted(Some(carry(carrier)));
        #[cfg(unix)]
        if is_made_here {
            check_session(&client, config.get_target_session_attrs()).await?;
        }
        let answers = client.simple_query(&format!("{settings} {SERVER}")).await?;
        let started = answers.iter().rev().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let server = Server {
            address: address.clone(),
            started: started.unwrap_or_default().to_owned(),
            is_encrypted: tls.is_asked(),
        };
        Ok((client, carrier, server))
    }

    /// Takes in a new connection. Returns `None` if the connections have moved since it was begun and it leads
    /// elsewhere.
    fn settle(&self, (client, carrier, server): (Client, Aborted, Server), begun: u64) -> Option<(Client, Aborted)> {
        let mut state = self.state.lock();
        let State { current, silent, links } = &mut *state;
        let moves_on = match current {
            None => true,
            Some(current) if current.address == server.address => current.started != server.started,
            Some(current) => current.started != server.started || silent.as_ref() == Some(&current.address),
        };
        if moves_on && *self.moves.borrow() != begun {
            return None;
        }
        if silent.as_ref() == Some(&server.address) {
            *silent = None;
        }
        links.retain(|link| !link.is_finished());
        if moves_on {
            for link in links.drain(..) {
                link.abort();
            }
            *current = Some(server);
            self.moves.send_modify(|moves| *moves += 1);
        }
        links.extend(carrier.0.as_ref().map(JoinHandle::abort_handle));
        Some((client, carrier))
    }

    /// Returns the addresses of all hosts in the order in which they are tried, at most [`ADDRESSES_MAX`].
    async fn addresses(&self) -> Result<Vec<Address>, Failure> {
        let (hosts, numbers) = (self.config.get_hosts(), self.config.get_hostaddrs());
        let mut found = Vec::new();
        let mut failure = None;
        for i in 0..hosts.len().max(numbers.len()) {
            let ports = self.config.get_ports();
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
        if self.config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            // Any order will do if it differs from one process to the next.
            let by_chance = usize::try_from(uuid::Uuid::new_v4().as_u128() % 64).unwrap_or(0);
            let first = by_chance % found.len().max(1);
            found.rotate_left(first);
        }
        let state = self.state.lock();
        found.sort_by_key(|address| {
            if state.silent.as_ref() == Some(address) {
                2
            } else {
                i32::from(state.current.as_ref().is_none_or(|current| current.address != *address))
            }
        });
        Ok(found)
    }
}

/// Returns the time limit of each address: the limit in the URL, or else its share of [`CONNECT_TIMEOUT`], at least
/// [`CONNECT_TIMEOUT_MIN`].
fn limit_of_each(config: &Config, addresses: usize) -> Duration {
    let share = CONNECT_TIMEOUT / u32::try_from(addresses.max(1)).unwrap_or(u32::MAX);
    config
        .get_connect_timeout()
        .copied()
        .unwrap_or(share.max(CONNECT_TIMEOUT_MIN))
}

/// Opens a Unix socket, and makes the connector that guards and encrypts it. The client itself does not hand a Unix
/// socket to a connector.
#[cfg(unix)]
async fn opened_here(
    path: &Path,
    port: u16,
    mut tls: Telling,
) -> Result<(UnixStream, TellingOnce<UnixStream>), Failure> {
    let socket = UnixStream::connect(path.join(format!(".s.PGSQL.{port}"))).await;
    let socket = socket.map_err(|error| Failure::unreachable(format!("error connecting to server: {error}")))?;
    let tls = MakeTlsConnect::<UnixStream>::make_tls_connect(&mut tls, "").map_err(Failure::internal)?;
    Ok((socket, tls))
}

#[cfg(unix)]
async fn connect_here(config: &Config, path: &Path, port: u16, tls: Telling) -> Result<(Client, Carrier), Failure> {
    let (socket, tls) = opened_here(path, port, tls).await?;
    let (client, connection) = config.connect_raw(socket, tls).await?;
    Ok((client, Carrier::MadeHere(connection)))
}

/// Checks that a server takes writes, or that it takes none, if one of both is asked for. [`Config::connect`] does so,
/// and [`Config::connect_raw`] does not.
#[cfg(unix)]
async fn check_session(client: &Client, wanted: TargetSessionAttrs) -> Result<(), Failure> {
    let refused = match wanted {
        TargetSessionAttrs::ReadWrite => ("on", "database does not allow writes"),
        TargetSessionAttrs::ReadOnly => ("off", "database is not read only"),
        _ => return Ok(()),
    };
    let answers = client.simple_query("SHOW transaction_read_only").await?;
    let is_refused = answers.iter().any(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0) == Some(refused.0),
        _ => false,
    });
    if is_refused {
        return Err(Failure::unreachable(format!(
            "error connecting to server: {}",
            refused.1
        )));
    }
    Ok(())
}

async fn resolved(name: &str, port: u16) -> Result<Vec<IpAddr>, Failure> {
    let found = timeout(CONNECT_TIMEOUT, lookup_host((name, port))).await;
    let found =
        found.map_err(|_| Failure::unreachable(format!("the name of the host '{name}' was not resolved in time")))?;
    let mut ips: Vec<IpAddr> = Vec::new();
    for address in found.map_err(|error| Failure::unreachable(format!("the host '{name}' is not known: {error}")))? {
        if !ips.contains(&address.ip()) {
            ips.push(address.ip());
        }
    }
    Ok(ips)
}

/// Returns the same settings for one address.
fn only(config: &Config, address: &Address) -> Config {
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
fn all_failed(mut failures: Vec<(Address, Failure)>) -> Failure {
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

    /// Returns the URL of the tests' server, and the URL of its Unix socket if that accepts connections.
    async fn ways(query: &str) -> Vec<String> {
        let url = std::env::var("PERDURE_TEST_POSTGRES_URL")
            .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/postgres".to_owned());
        let with = |url: &str| format!("{url}{}{query}", if url.contains('?') { '&' } else { '?' });
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .expect("the server answers");
        let carried = tokio::spawn(connection);
        let asked = "SELECT split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_user::text, current_database()::text";
        let row = client.query_one(asked, &[]).await.expect("it is asked");
        carried.abort();
        let [folder, port, user, database] = [0, 1, 2, 3].map(|n| row.get::<_, String>(n));
        let local = format!("postgres://{user}@{}:{port}/{database}", folder.replace('/', "%2F"));
        let is_reached = !folder.is_empty() && tokio_postgres::connect(&local, tokio_postgres::NoTls).await.is_ok();
        let mut ways = vec![with(&url)];
        ways.extend(is_reached.then(|| with(&local)));
        ways
    }

    #[tokio::test]
    async fn a_statement_is_cancelled_on_every_way() {
        for query in ["", "require_auth=none,password,md5,scram-sha-256"] {
            for way in ways(query).await {
                let target = crate::url::parse(&way).expect("it is a URL");
                let mut config = target.config;
                let tls = crate::tls::connector(&target.tls, None, &mut config).expect("TLS can be used");
                let lineage = Arc::new(Lineage::new("x".into(), None));
                let hosts = Hosts::new(config, tls, target.require_auth, None, lineage);
                let carry: Carry<'_> = &|carrier| tokio::spawn(async move { drop(carrier.await) });
                let connected = hosts.try_all(carry, "", None).await.expect("it connects");
                let (client, _carried) = hosts.settle(connected, 0).expect("it is the first one");
                // A cancellation that comes before the statement does nothing.
                let waiting = client.batch_execute("SELECT pg_catalog.pg_sleep(60)");
                let cancelling = async {
                    loop {
                        hosts.cancel(client.cancel_token()).await;
                        tokio::task::yield_now().await;
                    }
                };
                let ended = tokio::select! {
                    ended = waiting => ended,
                    _ = timeout(Duration::from_secs(10), cancelling) => panic!("it is not cancelled: {way}"),
                };
                let code = ended.expect_err("it is cancelled").code().cloned();
                assert_eq!(code, Some(tokio_postgres::error::SqlState::QUERY_CANCELED), "{way}");
            }
        }
    }
}
