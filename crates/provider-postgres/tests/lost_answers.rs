//! What the server wrote and could not say, and what never came to it: by a proxy that cuts the way between, and real statements on a real server.

mod common;

use std::sync::Arc;

use parking_lot::Mutex;
use perdure_engine::{EventId, ExecutionId, MessageBody, MessageSeq};
use perdure_provider::{
    AfterTurn, Epoch, InstanceKey, NewInstance, NewMessage, Outcome, Provider, ProviderError, Status, StatusChange,
    TurnCommit, WorkerId, Write,
};
use perdure_provider_contract::{completed, instance, new_worker, scheduled};
use perdure_provider_postgres::{PostgresOptions, PostgresProvider};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use common::{Schema, options, url};

/// Where the way is cut, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The next that is sent does not come to the server.
    Before,
    /// It does, and the answer does not come back.
    After,
    /// As [`After`](Self::After), for what ends a transaction.
    AfterCommit,
}

/// A way to the server.
#[derive(Default)]
struct Way(Mutex<Option<Cut>>);

impl Way {
    /// Take what is to be done about `sent`.
    fn cut(&self, sent: &[u8]) -> Option<Cut> {
        let mut cut = self.0.lock();
        match *cut {
            Some(Cut::AfterCommit) if !sent.windows(7).any(|word| word == b"COMMIT\0") => None,
            _ => cut.take(),
        }
    }

    async fn carry(&self, mut client: TcpStream, mut server: TcpStream) -> std::io::Result<()> {
        let (mut sent, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                n = client.read(&mut sent) => {
                    let n = n?;
                    let cut = self.cut(&sent[..n]);
                    if n == 0 || cut == Some(Cut::Before) {
                        return Ok(());
                    }
                    server.write_all(&sent[..n]).await?;
                    if cut.is_some() {
                        // It has been carried out when the server answers.
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
}

/// A store behind a way of its own, with one connection.
struct Store {
    provider: PostgresProvider,
    way: Arc<Way>,
    worker: WorkerId,
    other: tokio_postgres::Client,
    schema: Schema,
}

impl Store {
    async fn open() -> Self {
        let config: tokio_postgres::Config = url().parse().expect("a URL");
        let tokio_postgres::config::Host::Tcp(host) = config.get_hosts()[0].clone() else {
            panic!("a server that is reached by TCP");
        };
        let server = (host, config.get_ports()[0]);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let way = Arc::new(Way::default());
        let carrier = Arc::clone(&way);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server.clone()).await.expect("the server answers");
                let way = Arc::clone(&carrier);
                tokio::spawn(async move { way.carry(client, server).await });
            }
        });
        let password = config
            .get_password()
            .map(|word| format!(":{}", String::from_utf8_lossy(word)));
        let through = format!(
            "postgres://{}{}@127.0.0.1:{port}/{}?sslmode=disable",
            config.get_user().unwrap_or("postgres"),
            password.unwrap_or_default(),
            config.get_dbname().unwrap_or("postgres"),
        );
        let schema = Schema::new();
        let options = PostgresOptions {
            pool_size: 1,
            ..options(&schema)
        };
        let provider = PostgresProvider::connect(&through, options).await.expect("it opens");
        let worker = new_worker("worker");
        provider
            .register_worker(worker.clone())
            .await
            .expect("it is registered");
        let other = common::other_program().await;
        Self {
            provider,
            way,
            worker: worker.id,
            other,
            schema,
        }
    }

