//! Workers that admit instances, or attempts, from one queue at the same time, each with connections of its own. The
//! contract has one worker at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use perdure_engine::{ActivityOptions, AttemptResult, CommandEvent, EventId, EventRecord};
use perdure_provider::{
    Acquire, AcquiredInstance, AfterTurn, CheckRequest, CrossInstanceEffects, NewInstance, Outcome, PageLimit,
    Provider, QueueEntry, QueueSettings, Queues, SessionLimits, Status, Suspend, SystemClock, TaskDone, TaskOffer,
    TaskRequest, TurnCommit, WorkerId, Write,
};
use perdure_provider_contract::{completed, idle_turn, instance, new_worker};
use perdure_provider_postgres::PostgresProvider;

use crate::common::{Schema, commit, connect, other_program};

const INSTANCES: usize = 160;

async fn write(provider: &PostgresProvider, writes: Vec<Write>) -> Vec<Outcome> {
    commit(provider, writes).await.expect("it is written")
}

fn end(one: &AcquiredInstance, worker: &WorkerId) -> Write {
    let status = Status::Completed;
    Write::Turn(Box::new(TurnCommit {
        events: vec![completed(one.next_event_id.0, None)],
        after: AfterTurn::End { status },
        ..turn(one, worker)
    }))
}

