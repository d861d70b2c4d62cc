//! Late attempts: those that have waited for a worker for too long (P28).

use perdure_engine::{ActivityOptions, AttemptResult, CommandEvent, EventId, EventRecord};
use perdure_provider::{
    AcquiredInstance, AcquiredTasks, CrossInstanceEffects, LATE_TASKS_MAX, Outcome, PageLimit, QueueSettings, Queues,
    ReleaseTask, Task, TaskDone, TaskOffer, TaskRequest, TurnCommit, WorkerId, Write,
};

use crate::queues::slots;
use crate::store::{Handle, SESSIONS, START_MS, Store, turn};

/// The queue of the checks.
const QUEUE: &str = "api";

/// An attempt of event `id` that waits for 100 ms.
fn within_100_ms(id: u64) -> TaskOffer {
    TaskOffer {
        scheduled: EventId(id),
        attempt: 1,
        queue: QUEUE.into(),
        key: Some(String::new()),
        name: "step".into(),
        session: None,
        priority: 0,
        due_at_ms: 0,
        deadline_ms: None,
        start_within_ms: Some(100),
    }
}

fn numbers(tasks: &[Task]) -> Vec<u64> {
    tasks.iter().map(|task| task.task.scheduled.0).collect()
}

/// The numbers of the attempts, and if they are late.
fn told(acquired: &AcquiredTasks) -> Vec<(u64, bool)> {
    let tasks = acquired.tasks.iter();
    tasks.map(|task| (task.task.scheduled.0, task.is_late)).collect()
}

impl Handle<'_> {
    /// Starts an instance that offers these attempts, which begin with event 2.
    async fn with_offers(&self, worker: &WorkerId, offers: Vec<TaskOffer>) -> AcquiredInstance {
        let owned = self.owned("a", worker).await;
        let event = |offer: &TaskOffer| {
            let scheduled = CommandEvent::ActivityScheduled {
                name: offer.name.clone(),
                input: Some("\"input\"".into()),
                options: ActivityOptions::default(),
            };
            EventRecord::new(offer.scheduled, START_MS, scheduled)
        };
        self.did(TurnCommit {
            events: offers.iter().map(event).collect(),
            cross_instance: Some(Box::new(CrossInstanceEffects {
                offers,
                ..CrossInstanceEffects::default()
            })),
            ..turn(&owned, worker)
        })
        .await;
        owned
    }

    /// A request of a worker that serves the queue.
    async fn served(&self, worker: &WorkerId, rows: usize) -> AcquiredTasks {
        self.tasks_of_queue(worker, QUEUE, "step", rows).await
    }

    /// A request of a worker that serves nothing of it.
    async fn unserved(&self, worker: &WorkerId) -> AcquiredTasks {
        self.tasks_of_queue(worker, "other", "none", 10).await
    }

    async fn tasks_of_queue(&self, worker: &WorkerId, queue: &str, name: &str, rows: usize) -> AcquiredTasks {
        let request = TaskRequest {
            worker: worker.clone(),
            queues: Queues::Named(vec![queue.into()]),
            names: vec![name.into()],
            limit: PageLimit::rows(rows),
            sessions: SESSIONS,
        };
        self.provider.acquire_tasks(request).await.expect("the store answers")
    }

    async fn ends_late(&self, worker: &WorkerId, task: &Task) -> Outcome {
        let done = TaskDone {
            worker: worker.clone(),
            task: task.task,
            result: AttemptResult::Failed {
                error: Some("{}".into()),
                error_name: "TimeoutError".into(),
                error_codes: Vec::new(),
                non_retryable: true,
                retry_after_ms: None,
            },
            time_ms: START_MS + 100,
        };
        self.write(Write::TaskDone(Box::new(done))).await
    }

    async fn is_sound(&self) {
        let request = perdure_provider::CheckRequest {
            after: None,
            limit: 100,
        };
        let checked = self.provider.check(request).await.expect("the store is checked");
        assert_eq!(checked.findings, []);
    }

    async fn in_queue(&self) -> (u64, u64) {
        let queues = self
            .provider
            .queues(Some(QUEUE.into()))
            .await
            .expect("the store answers");
        (queues[0].waiting, queues[0].running)
    }
}

/// A worker that serves neither the queue nor the activity takes it, not before its time, and ends it.
pub async fn are_taken_by_a_worker_that_serves_nothing_of_them(store: &Store) {
    let store = store.first();
    let (worker, idle) = (store.worker("w").await, store.worker("idle").await);
    let owned = store.with_offers(&worker, vec![within_100_ms(2)]).await;
    for wait_ms in [0, 99] {
        store.clock.advance(wait_ms);
        let nothing = store.unserved(&idle).await;
        assert_eq!((told(&nothing), nothing.next_due_ms), (vec![], Some(START_MS + 100)));
    }
    store.clock.advance(1);
    let stranger = store.unserved(&WorkerId("stranger".into())).await;
    assert_eq!(told(&stranger), [], "a worker that is not registered gets nothing");
    let late = store.unserved(&idle).await;
    assert_eq!((told(&late), late.next_due_ms), (vec![(2, true)], None));
    let task = &late.tasks[0];
    assert_eq!((task.start_by_ms, &*task.name), (Some(START_MS + 100), "step"));
    assert_eq!(told(&store.unserved(&worker).await), [], "it has an owner");
    let outcome = store.ends_late(&idle, task).await;
    assert!(matches!(outcome, Outcome::TaskDone { freed: false, .. }), "{outcome:?}");
    assert_eq!(store.ends_late(&idle, task).await, Outcome::Fenced);
    assert_eq!(store.messages(owned.key).await.len(), 1);
    store.is_sound().await;
}

