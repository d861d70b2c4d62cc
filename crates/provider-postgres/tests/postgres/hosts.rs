//! Several hosts in a URL, some of which are silent: they accept connections, or have accepted them, and never send a
//! byte, like a server whose processes are stopped. A refused connection would be noticed at once. A silent host is
//! noticed only by its silence.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perdure_provider::{Provider, WorkerId};
use perdure_provider_contract::new_worker;
use perdure_provider_postgres::PostgresProvider;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::common::{Schema, options, url};

/// Well below the time limit of a statement, which ends the wait for a silent server in the end.
const SOON: Duration = Duration::from_secs(10);

fn server() -> (String, u16) {
    let config: tokio_postgres::Config = url().parse().expect("a URL");
    let tokio_postgres::config::Host::Tcp(host) = config.get_hosts()[0].clone() else {
        panic!("a server that is reached by TCP");
    };
    (host, config.get_ports()[0])
}

/// Returns the URL of the tests' server with another host before it.
fn url_with_first(address: SocketAddr) -> String {
    let (host, port) = server();
    url().replacen(&format!("{host}:{port}"), &format!("{address},{host}:{port}"), 1)
}

/// Starts a host that accepts connections and keeps them.
async fn silent_host() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            kept.push(socket);
        }
    });
    address
}

/// Starts a proxy to the server on which nothing goes on once it is frozen. It accepts connections all the same.
async fn proxy() -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let frozen = Arc::new(AtomicBool::new(false));
    let is_frozen = Arc::clone(&frozen);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let is_frozen = Arc::clone(&is_frozen);
            tokio::spawn(async move {
                let server = TcpStream::connect(server()).await.expect("the server answers");
                carry(client, server, &is_frozen).await
            });
        }
    });
    (address, frozen)
}

async fn carry(mut client: TcpStream, mut server: TcpStream, is_frozen: &AtomicBool) -> std::io::Result<()> {
    let (mut sent, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let (to, bytes) = tokio::select! {
            n = client.read(&mut sent) => (&mut server, &sent[..n?]),
            n = server.read(&mut answered) => (&mut client, &answered[..n?]),
        };
        if is_frozen.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        to.write_all(bytes).await?;
    }
}

#[tokio::test]
async fn a_silent_host_is_skipped() {
    let schema = Schema::new();
    let url = url_with_first(silent_host().await);
    let opening = timeout(SOON, PostgresProvider::connect(&url, options(&schema)));
    let store = opening
        .await
        .expect("it is skipped soon")
        .expect("the next host is taken");
    store.close().await;
}

#[tokio::test]
async fn all_connections_leave_a_host_that_falls_silent() {
    let schema = Schema::new();
    let (first, frozen) = proxy().await;
    let store = PostgresProvider::connect(&url_with_first(first), options(&schema))
        .await
        .expect("it opens");
    let store = Arc::new(store);
    let worker = new_worker("w");
    store.register_worker(worker.clone()).await.expect("it is registered");

    frozen.store(true, Ordering::Release);
    // Some renewals are under proxy, more than the pool has connections, and then a new one.
    let mut renewing = JoinSet::new();
    for _ in 0..20 {
        renewing.spawn(renew(Arc::clone(&store), worker.id.clone()));
    }
    timeout(SOON, renewing.join_all()).await.expect("all go on soon");
    timeout(SOON, renew(Arc::clone(&store), worker.id))
        .await
        .expect("so does a new one");
    store.close().await;
}

/// Renews again and again, as the runtime does.
async fn renew(store: Arc<PostgresProvider>, worker: WorkerId) {
    while store.renew_worker(&worker, 60_000, None).await.is_err() {
        tokio::task::yield_now().await;
    }
}
