//! A store behind a proxy that loses what is sent, or delivers it late.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use perdure_engine::{EventId, ExecutionId, Mailbox, MessageBody, StreamAppend, StreamKeep};
use perdure_provider::{
    ActivityAppend, AfterTurn, Epoch, InstanceKey, NewInstance, NewMessage, Outcome, Provider, ProviderError, Reporter,
    Status, StatusChange, TurnCommit, WorkerId, Write,
};
use perdure_provider_contract::{completed, idle_turn, instance, new_worker, scheduled};
use perdure_provider_postgres::{Pooler, PostgresOptions, PostgresProvider};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::{Schema, commit, options, other_program, url};

/// The moment at which the proxy is cut, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The next data that is sent does not reach the server.
    Before,
    /// The data reaches the server, and the answer does not come back.
    After,
    /// Like [`After`](Self::After), for the end of a transaction.
    AfterCommit,
    /// The data is [delivered](LossyProxy::deliver) when the client has long lost its connection.
    Late,
    /// Like [`Late`](Self::Late), for the end of a transaction.
    LateCommit,
    /// The beginning of a transaction is answered with an error, as by a pooler that has no connection to the server.
    /// The statements after it reach the server.
    Begin,
}

impl Cut {
    fn is_of_commit(self) -> bool {
        matches!(self, Self::AfterCommit | Self::LateCommit)
    }

    fn is_late(self) -> bool {
        matches!(self, Self::Late | Self::LateCommit)
    }
}

/// A proxy to the server.
#[derive(Default)]
pub(crate) struct LossyProxy {
    pub(crate) cut: Mutex<Option<Cut>>,
    /// The data that is still to be delivered, with the connections to the server.
    late: Mutex<Vec<(TcpStream, Vec<u8>)>>,
    /// The number of next connections that are refused.
    pub(crate) refusals: AtomicUsize,
    /// Notified when the change notifier of the store has its connection.
    has_notifier: Notify,
    /// Breaks all connections.
    broken: Notify,
}

/// A part of what only the change notifier asks, with each of its connections at the beginning and then once a second.
const OF_NOTIFIER: &[u8] = b"pg_snapshot_xmax";

/// The beginning of a connection that asks for a cancellation: its length and its code.
const CANCEL: [u8; 8] = [0, 0, 0, 16, 4, 210, 22, 46];

impl LossyProxy {
    /// Takes the cut that applies to `sent`, if there is one.
    fn cut(&self, sent: &[u8]) -> Option<Cut> {
        let mut cut = self.cut.lock();
        match *cut {
            Some(of) if of.is_of_commit() && !sent.windows(7).any(|word| word == b"COMMIT\0") => None,
            Some(Cut::Begin) if sent.first() != Some(&b'Q') || !sent.windows(6).any(|word| word == b"BEGIN ") => None,
            _ if sent.starts_with(&CANCEL) => None,
            _ => cut.take(),
        }
    }