/// A worker without room asks for no rows, and takes what is late alone.
pub async fn are_taken_without_room(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let patient = TaskOffer {
        start_within_ms: None,
        ..within_100_ms(3)
    };
    store.with_offers(&worker, vec![within_100_ms(2), patient]).await;
    let full = store.served(&worker, 0).await;
    assert_eq!((told(&full), full.next_due_ms), (vec![], Some(START_MS + 100)));
    store.clock.advance(100);
    assert_eq!(told(&store.served(&worker, 0).await), [(2, true)]);
    assert_eq!(told(&store.served(&worker, 0).await), []);
    assert_eq!(told(&store.served(&worker, 1).await), [(3, false)]);
}

/// An attempt that a worker has is not late.
pub async fn are_not_those_that_a_worker_has(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.with_offers(&worker, vec![within_100_ms(2)]).await;
    let taken = store.served(&worker, 1).await;
    assert_eq!((told(&taken), taken.next_due_ms), (vec![(2, false)], None));
    store.clock.advance(1_000);
    assert_eq!(store.unserved(&worker).await, AcquiredTasks::default());
}

/// An attempt waits anew when its worker returns it, or is gone.
pub async fn wait_anew_when_they_go_back(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    store.with_offers(&worker, (2..=4).map(within_100_ms).collect()).await;
    store.clock.advance(40);
    let taken = store.served(&other, 10).await.tasks;
    assert_eq!(numbers(&taken), [2, 3, 4]);
    store.clock.advance(1_000);
    let returned = ReleaseTask {
        worker: other.clone(),
        task: taken[0].task,
    };
    assert_eq!(store.write(Write::ReleaseTask(returned)).await, Outcome::Noted);
    store.clock.advance(50);
    store.provider.release_worker(&other).await.expect("it is released");
    let nothing = store.unserved(&worker).await;
    assert_eq!((told(&nothing), nothing.next_due_ms), (vec![], Some(START_MS + 1_140)));
    store.clock.advance(50);
    assert_eq!(told(&store.unserved(&worker).await), [(2, true)]);
    store.clock.advance(50);
    assert_eq!(told(&store.unserved(&worker).await), [(3, true), (4, true)]);
}

/// An attempt that was taken late stays late, whoever takes it next. It is ended once.
pub async fn stay_late_when_they_go_back(store: &Store) {
    let store = store.first();
    let (worker, dying) = (store.worker("w").await, store.worker("dying").await);
    let owned = store.with_offers(&worker, vec![within_100_ms(2)]).await;
    store.clock.advance(100);
    let first = store.unserved(&dying).await.tasks;
    store.provider.release_worker(&dying).await.expect("it is released");
    let again = store.unserved(&worker).await;
    assert_eq!(told(&again), [(2, true)]);
    assert_eq!(store.ends_late(&dying, &first[0]).await, Outcome::Fenced);
    let outcome = store.ends_late(&worker, &again.tasks[0]).await;
    assert!(matches!(outcome, Outcome::TaskDone { .. }), "{outcome:?}");
    assert_eq!(store.messages(owned.key).await.len(), 1);
}

/// The deadline of all attempts holds for the wait, too, and the earlier time counts.
pub async fn are_those_past_their_deadline(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let until = |id, after_ms, start_within_ms| TaskOffer {
        deadline_ms: Some(START_MS + after_ms),
        start_within_ms,
        ..within_100_ms(id)
    };
    let offers = vec![until(2, 50, None), until(3, 60, Some(100)), until(4, 1_000, Some(100))];
    store.with_offers(&worker, offers).await;
    for (wait_ms, expected) in [(50, 2), (10, 3), (40, 4)] {
        assert_eq!(told(&store.unserved(&worker).await), []);
        store.clock.advance(wait_ms);
        assert_eq!(told(&store.unserved(&worker).await), [(expected, true)]);
    }
}

