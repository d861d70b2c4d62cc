//! Statements that a store sends, counted on their proxy to the server: any amount of data is deleted by few of them.
//! Each is a round trip, and 8 000 executions once took three apiece.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perdure_engine::{EndEvent, EventId, EventRecord, ExecutionId, StreamAppend, StreamKeep};
use perdure_provider::{
    Acquire, ActivityAppend, AfterTurn, Epoch, Filter, InstanceKey, NewInstance, NextExecution, Outcome, PageLimit,
    Provider, PruneExecutions, PrunedExecutions, QueueEntry, QueueSettings, Reporter, Status, TurnCommit, WorkerId,
    Write,
};
use perdure_provider_contract::{completed, idle_turn, instance, new_worker};
use perdure_provider_postgres::{PostgresOptions, PostgresProvider};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{Schema, commit, options, url};

/// Carries the messages of a client, and counts the statements that it has the server carry out.
async fn count(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    statements: Arc<AtomicU64>,
) -> std::io::Result<()> {
    // The first message names no kind.
    let mut has_kind = false;
    let mut is_own = false;
    loop {
        let mut head = vec![0; 4 + usize::from(has_kind)];
        client.read_exact(&mut head).await?;
        let length = u32::from_be_bytes(head[head.len() - 4..].try_into().expect("four bytes"));
        let mut body = vec![0; length as usize - 4];
        client.read_exact(&mut body).await?;
        // A connection that watches the server sends this at its own pace.
        if has_kind && matches!(head[0], b'P' | b'Q') {
            let says = |own: &str| body.windows(own.len()).any(|part| part == own.as_bytes());
            is_own = says("pg_snapshot_xmax") || says("pg_postmaster_start_time");
        }
        if has_kind && !is_own && matches!(head[0], b'E' | b'Q') {
            statements.fetch_add(1, Ordering::SeqCst);
        }
        has_kind = true;
        server.write_all(&head).await?;
        server.write_all(&body).await?;
    }
}