/// A turn that changes nothing.
fn turn(one: &AcquiredInstance, worker: &WorkerId) -> TurnCommit {
    TurnCommit {
        execution: one.execution,
        time_ms: 2,
        ..idle_turn(one.key, worker, one.epoch, one.next_event_id)
    }
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
        left_ms: 0,
        looked: false,
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

/// The limits of the queue of the tests: six slots, and two of each key.
fn limits() -> QueueSettings {
    QueueSettings {
        concurrency: Some(6),
        key_concurrency: Some(2),
        is_fair: true,
        ..QueueSettings::default()
    }
}

/// Asserts that the limits hold for the slots of the keys. Returns the number of slots.
async fn count_slots(look: &tokio_postgres::Client, query: &str) -> i64 {
    let rows = look.query(query, &[]).await.expect("it is answered");
    let by_key: HashMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert!(by_key.values().all(|count| *count <= 2), "{by_key:?}");
    let all = by_key.values().sum();
    assert!(all <= 6, "{by_key:?}");
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_admit_at_once_keep_the_limits() {
    let schema = Schema::new();
    let open = async || Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    let first = open().await;
    assert_eq!(first.set_queue("q".into(), limits()).await, Ok(true));
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
        "SELECT q.queue_key, count(*) FROM \"{0}\".instances i JOIN \"{0}\".queue_places q ON q.key = i.key
         WHERE i.epoch > 0 AND i.completed_at IS NULL GROUP BY 1",
        schema.0
    );
    let mut most = 0;
    while ended.load(Ordering::SeqCst) < INSTANCES && !tasks.is_empty() {
        most = most.max(count_slots(&look, &running).await);
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

/// Instances of the test of attempts.
const CALLERS: usize = 16;
/// Attempts of each of them, which begin with event 2.
const ATTEMPTS: u64 = 10;

fn offer(caller: usize, id: u64) -> TaskOffer {
    TaskOffer {
        scheduled: EventId(id),
        attempt: 1,
        queue: "q".into(),
        key: Some(format!("key {}", (caller as u64 + id) % 5)),
        name: "step".into(),
        session: None,
        priority: 0,
        due_at_ms: 1,
        deadline_ms: None,
        start_within_ms: None,
    }
}

/// A turn that schedules the attempts of an instance.
fn schedules(one: &AcquiredInstance, worker: &WorkerId, caller: usize) -> Write {
    let ids = 2..2 + ATTEMPTS;
    let event = |id| {
        let scheduled = CommandEvent::ActivityScheduled {
            name: "step".into(),
            input: None,
            options: ActivityOptions::default(),
        };
        EventRecord::new(EventId(id), 1, scheduled)
    };
    Write::Turn(Box::new(TurnCommit {
        events: ids.clone().map(event).collect(),
        cross_instance: Some(Box::new(CrossInstanceEffects {
            offers: ids.map(|id| offer(caller, id)).collect(),
            ..CrossInstanceEffects::default()
        })),
        ..turn(one, worker)
    }))
}

/// Takes attempts and ends them until there is none left.
async fn run_attempts(provider: Arc<PostgresProvider>, name: String, is_over: Arc<AtomicUsize>) {
    let worker = new_worker(&name);
    provider
        .register_worker(worker.clone())
        .await
        .expect("it is registered");
    while is_over.load(Ordering::SeqCst) == 0 {
        let request = TaskRequest {
            worker: worker.id.clone(),
            queues: Queues::Any,
            names: vec!["step".into()],
            limit: PageLimit::rows(3),
            sessions: SessionLimits { max: 1, idle_ms: 1_000 },
        };
        let acquired = provider.acquire_tasks(request).await.expect("it is answered");
        for task in &acquired.tasks {
            let done = TaskDone {
                worker: worker.id.clone(),
                task: task.task,
                result: AttemptResult::Completed(None),
                time_ms: 3,
            };
            let outcomes = write(&provider, vec![Write::TaskDone(Box::new(done))]).await;
            // An attempt may have been withdrawn meanwhile.
            let is_expected = matches!(outcomes[..], [Outcome::Fenced | Outcome::TaskDone { freed: true, .. }]);
            assert!(is_expected, "{outcomes:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_take_attempts_at_once_keep_the_limits() {
    let schema = Schema::new();
    let open = async || Arc::new(connect(&schema, Arc::new(SystemClock)).await);
    let first = open().await;
    assert_eq!(first.set_queue("q".into(), limits()).await, Ok(true));
    let worker = new_worker("caller");
    first.register_worker(worker.clone()).await.expect("it is registered");
    let is_over = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..4 {
        tasks.spawn(run_attempts(open().await, format!("worker {n}"), Arc::clone(&is_over)));
    }
    let starts = (0..CALLERS).map(|n| Write::Start(Box::new(instance(&format!("caller {n}")))));
    write(&first, starts.collect()).await;
    let mut owned = Vec::new();
    while owned.len() < CALLERS {
        let acquired = first.acquire(request(&worker.id)).await.expect("it is answered");
        owned.extend(acquired.instances);
    }
    let turns = owned.iter().enumerate().map(|(n, one)| schedules(one, &worker.id, n));
    write(&first, turns.collect()).await;
    let look = other_program().await;
    let running = format!(
        "SELECT x.queue_key, count(*) FROM \"{0}\".tasks t JOIN \"{0}\".queue_places x ON x.key = t.place_key
         WHERE t.route <> '=' GROUP BY 1",
        schema.0
    );
    let (mut most, mut withdrawals) = (0, owned.iter().flat_map(|one| [2, 7, 11].map(|id| (one, id))));
    loop {
        most = most.max(count_slots(&look, &running).await);
        if let Some((one, id)) = withdrawals.next() {
            let withdraws = TurnCommit {
                next_event_id: EventId(2 + ATTEMPTS),
                cross_instance: Some(Box::new(CrossInstanceEffects {
                    withdrawn: vec![EventId(id)],
                    ..CrossInstanceEffects::default()
                })),
                ..turn(one, &worker.id)
            };
            let outcomes = write(&first, vec![Write::Turn(Box::new(withdraws))]).await;
            assert!(matches!(outcomes[..], [Outcome::Committed { .. }]), "{outcomes:?}");
            continue;
        }
        let queues = first.queues(None).await.expect("it is answered");
        if queues[0].waiting + queues[0].running == 0 {
            break;
        }
    }
    is_over.store(1, Ordering::SeqCst);
    while let Some(done) = tasks.join_next().await {
        done.expect("it does not fail");
    }
    assert!(most > 2, "{most}");
    let checked = first
        .check(CheckRequest {
            after: None,
            limit: 100,
        })
        .await;
    let places = |finding: &perdure_provider::Finding| finding.detail.contains("queue_places");
    assert!(!checked.expect("it is checked").findings.iter().any(places));
}