/// The time of an attempt that is tried again counts from the end of its delay.
pub async fn count_from_when_they_are_due(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store
        .provider
        .set_queue(QUEUE.into(), slots(1))
        .await
        .expect("it is set");
    let retry = |id, key: Option<&str>| TaskOffer {
        attempt: 2,
        due_at_ms: START_MS + 500,
        key: key.map(str::to_owned),
        ..within_100_ms(id)
    };
    store
        .with_offers(&worker, vec![retry(2, None), retry(3, Some("k"))])
        .await;
    store.clock.advance(599);
    let nothing = store.unserved(&worker).await;
    assert_eq!((told(&nothing), nothing.next_due_ms), (vec![], Some(START_MS + 600)));
    store.clock.advance(1);
    assert_eq!(told(&store.unserved(&worker).await), [(2, true), (3, true)]);
    store.is_sound().await;
}

/// A late attempt leaves the line without a slot, and the next of its key is no longer held.
pub async fn leave_the_line(store: &Store) {
    let store = store.first();
    let (worker, idle) = (store.worker("w").await, store.worker("idle").await);
    let settings = QueueSettings {
        key_concurrency: Some(1),
        ..slots(2)
    };
    store
        .provider
        .set_queue(QUEUE.into(), settings)
        .await
        .expect("it is set");
    let of_key = |id, start_within_ms| TaskOffer {
        key: Some("k".into()),
        start_within_ms,
        ..within_100_ms(id)
    };
    // The second one is held behind its key, and the third is in line or held.
    let offers = vec![
        of_key(2, None),
        of_key(3, Some(100)),
        of_key(4, Some(100)),
        of_key(5, None),
    ];
    store.with_offers(&worker, offers).await;
    let first = store.served(&worker, 10).await;
    assert_eq!(told(&first), [(2, false)]);
    assert_eq!(store.in_queue().await, (3, 1));
    store.clock.advance(100);
    let late = store.unserved(&idle).await;
    assert_eq!(told(&late), [(3, true), (4, true)]);
    assert_eq!(store.in_queue().await, (1, 1), "they have no slots");
    assert_eq!(told(&store.served(&worker, 10).await), [], "the key has its slot");
    store.is_sound().await;
    for task in &late.tasks {
        store.ends_late(&idle, task).await;
    }
    store.ends_late(&worker, &first.tasks[0]).await;
    assert_eq!(told(&store.served(&worker, 10).await), [(5, false)]);
    store.is_sound().await;
}

/// An attempt that has a slot and goes back to its queue keeps the slot until its late end.
pub async fn keep_their_slot_until_they_end(store: &Store) {
    let store = store.first();
    let (worker, dying) = (store.worker("w").await, store.worker("dying").await);
    store
        .provider
        .set_queue(QUEUE.into(), slots(1))
        .await
        .expect("it is set");
    let patient = TaskOffer {
        start_within_ms: None,
        ..within_100_ms(3)
    };
    store.with_offers(&worker, vec![within_100_ms(2), patient]).await;
    assert_eq!(told(&store.served(&dying, 10).await), [(2, false)]);
    store.provider.release_worker(&dying).await.expect("it is released");
    store.clock.advance(100);
    let late = store.unserved(&worker).await;
    assert_eq!((told(&late), store.in_queue().await), (vec![(2, true)], (1, 1)));
    store.is_sound().await;
    let outcome = store.ends_late(&worker, &late.tasks[0]).await;
    assert!(matches!(outcome, Outcome::TaskDone { freed: true, .. }), "{outcome:?}");
    assert_eq!(told(&store.served(&worker, 10).await), [(3, false)]);
}

/// A late attempt of a session is taken by a worker that does not hold the session, which stays where it is.
pub async fn leave_their_session(store: &Store) {
    let store = store.first();
    let (worker, holder) = (store.worker("w").await, store.worker("holder").await);
    let of_session = |id, start_within_ms| TaskOffer {
        session: Some("s".into()),
        start_within_ms,
        ..within_100_ms(id)
    };
    store
        .with_offers(&worker, vec![of_session(2, Some(100)), of_session(3, Some(100))])
        .await;
    assert_eq!(told(&store.served(&holder, 1).await), [(2, false)]);
    store.clock.advance(100);
    let late = store.served(&worker, 10).await;
    assert_eq!(told(&late), [(3, true)]);
    store.is_sound().await;
    store.ends_late(&worker, &late.tasks[0]).await;
    store.is_sound().await;
}

/// One request takes a limited number, and the next one is told to come at once.
pub async fn are_taken_a_few_at_a_time(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let many = LATE_TASKS_MAX as u64 + 3;
    store
        .with_offers(&worker, (2..2 + many).map(within_100_ms).collect())
        .await;
    store.clock.advance(200);
    let first = store.unserved(&worker).await;
    assert_eq!(
        (first.tasks.len(), first.next_due_ms),
        (LATE_TASKS_MAX, Some(START_MS + 100))
    );
    let last = store.unserved(&worker).await;
    assert_eq!((last.tasks.len(), last.next_due_ms), (3, None));
}

/// A withdrawn attempt, and one of an instance that has ended, is never late.
pub async fn are_not_those_that_are_withdrawn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.with_offers(&worker, vec![within_100_ms(2)]).await;
    store.terminate("a", None).await;
    store.clock.advance(100);
    assert_eq!(store.unserved(&worker).await, AcquiredTasks::default());
}