    async fn batch(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, ProviderError> {
        let (answer, answered) = oneshot::channel();
        self.provider.commit(
            Arc::new(writes),
            Box::new(move |result| answer.send(result).expect("somebody waits")),
        );
        answered.await.expect("it is answered")
    }

    /// Write, and cut the way once while that is under way.
    async fn cut(&self, cut: Cut, writes: Vec<Write>) -> Result<Vec<Outcome>, ProviderError> {
        *self.way.0.lock() = Some(cut);
        let outcomes = self.batch(writes).await;
        assert_eq!(*self.way.0.lock(), None, "the way was cut");
        outcomes
    }

    /// Start an instance that this worker owns.
    async fn started(&self, id: &str) -> InstanceKey {
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

    fn start(&self, id: &str) -> Write {
        Write::Start(Box::new(NewInstance {
            claim: Some(self.worker.clone()),
            ..instance(id)
        }))
    }

    /// The turn that appends event `event`.
    fn turn(&self, key: InstanceKey, event: u64) -> TurnCommit {
        TurnCommit {
            key,
            worker: self.worker.clone(),
            epoch: Epoch(1),
            execution: ExecutionId::FIRST,
            next_event_id: EventId(event),
            events: vec![scheduled(event)],
            consumed: Vec::new(),
            seen: MessageSeq(0),
            heartbeats_over: Vec::new(),
            custom_status: None,
            to_others: None,
            after: AfterTurn::Hold,
            tell_status: false,
            time_ms: 2,
        }
    }

    fn end(&self, key: InstanceKey, event: u64) -> TurnCommit {
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

    /// Numbers that the rows show.
    async fn count(&self, what: &str) -> i64 {
        let query = what.replace("{schema}", &format!("\"{}\"", self.schema.0));
        self.other.query_one(&query, &[]).await.expect("it is asked").get(0)
    }

    async fn events(&self) -> i64 {
        self.count("SELECT count(*) FROM {schema}.history").await
    }
}

fn turns(turns: impl IntoIterator<Item = TurnCommit>) -> Vec<Write> {
    turns.into_iter().map(|turn| Write::Turn(Box::new(turn))).collect()
}

const COMMITTED: Outcome = Outcome::Committed {
    status: None,
    wake_at_ms: None,
    others: None,
};

const CUTS: [Cut; 2] = [Cut::Before, Cut::After];

#[tokio::test]
async fn turns_are_written_once() {
    let store = Store::open().await;
    let keys = [store.started("a").await, store.started("b").await];
    let mut event = 1;
    // One alone has a statement of its own.
    for of in [&keys[..], &keys[..1]] {
        let mut next = || {
            event += 1;
            turns(of.iter().map(|key| store.turn(*key, event)))
        };
        for cut in CUTS {
            let committed = Ok(vec![COMMITTED; of.len()]);
            // The statement is prepared by this: what is cut is the statement.
            assert_eq!(store.batch(next()).await, committed);
            assert_eq!(store.cut(cut, next()).await, committed, "{cut:?}");
        }
    }
    assert_eq!(store.events().await, 2 + 4 * 2 + 4);
    let moved =
        "SELECT count(*) FROM {schema}.instances WHERE (id, next_event_id, turns) IN (('a', 10, 8), ('b', 6, 4))";
    assert_eq!(store.count(moved).await, 2);
    store.provider.close().await;
}

#[tokio::test]
async fn what_was_fenced_off_stays_so() {
    let store = Store::open().await;
    let [passes, stale] = [store.started("passes").await, store.started("stale").await];
    assert_eq!(
        store.batch(turns([store.turn(passes, 2), store.turn(stale, 2)])).await,
        Ok(vec![COMMITTED; 2])
    );
    // It says again what was written long ago, with other values.
    let again = TurnCommit {
        time_ms: 3,
        ..store.turn(stale, 2)
    };
    let other = TurnCommit {
        epoch: Epoch(2),
        ..store.turn(stale, 3)
    };
    for (n, cut) in CUTS.into_iter().enumerate() {
        let batch = turns([store.turn(passes, 3 + n as u64), other.clone()]);
        assert_eq!(
            store.cut(cut, batch).await,
            Ok(vec![COMMITTED, Outcome::Fenced]),
            "{cut:?}"
        );
    }
    assert_eq!(store.batch(turns([store.turn(stale, 3)])).await, Ok(vec![COMMITTED]));
    assert_eq!(store.batch(turns([again])).await, Ok(vec![Outcome::Fenced]));
    assert_eq!(store.events().await, 2 + 3 + 2);
    store.provider.close().await;
}

#[tokio::test]
async fn ends_are_written_once_and_tell_the_status() {
    let store = Store::open().await;
    for cut in CUTS {
        // The statement is prepared by this: what is cut is the statement.
        let first = store.started(&format!("first {cut:?}")).await;
        store.batch(turns([store.end(first, 2)])).await.expect("it is written");
        let id = format!("{cut:?}");
        let key = store.started(&id).await;
        let outcomes = store.cut(cut, turns([store.end(key, 2)])).await.expect("it is written");
        let [
            Outcome::Committed {
                status: Some(status), ..
            },
        ] = &outcomes[..]
        else {
            panic!("{cut:?}: it tells the status, not {outcomes:?}");
        };
        let read = store.provider.statuses(vec![id]).await.expect("it is read");
        assert_eq!(read, [Some((**status).clone())], "{cut:?}");
        assert_eq!(
            (status.status, status.result.as_deref()),
            (Status::Completed, Some("7"))
        );
        assert_eq!(
            (status.custom_status.as_deref(), status.custom_status_version),
            (Some("\"all\""), 1)
        );
    }
    assert_eq!(store.events().await, 4 * 2);
    store.provider.close().await;
}

#[tokio::test]
async fn starts_are_written_once_or_fail_as_what_may_pass() {
    let store = Store::open().await;
    store.started("first").await;
    let lost = store.cut(Cut::Before, vec![store.start("a")]).await;
    assert!(lost.as_ref().is_err_and(ProviderError::retryable), "{lost:?}");
    assert_eq!(
        store
            .count("SELECT count(*) FROM {schema}.instances WHERE id = 'a'")
            .await,
        0
    );
    let a = store.started("a").await;
    let outcomes = store
        .cut(Cut::After, vec![store.start("b")])
        .await
        .expect("it is written");
    let [
        Outcome::Started {
            key,
            claimed: Some(Epoch(1)),
            turn: None,
        },
    ] = outcomes[..]
    else {
        panic!("it was started, not {outcomes:?}");
    };
    assert_ne!(key, a);
    // It has the key that was told.
    assert_eq!(store.batch(turns([store.turn(key, 2)])).await, Ok(vec![COMMITTED]));
    // What is there is not started by an answer that is lost.
    let again = store.cut(Cut::After, vec![store.start("b")]).await;
    match again {
        Ok(outcomes) => assert_eq!(outcomes, [Outcome::Exists]),
        Err(error) => assert!(error.retryable(), "{error}"),
    }
    assert_eq!(store.count("SELECT count(*) FROM {schema}.instances").await, 3);
    store.provider.close().await;
}

fn message() -> Write {
    Write::Message(NewMessage {
        instance: "a".into(),
        body: MessageBody::Cancel { reason: None },
        unread_max: None,
        time_ms: 2,
    })
}

#[tokio::test]
async fn messages_are_written_once_or_fail_as_what_may_pass() {
    let store = Store::open().await;
    let key = store.started("a").await;
    store.batch(vec![message()]).await.expect("it is written");
    let lost = store.cut(Cut::Before, vec![message()]).await;
    assert!(lost.as_ref().is_err_and(ProviderError::retryable), "{lost:?}");
    // The statement is prepared by this: what is cut is the statement.
    store.batch(vec![message()]).await.expect("it is written");
    assert_eq!(
        store.cut(Cut::After, vec![message()]).await,
        Ok(vec![Outcome::Delivered {
            key,
            seq: MessageSeq(3),
            owner: Some(store.worker.clone()),
        }])
    );
    assert_eq!(store.count("SELECT count(*) FROM {schema}.messages").await, 3);
    // What takes no message does not by an answer that is lost.
    store.batch(vec![message()]).await.expect("it is written");
    let nobody = Write::Message(NewMessage {
        instance: "nobody".into(),
        body: MessageBody::Cancel { reason: None },
        unread_max: None,
        time_ms: 2,
    });
    let lost = store.cut(Cut::After, vec![nobody]).await;
    match lost {
        Ok(outcomes) => assert_eq!(outcomes, [Outcome::NotFound]),
        Err(error) => assert!(error.retryable(), "{error}"),
    }
    store.provider.close().await;
}

#[tokio::test]
async fn transactions_are_written_once_or_fail_as_what_may_pass() {
    let store = Store::open().await;
    store.started("a").await;
    // Of two there is no statement.
    let two = || vec![message(), message()];
    store.batch(two()).await.expect("it is written");
    let lost = store.cut(Cut::Before, two()).await;
    assert!(lost.as_ref().is_err_and(ProviderError::retryable), "{lost:?}");
    let outcomes = store.cut(Cut::AfterCommit, two()).await.expect("it is written");
    assert!(
        matches!(
            outcomes[..],
            [
                Outcome::Delivered { seq: MessageSeq(3), .. },
                Outcome::Delivered { seq: MessageSeq(4), .. }
            ]
        ),
        "{outcomes:?}"
    );
    assert_eq!(store.count("SELECT count(*) FROM {schema}.messages").await, 4);
    store.provider.close().await;
}
