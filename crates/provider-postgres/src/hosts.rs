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

#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
#[cfg(unix)]
use tokio_postgres::config::TargetSessionAttrs;
#[cfg(unix)]
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, Connection, SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::addresses::{Address, addresses_of, all_failed, limit_of_each, only};
use crate::auth::RequireAuth;
use crate::auth_stream::AuthStream;
use crate::error::Failure;
use crate::lineage::Lineage;
use crate::options::{CONNECT_TIMEOUT, PASSWORD_MAX, PasswordSource};
#[cfg(unix)]
use crate::tls::StreamConnector;
use crate::tls::{AuthConnector, AuthRule};

/// The future that drives a connection. A task has to poll it.
pub(crate) enum Driver {
    Made(Connection<Socket, AuthStream<Socket>>),
    /// A connection over a Unix socket that this crate has opened.
    #[cfg(unix)]
    MadeHere(Connection<UnixStream, AuthStream<UnixStream>>),
}

impl Driver {
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

impl Future for Driver {
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
pub(crate) type SpawnDriver<'c> = &'c (dyn Fn(Driver) -> JoinHandle<()> + Send + Sync);

/// The first question on a connection: when its server was started, which no two servers have in common.
const SERVER: &str = "SELECT pg_catalog.pg_postmaster_start_time()";

pub(crate) struct Hosts {
    /// The configuration of the URL, with all its hosts.
    config: Config,
    tls: MakeRustlsConnect,
    /// Set if the URL has `require_auth`.
    auth_rule: Option<AuthRule>,
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

/// A task that is aborted when its holder is dropped.
pub(crate) struct AbortOnDrop(Option<JoinHandle<()>>);

impl AbortOnDrop {
    /// Lets the task go on without a holder.
    pub(crate) fn detach(mut self) -> JoinHandle<()> {
        self.0.take().expect("it is there until it is kept")
    }
}

impl Drop for AbortOnDrop {
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
        let auth_rule = require_auth.map(|rule| AuthRule::before(&mut config, rule));
        Self {
            config,
            tls,
            auth_rule,
            password,
            lineage,
            state: Mutex::default(),
            moves: watch::Sender::new(0),
        }
    }

    /// Makes a connection to the first server that accepts it. `settings` are run on it first.
    pub(crate) async fn connect(
        &self,
        spawn: SpawnDriver<'_>,
        settings: &str,
    ) -> Result<(Client, AbortOnDrop), Failure> {
        let mut moves = self.moves.subscribe();
        loop {
            let begun = *moves.borrow_and_update();
            let connected = tokio::select! {
                biased;
                // Other connections have found a server meanwhile.
                _ = moves.changed() => continue,
                connected = self.try_all(spawn, settings, None) => connected?,
            };
            if let Some(made) = self.settle(connected, begun) {
                let checked = timeout(CONNECT_TIMEOUT, self.lineage.check(&made.0)).await;
                checked.map_err(|_| Failure::silent())??;
                return Ok(made);
            }
        }
    }

    /// Tries each address except the current one. If a server there takes writes, the connections move to it.
    pub(crate) async fn look_elsewhere(&self, spawn: SpawnDriver<'_>) {
        let begun = *self.moves.borrow();
        let Some(current) = self.state.lock().current.clone() else {
            return;
        };
        if let Ok(connected) = self.try_all(spawn, "", Some(&current.address)).await {
            drop(self.settle(connected, begun));
        }
    }

