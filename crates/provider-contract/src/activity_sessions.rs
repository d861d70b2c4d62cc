//! Sessions of activities: all tasks of a session go to one worker while it lives (P18).

use std::collections::BTreeMap;

use perdure_engine::{AttemptResult, CommandEvent, EventId, EventRecord};
use perdure_provider::{
    AcquiredInstance, AcquiredTasks, CheckRequest, CrossInstanceEffects, PageLimit, Queues, ReleaseTask, SessionLimits,
    Task, TaskDone, TaskOffer, TaskRequest, TurnCommit, WorkerId, Write,
};

use crate::store::{Handle, LEASE_MS, START_MS, Store, turn};

const IDLE_MS: i64 = 1_000;

/// A worker that takes up to 100 tasks at once and holds two sessions.
const TWO: (usize, usize) = (100, 2);

impl Handle<'_> {
    /// Creates an instance with an activity for each of the sessions, as events from 2 on. `None`: without a session.
    async fn scheduled(&self, id: &str, worker: &WorkerId, sessions: &[Option<&str>]) -> AcquiredInstance {
        let owned = self.owned(id, worker).await;
        self.schedule(&owned, worker, sessions).await
    }

    /// Schedules further activities of an instance.
    async fn schedule(
        &self,
        owned: &AcquiredInstance,
        worker: &WorkerId,
        sessions: &[Option<&str>],
    ) -> AcquiredInstance {
        let ids = || owned.next_event_id.0..;
        let event = |id| {
            let scheduled = CommandEvent::ActivityScheduled {
                name: "step".into(),
                input: None,
                options: perdure_engine::ActivityOptions::default(),
            };
            EventRecord::new(EventId(id), START_MS, scheduled)
        };
        let offers = ids().zip(sessions).map(|(id, session)| TaskOffer {
            scheduled: EventId(id),
            attempt: 1,
            queue: "gpu".into(),
            key: None,
            name: "step".into(),
            session: session.map(str::to_owned),
            priority: 0,
            due_at_ms: 0,
            deadline_ms: None,
            start_within_ms: None,
        });
        self.did(TurnCommit {
            events: ids().take(sessions.len()).map(event).collect(),
            cross_instance: Some(Box::new(CrossInstanceEffects {
                offers: offers.collect(),
                ..CrossInstanceEffects::default()
            })),
            ..turn(owned, worker)
        })
        .await;
        AcquiredInstance {
            next_event_id: EventId(owned.next_event_id.0 + sessions.len() as u64),
            ..owned.clone()
        }
    }

    async fn ask(&self, worker: &WorkerId, (rows, max): (usize, usize)) -> AcquiredTasks {
        self.ask_for(worker, Queues::Named(vec!["default".into(), "gpu".into()]), rows, max)
            .await
    }

    async fn ask_for(&self, worker: &WorkerId, queues: Queues, rows: usize, max: usize) -> AcquiredTasks {
        let request = TaskRequest {
            worker: worker.clone(),
            queues,
            names: vec!["step".into()],
            limit: PageLimit::rows(rows),
            sessions: SessionLimits { max, idle_ms: IDLE_MS },
        };
        self.provider.acquire_tasks(request).await.expect("the store answers")
    }

    async fn ends(&self, worker: &WorkerId, task: &Task) {
        let done = TaskDone {
            worker: worker.clone(),
            task: task.task,
            result: AttemptResult::Completed(None),
            time_ms: START_MS,
        };
        self.write(Write::TaskDone(Box::new(done))).await;
    }

    async fn finds_nothing_wrong(&self) {
        let request = CheckRequest {
            after: None,
            limit: 100,
        };
        let checked = self.provider.check(request).await.expect("the store is checked");
        assert_eq!(checked.findings, []);
    }
}

/// No tasks.
const NONE: [u64; 0] = [];

fn numbers(acquired: &AcquiredTasks) -> Vec<u64> {
    let mut numbers: Vec<u64> = acquired.tasks.iter().map(|task| task.task.scheduled.0).collect();
    numbers.sort_unstable();
    numbers
}

/// Also the tasks that come later, and those that wait while the worker runs others.
pub async fn give_all_tasks_of_a_session_to_one_worker(store: &Store) {
    let store = store.first();
    let (first, other) = (store.worker("9").await, store.worker("o").await);
    let owned = store.scheduled("a", &first, &[Some("s"), Some("s"), Some("s")]).await;
    let taken = store.ask(&first, (1, 2)).await;
    assert_eq!((numbers(&taken), taken.handed_on), (vec![2], false));
    assert_eq!(store.ask(&other, TWO).await, AcquiredTasks::default());
    let owned = store.schedule(&owned, &first, &[Some("s"), Some("s")]).await;
    let none = store.ask(&other, TWO).await;
    assert_eq!(
        (none.tasks.len(), none.handed_on),
        (0, true),
        "it routes them to the first"
    );
    store.ends(&first, &taken.tasks[0]).await;
    assert_eq!(numbers(&store.ask(&first, TWO).await), [3, 4, 5, 6]);
    store.schedule(&owned, &first, &[Some("s")]).await;
    let any = store.ask_for(&other, Queues::Any, 100, 2).await;
    assert_eq!(numbers(&any), NONE);
    assert_eq!(numbers(&store.ask_for(&first, Queues::Any, 100, 2).await), [7]);
    store.finds_nothing_wrong().await;
}