    async fn carry(&self, mut client: TcpStream, mut server: TcpStream) -> std::io::Result<()> {
        let (mut sent, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        // The change notifier sends what it likes at any time. Its connection is not cut: the cut is for a write.
        let mut is_of_notifier = false;
        loop {
            tokio::select! {
                () = self.broken.notified() => return Ok(()),
                n = client.read(&mut sent) => {
                    let mut sent = &sent[..n?];
                    if !is_of_notifier && sent.windows(OF_NOTIFIER.len()).any(|word| word == OF_NOTIFIER) {
                        is_of_notifier = true;
                        self.has_notifier.notify_one();
                    }
                    let mut cut = if is_of_notifier { None } else { self.cut(sent) };
                    if cut == Some(Cut::Begin) {
                        let length = u32::from_be_bytes(sent[1..5].try_into().expect("four bytes"));
                        client.write_all(&said("ERROR", "53300", "the pool has no connection to the server")).await?;
                        client.write_all(&[&READY[..], b"I"].concat()).await?;
                        cut = None;
                        sent = &sent[1 + length as usize..];
                        if sent.is_empty() {
                            continue;
                        }
                    }
                    if sent.is_empty() || cut == Some(Cut::Before) {
                        return Ok(());
                    }
                    if cut.is_some_and(Cut::is_late) {
                        self.late.lock().push((server, sent.to_vec()));
                        return Ok(());
                    }
                    server.write_all(sent).await?;
                    if cut.is_some() {
                        // The statement has been carried out when the server answers.
                        let _answer = server.read(&mut answered).await?;
                        return Ok(());
                    }
                }
                n = server.read(&mut answered) => {
                    let n = n?;
                    if n == 0 {
                        return Ok(());
                    }
                    client.write_all(&answered[..n]).await?;
                }
            }
        }
    }

    /// Tells a new connection that its role may not log in.
    async fn refuse(&self, mut client: TcpStream) -> std::io::Result<()> {
        let mut sent = vec![0; 1 << 16];
        let _startup = client.read(&mut sent).await?;
        client
            .write_all(&said("FATAL", "28000", "role is not permitted to log in"))
            .await
    }

    /// Breaks all connections.
    pub(crate) fn break_all(&self) {
        self.broken.notify_waiters();
    }

    /// Delivers the late data, and returns when it has been carried out.
    pub(crate) async fn deliver(&self) {
        let late = std::mem::take(&mut *self.late.lock());
        for (mut server, sent) in late {
            server.write_all(&sent).await.expect("the server takes it");
            let mut answered = vec![0; 1 << 16];
            // Reads until the server ends the connection, or says that it is ready for more.
            while server
                .read(&mut answered)
                .await
                .is_ok_and(|n| n > 0 && answered[n - 6..n - 1] != READY)
            {}
        }
    }

    /// Loses the late data for ever.
    pub(crate) fn lose(&self) {
        self.late.lock().clear();
    }
}

/// `ReadyForQuery`, but for the state.
const READY: [u8; 5] = [b'Z', 0, 0, 0, 5];

/// `ErrorResponse`.
fn said(severity: &str, state: &str, message: &str) -> Vec<u8> {
    let fields = format!("S{severity}\0V{severity}\0C{state}\0M{message}\0\0");
    let length = u32::try_from(fields.len() + 4).expect("it is short");
    [b"E", &length.to_be_bytes()[..], fields.as_bytes()].concat()
}

/// A store behind a proxy of its own, with one connection in the pool.
pub(crate) struct Store {
    pub(crate) provider: PostgresProvider,
    pub(crate) proxy: Arc<LossyProxy>,
    pub(crate) worker: WorkerId,
    pub(crate) other: tokio_postgres::Client,
    pub(crate) schema: Schema,
}

impl Store {
    pub(crate) async fn open() -> Self {
        Self::open_schema(Schema::new(), "", |options| options).await
    }

    /// Opens a store as behind a pooler that gives a connection to each transaction.
    pub(crate) async fn open_pooled() -> Self {
        let pooled = |options| PostgresOptions {
            notify: Some(false),
            pooler: Some(Pooler::Transaction),
            prepare: Some(false),
            ..options
        };
        Self::open_schema(Schema::new(), "", pooled).await
    }

    /// Opens a store on a server that waits for a lock longer than the client waits for an answer.
    pub(crate) async fn open_patient() -> Self {
        let limits = "&options=-c%20lock_timeout%3D120s%20-c%20statement_timeout%3D120s";
        Self::open_schema(Schema::new(), limits, |options| options).await
    }

    /// Opens the store of a schema again, as another process.
    pub(crate) async fn open_in(schema: &Schema) -> Self {
        Self::open_schema(Schema::named(schema.0.clone()), "", |options| options).await
    }

