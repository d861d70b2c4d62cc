//! Workers that admit instances from one queue at the same time, each with connections of its own. The contract has one
//! worker at a time.

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use perdure_engine::MessageSeq;
use perdure_provider::{
    Acquire, AcquiredInstance, AfterTurn, NewInstance, Outcome, PageLimit, Provider, QueueEntry, QueueSettings, Status,
    Suspend, SystemClock, TurnCommit, WorkerId, Write,
};
use perdure_provider_contract::{completed, instance, new_worker};
use perdure_provider_postgres::PostgresProvider;
use tokio::sync::oneshot;

use common::{Schema, connect, other_program};

const INSTANCES: usize = 160;

async fn write(provider: &PostgresProvider, writes: Vec<Write>) -> Vec<Outcome> {
    let (answer, answered) = oneshot::channel();
    let done = Box::new(move |result: Result<Vec<Outcome>, _>| {
        answer.send(result).expect("the caller waits");
    });
    provider.commit(Arc::new(writes), done);
    answered.await.expect("it is answered").expect("it is written")
}

fn end(one: &AcquiredInstance, worker: &WorkerId) -> Write {
    Write::Turn(Box::new(TurnCommit {
        key: one.key,
        worker: worker.clone(),
        epoch: one.epoch,
        execution: one.execution,
        next_event_id: one.next_event_id,
        events: vec![completed(one.next_event_id.0, None)],
        consumed: Vec::new(),
        seen: MessageSeq(0),
        heartbeats_over: Vec::new(),
        custom_status: None,
        state: Vec::new(),
        answers: Vec::new(),
        appends: Vec::new(),
        open_work: None,
        logs: None,
        cross_instance: None,
        after: AfterTurn::End {
            status: Status::Completed,
        },
        tell_status: false,
        wakes: false,
        asked: None,
        time_ms: 2,
    }))
}

fn request(worker: &WorkerId) -> Acquire {
    let page = PageLimit {
        rows: 100,
        bytes: 100_000,
    };
    let new = instance("x");
    Acquire {
        worker: worker.clone(),
        registered: vec![(new.name, new.version)],
        limit: PageLimit { rows: 3, ..page },
        history_page: page,
    }
}

/// Acquires and ends instances until all have ended.
async fn work(provider: Arc<PostgresProvider>, name: String, ended: Arc<AtomicUsize>) {
    let worker = new_worker(&name);
    provider
        .register_worker(worker.clone())
        .await
        .expect("it is registered");
    let mut asked = 0;
    while ended.load(Ordering::SeqCst) < INSTANCES {
        asked += 1;
        assert!(asked < 20_000, "{ended:?}");
        let acquired = provider.acquire(request(&worker.id)).await.expect("it is answered");
        for one in &acquired.instances {
            let outcomes = write(&provider, vec![end(one, &worker.id)]).await;
            // An instance that was suspended meanwhile is due again when it is resumed.
            match outcomes[..] {
                [Outcome::Fenced] => {}
                [Outcome::Committed { .. }] => {
                    ended.fetch_add(1, Ordering::SeqCst);
                }
                _ => panic!("{outcomes:?}"),
            }
        }
    }
}

/// Suspends and resumes instances all the time, most of which wait.
async fn disturb(provider: Arc<PostgresProvider>, ended: Arc<AtomicUsize>) {
    for n in (0..INSTANCES).cycle() {
        if ended.load(Ordering::SeqCst) >= INSTANCES {
            return;
        }
        let id = format!("instance {n}");
        let suspended = Suspend {
            id: id.clone(),
            report: String::new(),
            time_ms: 1,
        };
        let before = provider.statuses(vec![id.clone()]).await.expect("it is answered");
        if before[0].as_ref().is_some_and(|one| one.status == Status::Pending) {
            write(&provider, vec![Write::Suspend(suspended)]).await;
            write(&provider, vec![Write::Resume { id, time_ms: 1 }]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_admit_at_once_keep_the_limits() {
    let schema = Schema::new();
    let open = async || Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    let first = open().await;
    let settings = QueueSettings {
        concurrency: Some(6),
        key_concurrency: Some(2),
        is_fair: true,
        ..QueueSettings::default()
    };
    assert_eq!(first.set_queue("q".into(), settings).await, Ok(true));
    let new = |n: usize| NewInstance {
        queue: Some(QueueEntry {
            queue: "q".into(),
            key: format!("key {}", n % 5),
        }),
        ..instance(&format!("instance {n}"))
    };
    let starts = (0..INSTANCES).map(|n| Write::Start(Box::new(new(n)))).collect();
    write(&first, starts).await;
    let ended = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..4 {
        tasks.spawn(work(open().await, format!("worker {n}"), Arc::clone(&ended)));
    }
    tasks.spawn(disturb(open().await, Arc::clone(&ended)));
    let look = other_program().await;
    let running = format!(
        "SELECT q.queue_key, count(*) FROM \"{0}\".instances i JOIN \"{0}\".queued_instances q ON q.instance_key = i.key
         WHERE i.epoch > 0 AND i.completed_at IS NULL GROUP BY 1",
        schema.0
    );
    let mut most = 0;
    while ended.load(Ordering::SeqCst) < INSTANCES && !tasks.is_empty() {
        let rows = look.query(&running, &[]).await.expect("it is answered");
        let by_key: HashMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert!(by_key.values().all(|count| *count <= 2), "{by_key:?}");
        let all: i64 = by_key.values().sum();
        assert!(all <= 6, "{by_key:?}");
        most = most.max(all);
        while let Some(done) = tasks.try_join_next() {
            done.expect("it does not fail");
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("it does not fail");
    }
    assert!(most > 2, "{most}");
    let queues = first.queues(None).await.expect("it is answered");
    assert_eq!((queues[0].waiting, queues[0].running), (0, 0));
}