/// Sessions are those of one queue, and are bound in the order of their tasks.
pub async fn hold_no_more_sessions_than_the_limit(store: &Store) {
    let store = store.first();
    let (first, other) = (store.worker("f").await, store.worker("o").await);
    let sessions: Vec<_> = ["p", "q", "r", "p", "r"].into_iter().map(Some).collect();
    store.scheduled("a", &first, &sessions).await;
    let taken = store.ask(&first, TWO).await;
    assert_eq!(numbers(&taken), [2, 3, 5]);
    assert!(
        taken.next_due_ms > Some(store.now_ms()),
        "the worker waits for the end of a session: {:?}",
        taken.next_due_ms
    );
    assert_eq!(store.ask(&other, (100, 0)).await, AcquiredTasks::default());
    assert_eq!(numbers(&store.ask(&other, TWO).await), [4, 6]);
    store.finds_nothing_wrong().await;
}

/// A worker binds no more sessions than it has room for tasks.
pub async fn bind_no_session_that_would_have_to_wait(store: &Store) {
    let store = store.first();
    let (first, other) = (store.worker("f").await, store.worker("o").await);
    let sessions: Vec<_> = ["p", "q", "r"].into_iter().map(Some).collect();
    store.scheduled("a", &first, &sessions).await;
    let taken = store.ask(&first, (2, 100)).await;
    assert_eq!(numbers(&taken), [2, 3]);
    assert!(taken.next_due_ms <= Some(store.now_ms()), "another one waits");
    assert_eq!(numbers(&store.ask(&other, (2, 100)).await), [4]);
}

/// The idle time begins anew with each task that is taken or done, and does not pass while one waits or runs.
pub async fn move_when_they_were_idle(store: &Store) {
    let store = store.first();
    let (first, other) = (store.worker("f").await, store.worker("o").await);
    let owned = store.scheduled("a", &first, &[Some("s")]).await;
    let [task] = &store.ask(&first, TWO).await.tasks[..] else {
        panic!("one waits")
    };
    store.clock.advance(3 * IDLE_MS);
    let owned = store.schedule(&owned, &first, &[Some("s")]).await;
    assert_eq!(numbers(&store.ask(&other, TWO).await), NONE, "a task of it runs");
    store.ends(&first, task).await;
    store.clock.advance(3 * IDLE_MS);
    assert_eq!(numbers(&store.ask(&other, TWO).await), NONE, "a task of it waits");
    let [task] = &store.ask(&first, TWO).await.tasks[..] else {
        panic!("one waits")
    };
    store.ends(&first, task).await;
    store.clock.advance(IDLE_MS);
    let owned = store.schedule(&owned, &first, &[Some("s")]).await;
    store.clock.advance(3 * IDLE_MS);
    assert_eq!(numbers(&store.ask(&other, TWO).await), NONE, "the task came in time");
    let [task] = &store.ask(&first, TWO).await.tasks[..] else {
        panic!("one waits")
    };
    store.ends(&first, task).await;
    store.clock.advance(IDLE_MS + 1);
    let owned = store.schedule(&owned, &first, &[Some("s")]).await;
    assert_eq!(numbers(&store.ask(&other, TWO).await), [5]);
    store.schedule(&owned, &first, &[Some("s")]).await;
    assert_eq!(numbers(&store.ask(&first, TWO).await), NONE);
    store.finds_nothing_wrong().await;
}

/// A worker that holds as many sessions as it may is told when the first of them may be idle.
pub async fn make_room_when_they_were_idle(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let sessions: Vec<_> = ["p", "q", "r"].into_iter().map(Some).collect();
    store.scheduled("a", &worker, &sessions).await;
    let taken = store.ask(&worker, TWO).await;
    assert_eq!(numbers(&taken), [2, 3]);
    store.clock.advance(200);
    store.ends(&worker, &taken.tasks[1]).await;
    let idle_at = store.now_ms() + IDLE_MS + 1;
    let asked = store.ask(&worker, TWO).await;
    assert_eq!((numbers(&asked), asked.next_due_ms), (NONE.to_vec(), Some(idle_at)));
    store.clock.advance(IDLE_MS + 1);
    assert_eq!(numbers(&store.ask(&worker, TWO).await), [4]);
}

