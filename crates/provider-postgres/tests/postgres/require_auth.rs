//! `require_auth` against played servers, which do what no real one does. The requests of real servers are tested with
//! `__test__/e2e/store/require-auth.test.ts`.

use std::time::Duration;

use perdure_provider::{ProviderError, ProviderErrorKind as Kind};
use perdure_provider_postgres::{Pooler, PostgresOptions, PostgresProvider};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Well above the time that a test takes, so that each test ends.
const SOON: Duration = Duration::from_secs(10);

/// A server that asks for SCRAM.
const SCRAM: &[u8] = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
/// A server that asks for nothing, or has got what it wanted, and waits for a statement.
const OK: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// The other end of a connection.
struct Client(TcpStream);

impl Client {
    /// Reads the first message, which has no type.
    async fn greeting(&mut self) {
        let len = self.0.read_u32().await.expect("it greets");
        self.body(len).await;
    }

    /// Reads the body of a message. `None`: the connection has ended.
    async fn message(&mut self) -> Option<Vec<u8>> {
        self.0.read_u8().await.ok()?;
        let len = self.0.read_u32().await.expect("it has a length");
        Some(self.body(len).await)
    }

    async fn body(&mut self, len: u32) -> Vec<u8> {
        let mut body = vec![0; usize::try_from(len).expect("it is short") - 4];
        self.0.read_exact(&mut body).await.expect("it is whole");
        body
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("it listens");
    }

    /// Sends a part of an exchange of SASL: 11 goes on, 12 is the last one.
    async fn say_sasl(&mut self, code: u8, text: &str) {
        let len = u32::try_from(8 + text.len()).expect("it is short");
        self.send(&[b"R", &len.to_be_bytes()[..], &[0, 0, 0, code], text.as_bytes()].concat())
            .await;
    }
}

/// Connects to a played server. Returns the error, and all that was sent after the greeting.
async fn connect<F: Future<Output = Vec<Vec<u8>>> + Send + 'static>(
    require_auth: &str,
    play: impl FnOnce(Client) -> F,
) -> (ProviderError, Vec<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let url = format!("postgres://app:s3cret@127.0.0.1:{port}/shop?sslmode=disable&require_auth={require_auth}");
    // This makes it open only one connection.
    let options = PostgresOptions {
        pooler: Some(Pooler::None),
        ..PostgresOptions::default()
    };
    let connecting = tokio::spawn(async move { PostgresProvider::connect(&url, options).await.err() });
    let mut client = Client(listener.accept().await.expect("it connects").0);
    client.greeting().await;
    let sent = timeout(SOON, play(client)).await.expect("it ends soon");
    let error = timeout(SOON, connecting).await.expect("it ends soon");
    let error = error.expect("it does not panic").expect("it is refused");
    assert!(!error.message.contains("s3cret"), "{error}");
    (error, sent)
}

/// Returns all that is sent until the connection ends.
async fn rest(mut client: Client, mut sent: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    while let Some(message) = client.message().await {
        sent.push(message);
    }
    sent
}

#[tokio::test]
async fn a_server_that_lets_us_in_at_once_is_refused_where_scram_is_required() {
    for require_auth in ["scram-sha-256", "!none", "md5,password"] {
        let (error, sent) = connect(require_auth, |mut client| async move {
            client.send(OK).await;
            rest(client, Vec::new()).await
        })
        .await;
        assert_eq!((error.kind, error.retryable()), (Kind::CannotOpen, false), "{error}");
        assert!(error.message.contains("no authentication"), "{error}");
        assert_eq!(sent, Vec::<Vec<u8>>::new(), "{require_auth}");
    }
}

#[tokio::test]
async fn a_message_before_the_method_does_not_hide_it() {
    for before in [
        &b"N\0\0\0\x05\0"[..],
        b"S\0\0\0\x08a\0b\0",
        b"Z\0\0\0\x05I",
        b"R\0\0\0\x04",
    ] {
        let (_, sent) = connect("scram-sha-256", move |mut client| async move {
            client.send(before).await;
            // A request for the password in plain text. The client may have gone.
            let _ = client.0.write_all(b"R\0\0\0\x08\0\0\0\x03").await;
            rest(client, Vec::new()).await
        })
        .await;
        assert_eq!(sent, Vec::<Vec<u8>>::new(), "{before:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_end_scram_is_refused() {
    let (_, sent) = connect("scram-sha-256", |mut client| async move {
        client.send(SCRAM).await;
        let first = client.message().await.expect("it answers");
        client.send(OK).await;
        rest(client, vec![first]).await
    })
    .await;
    assert_eq!(sent.len(), 1, "the first message, which holds nothing secret");
    assert!(sent[0].starts_with(b"SCRAM-SHA-256\0"), "{sent:?}");
}

#[tokio::test]
async fn a_server_that_does_not_know_the_password_is_refused() {
    let (error, sent) = connect("scram-sha-256", |mut client| async move {
        client.send(SCRAM).await;
        let first = client.message().await.expect("it answers");
        let text = String::from_utf8_lossy(&first).into_owned();
        let (_, nonce) = text.rsplit_once("r=").expect("it has a nonce");
        client
            .say_sasl(11, &format!("r={nonce}server,s=c2FsdHNhbHQ=,i=4096"))
            .await;
        let proof = client.message().await.expect("it goes on");
        client
            .say_sasl(12, "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
            .await;
        let _ = client.0.write_all(OK).await;
        rest(client, vec![first, proof]).await
    })
    .await;
    assert_eq!((error.kind, error.retryable()), (Kind::CannotOpen, false), "{error}");
    assert_eq!(sent.len(), 2, "nothing after the proof");
    let said = sent.concat();
    assert!(!said.windows(6).any(|part| part == b"s3cret"), "{sent:?}");
}