    async fn open_schema(
        schema: Schema,
        settings: &str,
        with: impl FnOnce(PostgresOptions) -> PostgresOptions,
    ) -> Self {
        let config: tokio_postgres::Config = url().parse().expect("a URL");
        let tokio_postgres::config::Host::Tcp(host) = config.get_hosts()[0].clone() else {
            panic!("a server that is reached by TCP");
        };
        let server = (host, config.get_ports()[0]);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let proxy = Arc::new(LossyProxy::default());
        let accepting = Arc::clone(&proxy);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let refusals = &accepting.refusals;
                if refusals
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1))
                    .is_ok()
                {
                    let proxy = Arc::clone(&accepting);
                    tokio::spawn(async move { proxy.refuse(client).await });
                    continue;
                }
                let server = TcpStream::connect(server.clone()).await.expect("the server answers");
                let proxy = Arc::clone(&accepting);
                tokio::spawn(async move { proxy.carry(client, server).await });
            }
        });
        let password = config
            .get_password()
            .map(|word| format!(":{}", String::from_utf8_lossy(word)));
        let through = format!(
            "postgres://{}{}@127.0.0.1:{port}/{}?sslmode=disable{settings}",
            config.get_user().unwrap_or("postgres"),
            password.unwrap_or_default(),
            config.get_dbname().unwrap_or("postgres"),
        );
        let options = with(PostgresOptions {
            pool_size: 1,
            ..options(&schema)
        });
        let provider = PostgresProvider::connect(&through, options).await.expect("it opens");
        proxy.has_notifier.notified().await;
        let worker = new_worker(&format!("worker {port}"));
        provider
            .register_worker(worker.clone())
            .await
            .expect("it is registered");
        let other = other_program().await;
        Self {
            provider,
            proxy,
            worker: worker.id,
            other,
            schema,
        }
    }

    pub(crate) async fn batch(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, ProviderError> {
        commit(&self.provider, writes).await
    }

    /// Writes a batch, and cuts the proxy once while that is under proxy.
    pub(crate) async fn cut(&self, cut: Cut, writes: Vec<Write>) -> Result<Vec<Outcome>, ProviderError> {
        *self.proxy.cut.lock() = Some(cut);
        let outcomes = self.batch(writes).await;
        assert_eq!(*self.proxy.cut.lock(), None, "the proxy was cut");
        outcomes
    }

    /// Starts an instance that this worker owns.
    pub(crate) async fn started(&self, id: &str) -> InstanceKey {
        let outcomes = self.batch(vec![self.start(id)]).await.expect("it is written");
        let [
            Outcome::Started {
                key,
                claimed: Some(Epoch(1)),
                ..
            },
        ] = outcomes[..]
        else {
            panic!("it is started, not {outcomes:?}");
        };
        key
    }

    pub(crate) fn start(&self, id: &str) -> Write {
        Write::Start(Box::new(NewInstance {
            claim: Some(self.worker.clone()),
            ..instance(id)
        }))
    }

    /// Returns the turn that appends event `event`.
    pub(crate) fn turn(&self, key: InstanceKey, event: u64) -> TurnCommit {
        TurnCommit {
            events: vec![scheduled(event)],
            time_ms: 2,
            ..idle_turn(key, &self.worker, Epoch(1), EventId(event))
        }
    }

    /// Returns the append of an entry by an activity.
    pub(crate) fn append(&self, key: InstanceKey, entry: &str) -> Write {
        let mut append = StreamAppend::new("log", StreamKeep::default());
        append.push(Some(entry));
        Write::Append(Box::new(ActivityAppend {
            key,
            worker: self.worker.clone(),
            by: Reporter::Owner(Epoch(1)),
            execution: ExecutionId::FIRST,
            scheduled: EventId(2),
            attempt: 1,
            begins: false,
            append,
            time_ms: 2,
        }))
    }

    pub(crate) fn end(&self, key: InstanceKey, event: u64) -> TurnCommit {
        TurnCommit {
            events: vec![completed(event, Some("7".into()))],
            custom_status: Some(StatusChange {
                value: Some("\"all\"".into()),
            }),
            after: AfterTurn::End {
                status: Status::Completed,
            },
            tell_status: true,
            ..self.turn(key, event)
        }
    }

    /// Returns the number that a query of the rows gives.
    pub(crate) async fn count(&self, what: &str) -> i64 {
        let query = what.replace("{schema}", &format!("\"{}\"", self.schema.0));
        self.other.query_one(&query, &[]).await.expect("it is asked").get(0)
    }

    pub(crate) async fn events(&self) -> i64 {
        self.count("SELECT count(*) FROM {schema}.history").await
    }
}

pub(crate) fn turns(turns: impl IntoIterator<Item = TurnCommit>) -> Vec<Write> {
    turns.into_iter().map(|turn| Write::Turn(Box::new(turn))).collect()
}

pub(crate) const COMMITTED: Outcome = Outcome::Committed {
    status: None,
    wake_at_ms: None,
    others: None,
};

/// Returns a message that is one statement. A request to cancel would be a transaction.
pub(crate) fn message(to: &str) -> Write {
    Write::Message(NewMessage {
        instance: to.into(),
        body: MessageBody::Mail {
            mailbox: Mailbox::Event("go".into()),
            payload: None,
        },
        unread_max: None,
        time_ms: 2,
    })
}