/// Their tasks wait for another worker, whether they ran, waited for the worker that is gone, or come later.
pub async fn move_when_their_worker_is_gone(store: &Store) {
    let store = store.first();
    let owner = store.worker("owner").await;
    let next = store.worker("n").await;
    let owned = store.scheduled("a", &owner, &[Some("s"), Some("s"), Some("t")]).await;
    let mut owned = owned;
    for (n, is_release) in [true, false].into_iter().enumerate() {
        let worker = store.worker(&format!("w{n}")).await;
        assert_eq!(store.ask(&worker, (1, 2)).await.tasks.len(), 1);
        owned = store.schedule(&owned, &owner, &[Some("s")]).await;
        assert_eq!(numbers(&store.ask(&next, (100, 0)).await), NONE);
        if is_release {
            store.provider.release_worker(&worker).await.expect("it is removed");
        } else {
            store.clock.advance(LEASE_MS as i64 + 1);
            for living in [&owner, &next] {
                let renewed = store.provider.renew_worker(living, LEASE_MS, None).await;
                renewed.expect("the store answers").expect("it is registered");
            }
            let taken = store.provider.take_over_expired_workers("{}").await;
            assert_eq!(taken.expect("the store answers").workers, [worker]);
        }
        store.finds_nothing_wrong().await;
    }
    assert_eq!(numbers(&store.ask(&next, TWO).await), [2, 3, 4, 5, 6]);
    store.finds_nothing_wrong().await;
}

/// A task that its own worker gives back stays with that worker.
pub async fn keep_a_task_that_their_worker_gives_back(store: &Store) {
    let store = store.first();
    let (first, other) = (store.worker("f").await, store.worker("o").await);
    store.scheduled("a", &first, &[Some("s")]).await;
    let [task] = &store.ask(&first, TWO).await.tasks[..] else {
        panic!("one waits")
    };
    let release = ReleaseTask {
        worker: first.clone(),
        task: task.task,
    };
    store.write(Write::ReleaseTask(release)).await;
    store.clock.advance(3 * IDLE_MS);
    assert_eq!(store.ask(&other, TWO).await, AcquiredTasks::default());
    assert_eq!(numbers(&store.ask(&first, TWO).await), [2]);
}

/// A worker that is not registered binds no session.
pub async fn are_not_bound_to_a_stranger(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.scheduled("a", &worker, &[Some("s")]).await;
    let stranger = WorkerId("nobody".into());
    assert_eq!(store.ask(&stranger, TWO).await, AcquiredTasks::default());
    assert_eq!(numbers(&store.ask(&worker, TWO).await), [2]);
}

/// Two workers ask at the same time, again and again.
pub async fn are_never_split_by_requests_at_once(store: &Store) {
    let handles = [store.first(), store.second().unwrap_or(store.first())];
    let store = store.first();
    let owner = store.worker("owner").await;
    let workers = [store.worker("1").await, store.worker("z").await];
    let mut owned = store.owned("a", &owner).await;
    let mut holders: BTreeMap<String, WorkerId> = BTreeMap::new();
    let mut session_of: BTreeMap<u64, String> = BTreeMap::new();
    for round in 0..25 {
        let names: Vec<String> = (0..8).map(|n| format!("{}", (round + n) % 20)).collect();
        for (id, name) in (owned.next_event_id.0..).zip(&names) {
            session_of.insert(id, name.clone());
        }
        let sessions: Vec<_> = names.iter().map(|name| Some(&**name)).collect();
        owned = store.schedule(&owned, &owner, &sessions).await;
        loop {
            let (one, other) = tokio::join!(
                handles[0].ask(&workers[0], (3, 100)),
                handles[1].ask(&workers[1], (3, 100))
            );
            let is_over = one.next_due_ms.or(other.next_due_ms).is_none() && one.tasks.len() + other.tasks.len() == 0;
            for (worker, acquired) in workers.iter().zip([one, other]) {
                for task in &acquired.tasks {
                    let session = &session_of[&task.task.scheduled.0];
                    let holder = holders.entry(session.clone()).or_insert_with(|| worker.clone());
                    assert_eq!(holder, worker, "session {session} in round {round}");
                    store.ends(worker, task).await;
                }
            }
            if is_over {
                break;
            }
        }
        store.finds_nothing_wrong().await;
    }
    assert_eq!(holders.len(), 20);
    assert!(
        workers
            .iter()
            .all(|worker| holders.values().any(|holder| holder == worker))
    );
}

/// The tasks that another worker's session left routed are no obstacle to a task of any worker.
pub async fn do_not_hide_a_task_without_a_session(store: &Store) {
    let store = store.first();
    let (first, other) = (store.worker("f").await, store.worker("o").await);
    let mut sessions = vec![Some("s"); 1_000];
    sessions.push(None);
    store.scheduled("a", &first, &sessions).await;
    assert_eq!(numbers(&store.ask(&other, (1, 0)).await), [1_002]);
    assert_eq!(numbers(&store.ask(&first, (1, 2)).await), [2]);
    assert_eq!(store.ask(&other, (1, 2)).await, AcquiredTasks::default());
    let depths = store.provider.stats().await.expect("the store answers").queues;
    let [depth] = &depths[..] else {
        panic!("one queue: {depths:?}")
    };
    assert_eq!((depth.waiting, depth.running), (999, 2));
}