struct Store {
    provider: PostgresProvider,
    worker: WorkerId,
    statements: Arc<AtomicU64>,
    _schema: Schema,
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
        let statements = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&statements);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server.clone()).await.expect("the server answers");
                let ((asked, mut told), (mut answers, asking)) = (client.into_split(), server.into_split());
                tokio::spawn(count(asked, asking, Arc::clone(&counted)));
                tokio::spawn(async move { tokio::io::copy(&mut answers, &mut told).await });
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
            notify: Some(false),
            pool_size: 1,
            ..options(&schema)
        };
        let provider = PostgresProvider::connect(&through, options).await.expect("it opens");
        let worker = new_worker("worker");
        provider
            .register_worker(worker.clone())
            .await
            .expect("it is registered");
        Self {
            provider,
            worker: worker.id,
            statements,
            _schema: schema,
        }
    }

    async fn write(&self, write: Write) -> Outcome {
        let mut outcomes = commit(&self.provider, vec![write]).await.expect("it is written");
        outcomes.pop().expect("one outcome")
    }

    /// Makes an instance that has been through so many executions and has ended.
    async fn ended(&self, id: &str, executions: u64) -> InstanceKey {
        let new = NewInstance {
            claim: Some(self.worker.clone()),
            ..instance(id)
        };
        let Outcome::Started { key, .. } = self.write(Write::Start(Box::new(new))).await else {
            panic!("it is started");
        };
        let turn = |execution, events, after| TurnCommit {
            execution: ExecutionId(execution),
            events,
            after,
            time_ms: 2,
            ..idle_turn(key, &self.worker, Epoch(1), EventId(2))
        };
        for execution in 1..executions {
            let next = NextExecution {
                version: "1.0.0".into(),
                first_event: instance(id).first_event,
                hold: true,
            };
            let continued = EndEvent::ExecutionContinuedAsNew {
                input: None,
                version: "1.0.0".into(),
            };
            let last = vec![EventRecord::new(EventId(2), 2, continued)];
            let commit = turn(execution, last, AfterTurn::ContinueAsNew(Box::new(next)));
            assert!(matches!(
                self.write(Write::Turn(Box::new(commit))).await,
                Outcome::Committed { .. }
            ));
        }
        let status = Status::Completed;
        let commit = turn(executions, vec![completed(2, None)], AfterTurn::End { status });
        assert!(matches!(
            self.write(Write::Turn(Box::new(commit))).await,
            Outcome::Committed { .. }
        ));
        key
    }

    async fn counted<T>(&self, work: impl Future<Output = T>) -> (u64, T) {
        let before = self.statements.load(Ordering::SeqCst);
        let done = work.await;
        (self.statements.load(Ordering::SeqCst) - before, done)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn pruning_executions_takes_as_many_statements_for_many_as_for_few() {
    let store = Store::open().await;
    let request = || PruneExecutions {
        filter: Filter::default(),
        keep: 1,
        from: None,
        events_max: 2_000,
        walk_max: 2_000,
    };
    let prune = || async { store.provider.prune_executions(request()).await.expect("it is done") };
    store.ended("few", 2).await;
    let (few, pruned) = store.counted(prune()).await;
    assert_eq!(pruned, PrunedExecutions { deleted: 1, next: None });
    for id in ["many", "others"] {
        store.ended(id, 41).await;
    }
    let (many, pruned) = store.counted(prune()).await;
    assert_eq!(
        pruned,
        PrunedExecutions {
            deleted: 80,
            next: None
        }
    );
    assert_eq!(many, few);
    store.provider.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sweep_takes_as_many_statements_for_many_as_for_few() {
    let store = Store::open().await;
    let sweep = || async { store.provider.sweep(2_000).await.expect("it is done") };
    let delete = async |ids: std::ops::Range<u64>| {
        for id in ids.clone() {
            store.ended(&id.to_string(), 1).await;
        }
        for id in ids {
            let outcome = store.write(Write::Delete { id: id.to_string() }).await;
            assert_eq!(outcome, Outcome::Deleted);
        }
    };
    delete(0..1).await;
    let (few, more) = store.counted(sweep()).await;
    assert!(!more);
    delete(1..41).await;
    let (many, more) = store.counted(sweep()).await;
    assert!(!more);
    assert_eq!(many, few);
    store.provider.close().await;
}

/// The transaction begins, leaves its mark, locks the instance, looks at the fence, appends and ends. The chunks that
/// are too many are deleted by the statement that appends.
#[tokio::test]
async fn an_append_is_six_statements() {
    let store = Store::open().await;
    let start = NewInstance {
        claim: Some(store.worker.clone()),
        ..instance("a")
    };
    let Outcome::Started { key, .. } = store.write(Write::Start(Box::new(start))).await else {
        panic!("it is started");
    };
    let keep = StreamKeep {
        entries_max: Some(2),
        retain_ms: None,
    };
    let mut append = StreamAppend::new("log", keep);
    append.push(Some("1"));
    let append = ActivityAppend {
        key,
        worker: store.worker.clone(),
        by: Reporter::Owner(Epoch(1)),
        execution: ExecutionId::FIRST,
        scheduled: EventId(2),
        attempt: 1,
        begins: false,
        append,
        time_ms: 2,
    };
    let mut least = u64::MAX;
    // The first append prepares the statements.
    for n in 1..=5 {
        let (statements, outcome) = store
            .counted(store.write(Write::Append(Box::new(append.clone()))))
            .await;
        assert_eq!(outcome, Outcome::Appended { next: n });
        least = least.min(statements);
    }
    assert_eq!(least, 6);
    store.provider.close().await;
}

/// Without notifications all the rest stays as it is: a start needs one round trip to the server, as with them. Once it
/// was a transaction of unprepared statements, as behind a pooler.
#[tokio::test]
async fn a_start_without_notifications_is_one_statement() {
    let store = Store::open().await;
    let mut least = u64::MAX;
    // The first start prepares the statement.
    for n in 0..5 {
        let before = store.statements.load(Ordering::SeqCst);
        store
            .write(Write::Start(Box::new(instance(&format!("instance {n}")))))
            .await;
        least = least.min(store.statements.load(Ordering::SeqCst) - before);
    }
    assert_eq!(least, 1);
    store.provider.close().await;
}

/// A look finds that an instance is in line. The transaction begins, leaves its mark, looks for what is due and for
/// the queue, which it locks. It lets delayed instances into the line, counts the slots, forgets keys and reads the
/// line. It takes the instance and notes its place, looks for what is left, and ends.
#[tokio::test]
async fn an_admission_is_fourteen_statements() {
    let store = Store::open().await;
    let settings = QueueSettings {
        concurrency: Some(1_000),
        ..QueueSettings::default()
    };
    assert_eq!(store.provider.set_queue("q".into(), settings).await, Ok(true));
    let registered = instance("x");
    let request = || Acquire {
        worker: store.worker.clone(),
        registered: vec![(registered.name.clone(), registered.version.clone())],
        limit: PageLimit::rows(10),
        history_page: PageLimit::rows(10),
        left_ms: 0,
        looked: false,
    };
    let mut least = u64::MAX;
    // The first admission prepares the statements.
    for n in 0..5 {
        let start = NewInstance {
            queue: Some(QueueEntry {
                queue: "q".into(),
                key: String::new(),
            }),
            ..instance(&format!("instance {n}"))
        };
        store.write(Write::Start(Box::new(start))).await;
        let (statements, acquired) = store.counted(store.provider.acquire(request())).await;
        assert_eq!(acquired.expect("it is answered").instances.len(), 1);
        least = least.min(statements);
    }
    assert_eq!(least, 14);
    store.provider.close().await;
}