    /// Returns a warning for the user if the connections go over a network without encryption.
    pub(crate) fn warning(&self, location: &str) -> Option<String> {
        let state = self.state.lock();
        let is_open_to_all = state.current.as_ref().is_some_and(|server| match &server.address {
            Address::Tcp { ip, .. } => !ip.is_loopback() && !server.is_encrypted,
            #[cfg(unix)]
            Address::Unix { .. } => false,
        });
        is_open_to_all.then(|| {
            format!(
                "The Postgres store '{location}' is on another machine and its connections are not encrypted: others \
                 on the network can read and change the data, and read passwords. Set sslmode=verify-full in the URL, \
                 or `tls: true`."
            )
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
        let tls = AuthConnector::of(&self.tls, self.auth_rule);
        drop(timeout(CONNECT_TIMEOUT, self.send_cancel(&token, tls)).await);
    }

    async fn send_cancel(&self, token: &CancelToken, tls: AuthConnector) -> Result<(), Failure> {
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
        self.auth_rule?;
        match &self.state.lock().current.as_ref()?.address {
            Address::Unix { path, port } => Some((path.clone(), *port)),
            Address::Tcp { .. } => None,
        }
    }

    async fn try_all(
        &self,
        spawn: SpawnDriver<'_>,
        settings: &str,
        but: Option<&Address>,
    ) -> Result<(Client, AbortOnDrop, Server), Failure> {
        let mut config = self.config.clone();
        if let Some(source) = &self.password {
            let password = timeout(PASSWORD_MAX, source.password()).await;
            config.password(
                password
                    .map_err(|_| Failure::unreachable("`password` returned none in time"))?
                    .map_err(|error| Failure::Found(error.kind, error.message))?,
            );
        }
        let addresses = self.addresses().await?;
        let each = limit_of_each(&self.config, addresses.len());
        let mut failures = Vec::new();
        for address in addresses.into_iter().filter(|address| Some(address) != but) {
            let config = only(&config, &address);
            match timeout(each, self.try_one(&config, &address, spawn, settings)).await {
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
        spawn: SpawnDriver<'_>,
        settings: &str,
    ) -> Result<(Client, AbortOnDrop, Server), Failure> {
        let tls = AuthConnector::of(&self.tls, self.auth_rule);
        let connected = match address {
            #[cfg(unix)]
            Address::Unix { path, port } if self.auth_rule.is_some() => {
                connect_here(config, path, *port, tls.clone()).await
            }
            _ => config
                .connect(tls.clone())
                .await
                .map(|(client, connection)| (client, Driver::Made(connection)))
                .map_err(Failure::from),
        };
        let (client, driver) = connected.map_err(Failure::of_start_up)?;
        #[cfg(unix)]
        let is_made_here = matches!(driver, Driver::MadeHere(_));
        let driver = AbortOnDrop(Some(spawn(driver)));
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
        Ok((client, driver, server))
    }

    /// Takes in a new connection. Returns `None` if the connections have moved since it was begun and it leads
    /// elsewhere.
    fn settle(
        &self,
        (client, driver, server): (Client, AbortOnDrop, Server),
        begun: u64,
    ) -> Option<(Client, AbortOnDrop)> {
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
        links.extend(driver.0.as_ref().map(JoinHandle::abort_handle));
        Some((client, driver))
    }

    /// Returns the addresses of all hosts in the order in which they are tried.
    async fn addresses(&self) -> Result<Vec<Address>, Failure> {
        let mut found = addresses_of(&self.config).await?;
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

/// Opens a Unix socket, and makes the connector that guards and encrypts it. The client itself does not hand a Unix
/// socket to a connector.
#[cfg(unix)]
async fn opened_here(
    path: &Path,
    port: u16,
    mut tls: AuthConnector,
) -> Result<(UnixStream, StreamConnector<UnixStream>), Failure> {
    let socket = UnixStream::connect(path.join(format!(".s.PGSQL.{port}"))).await;
    let socket = socket.map_err(|error| Failure::unreachable(format!("error connecting to server: {error}")))?;
    let tls = MakeTlsConnect::<UnixStream>::make_tls_connect(&mut tls, "").map_err(Failure::internal)?;
    Ok((socket, tls))
}

#[cfg(unix)]
async fn connect_here(
    config: &Config,
    path: &Path,
    port: u16,
    tls: AuthConnector,
) -> Result<(Client, Driver), Failure> {
    let (socket, tls) = opened_here(path, port, tls).await?;
    let (client, connection) = config.connect_raw(socket, tls).await?;
    Ok((client, Driver::MadeHere(connection)))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the URL of the tests' server, and the URL of its Unix socket if that accepts connections.
    async fn ways(query: &str) -> Vec<String> {
        let url = std::env::var("PERDURE_TEST_POSTGRES_URL")
            .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/postgres".to_owned());
        let with = |url: &str| format!("{url}{}{query}", if url.contains('?') { '&' } else { '?' });
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .expect("the server answers");
        let carried = tokio::spawn(connection);
        let asked = "SELECT split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'),
        current_user::text, current_database()::text";
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
                let spawn: SpawnDriver<'_> = &|driver| tokio::spawn(async move { drop(driver.await) });
                let connected = hosts.try_all(spawn, "", None).await.expect("it connects");
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
