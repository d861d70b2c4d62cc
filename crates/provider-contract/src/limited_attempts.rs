//! Attempts in queues with limits: the slots that they get, and the line in which they wait for them (P27).

use perdure_engine::{ActivityOptions, AttemptResult, CommandEvent, EventId, EventRecord};
use perdure_provider::{
    AcquiredInstance, AcquiredTasks, CrossInstanceEffects, NewInstance, Outcome, PageLimit, QueueDeletion, QueueEntry,
    QueueInfo, QueuePlace, QueueSettings, QueuedPlace, Queues, ReleaseTask, SessionLimits, Task, TaskDone, TaskOffer,
    TaskRequest, TurnCommit, WorkerId, Write,
};

use crate::queues::{per_second, slots};
use crate::store::{Handle, SESSIONS, START_MS, Store, end, instance, turn};

/// The queue of the checks.
const QUEUE: &str = "api";

/// An attempt of the activity `step`, scheduled by event `id`, under a key of the queue.
fn of_key(id: u64, key: &str) -> TaskOffer {
    TaskOffer {
        scheduled: EventId(id),
        attempt: 1,
        queue: QUEUE.into(),
        key: Some(key.into()),
        name: "step".into(),
        session: None,
        priority: 0,
        due_at_ms: START_MS,
        deadline_ms: None,
        start_within_ms: None,
    }
}

fn plain(ids: impl Iterator<Item = u64>) -> Vec<TaskOffer> {
    ids.map(|id| of_key(id, "")).collect()
}

fn events(offers: &[TaskOffer]) -> Vec<EventRecord> {
    let event = |offer: &TaskOffer| {
        let scheduled = CommandEvent::ActivityScheduled {
            name: offer.name.clone(),
            input: None,
            options: ActivityOptions::default(),
        };
        EventRecord::new(offer.scheduled, START_MS, scheduled)
    };
    offers.iter().map(event).collect()
}

fn numbers(acquired: &AcquiredTasks) -> Vec<u64> {
    acquired.tasks.iter().map(|task| task.task.scheduled.0).collect()
}

impl Handle<'_> {
    async fn limit(&self, settings: QueueSettings) {
        assert_eq!(self.provider.set_queue(QUEUE.into(), settings).await, Ok(true));
    }

    /// Starts an instance that schedules these attempts, which begin with event 2. It stays with the worker.
    async fn schedules(&self, id: &str, worker: &WorkerId, offers: Vec<TaskOffer>) -> AcquiredInstance {
        let owned = self.owned(id, worker).await;
        let next_event_id = EventId(2 + offers.len() as u64);
        self.did(TurnCommit {
            events: events(&offers),
            cross_instance: Some(Box::new(CrossInstanceEffects {
                offers,
                ..CrossInstanceEffects::default()
            })),
            ..turn(&owned, worker)
        })
        .await;
        AcquiredInstance { next_event_id, ..owned }
    }

    async fn withdraws(&self, owned: &AcquiredInstance, worker: &WorkerId, scheduled: &[u64]) {
        self.did(TurnCommit {
            cross_instance: Some(Box::new(CrossInstanceEffects {
                withdrawn: scheduled.iter().copied().map(EventId).collect(),
                ..CrossInstanceEffects::default()
            })),
            ..turn(owned, worker)
        })
        .await;
    }

    async fn request_tasks(&self, worker: &WorkerId, rows: usize, queues: Queues) -> AcquiredTasks {
        let request = TaskRequest {
            worker: worker.clone(),
            queues,
            names: vec!["other".into(), "step".into()],
            limit: PageLimit::rows(rows),
            sessions: SESSIONS,
        };
        self.provider.acquire_tasks(request).await.expect("the store answers")
    }

    /// Takes what there is, which has to be the attempts of these events in this order.
    async fn takes(&self, worker: &WorkerId, expected: &[u64]) -> Vec<Task> {
        let acquired = self.request_tasks(worker, 10, Queues::Named(vec![QUEUE.into()])).await;
        assert_eq!(numbers(&acquired), expected);
        acquired.tasks
    }

    /// Asserts that attempts wait for slots, and that none is free.
    async fn waits_for_slots(&self, worker: &WorkerId) {
        let acquired = self.request_tasks(worker, 10, Queues::Named(vec![QUEUE.into()])).await;
        assert_eq!((numbers(&acquired), acquired.slots_wanted), (vec![], true));
    }

    async fn finish_tasks(&self, worker: &WorkerId, tasks: &[Task]) {
        for task in tasks {
            let done = TaskDone {
                worker: worker.clone(),
                task: task.task,
                result: AttemptResult::Completed(None),
                time_ms: START_MS + 5,
            };
            let outcome = self.write(Write::TaskDone(Box::new(done))).await;
            assert!(matches!(outcome, Outcome::TaskDone { freed: true, .. }), "{outcome:?}");
        }
    }

    async fn api(&self) -> QueueInfo {
        let queues = self.provider.queues(Some(QUEUE.into())).await;
        let [queue] = <[QueueInfo; 1]>::try_from(queues.expect("the store answers")).expect("one queue has the name");
        queue
    }

    async fn finds_no_fault(&self) {
        let request = perdure_provider::CheckRequest {
            after: None,
            limit: 100,
        };
        let checked = self.provider.check(request).await.expect("the store is checked");
        assert_eq!(checked.findings, []);
    }
}

/// The limit holds over all workers, and the next attempt is taken when one has ended.
pub async fn run_as_many_at_once_as_their_limit(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    store.limit(slots(2)).await;
    store.schedules("a", &worker, plain(2..=5)).await;
    store.schedules("b", &other, plain(2..=2)).await;
    assert_eq!((store.api().await.waiting, store.api().await.running), (5, 0));
    assert_eq!(store.api().await.oldest_ms, Some(START_MS));
    let first = store.takes(&worker, &[2, 3]).await;
    store.waits_for_slots(&worker).await;
    store.waits_for_slots(&other).await;
    assert_eq!((store.api().await.waiting, store.api().await.running), (3, 2));
    store.finds_no_fault().await;
    store.finish_tasks(&worker, &first[..1]).await;
    assert_eq!((store.api().await.waiting, store.api().await.running), (3, 1));
    let next = store.takes(&other, &[4]).await;
    store.waits_for_slots(&other).await;
    store.finish_tasks(&other, &next).await;
    store.finish_tasks(&worker, &first[1..]).await;
    let last = store.takes(&worker, &[5, 2]).await;
    store.finish_tasks(&worker, &last).await;
    let nothing = store.request_tasks(&worker, 10, Queues::Any).await;
    assert_eq!(nothing, AcquiredTasks::default());
    assert_eq!((store.api().await.waiting, store.api().await.running), (0, 0));
    store.finds_no_fault().await;
}

/// A queue that is not set limits no attempt, and neither does one for an attempt that is offered without a key.
pub async fn without_limits_are_taken_at_once(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.schedules("a", &worker, plain(2..=6)).await;
    let tasks = store.takes(&worker, &[2, 3, 4, 5, 6]).await;
    let done = TaskDone {
        worker: worker.clone(),
        task: tasks[0].task,
        result: AttemptResult::Completed(None),
        time_ms: START_MS + 5,
    };
    let outcome = store.write(Write::TaskDone(Box::new(done))).await;
    assert!(matches!(outcome, Outcome::TaskDone { freed: false, .. }), "{outcome:?}");
    store.limit(slots(1)).await;
    let keyless = |id| TaskOffer {
        key: None,
        ..of_key(id, "")
    };
    store.schedules("b", &worker, (2..=4).map(keyless).collect()).await;
    store.takes(&worker, &[2, 3, 4]).await;
    assert_eq!((store.api().await.waiting, store.api().await.running), (0, 0));
}

/// A request takes no more than it has room for, from queues that it serves, and of activities that it names.
pub async fn are_taken_by_those_who_serve_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.limit(slots(4)).await;
    store.schedules("a", &worker, plain(2..=5)).await;
    let elsewhere = Queues::Named(vec!["default".into(), "gpu".into()]);
    assert_eq!(
        store.request_tasks(&worker, 10, elsewhere).await,
        AcquiredTasks::default()
    );
    let of_other = TaskRequest {
        worker: worker.clone(),
        queues: Queues::Any,
        names: vec!["other".into()],
        limit: PageLimit::rows(10),
        sessions: SESSIONS,
    };
    let nothing = store.provider.acquire_tasks(of_other).await;
    assert_eq!(nothing, Ok(AcquiredTasks::default()));
    let one = store.request_tasks(&worker, 1, Queues::Named(vec![QUEUE.into()])).await;
    assert_eq!(numbers(&one), [2]);
    assert!(one.next_due_ms.is_some_and(|at| at <= START_MS), "{one:?}");
    let rest = store.request_tasks(&worker, 10, Queues::Any).await;
    assert_eq!((numbers(&rest), rest.slots_wanted), (vec![3, 4, 5], false));
}

/// The limit of a worker counts the attempts that it runs.
pub async fn are_limited_for_each_worker(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let settings = QueueSettings {
        per_worker: Some(2),
        ..QueueSettings::default()
    };
    store.limit(settings).await;
    store.schedules("a", &worker, plain(2..=6)).await;
    let first = store.takes(&worker, &[2, 3]).await;
    store.waits_for_slots(&worker).await;
    store.takes(&other, &[4, 5]).await;
    store.finish_tasks(&worker, &first[..1]).await;
    store.takes(&worker, &[6]).await;
}

/// An attempt whose key has no slot is held, and comes first when the key has one.
pub async fn are_limited_for_each_key(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let settings = QueueSettings {
        key_concurrency: Some(1),
        ..QueueSettings::default()
    };
    store.limit(settings).await;
    let keys = ["x", "x", "x", "y", "y", "", ""];
    let offers = (2..).zip(keys).map(|(id, key)| of_key(id, key)).collect();
    store.schedules("a", &worker, offers).await;
    let first = store.takes(&worker, &[2, 5, 7, 8]).await;
    store.waits_for_slots(&worker).await;
    store.finish_tasks(&worker, &first[..1]).await;
    let next = store.takes(&worker, &[3]).await;
    store.finish_tasks(&worker, &first[1..2]).await;
    store.takes(&worker, &[6]).await;
    store.finish_tasks(&worker, &next).await;
    store.takes(&worker, &[4]).await;
    store.finds_no_fault().await;
}

/// In any span of the rate, at most so many attempts begin. The answer tells when the next one may.
pub async fn begin_at_the_rate(store: &Store) {
    let both = store;
    let store = store.first();
    let worker = store.worker("w").await;
    store.limit(per_second(2)).await;
    store.schedules("a", &worker, plain(2..=6)).await;
    let first = store.takes(&worker, &[2, 3]).await;
    store.finish_tasks(&worker, &first).await;
    let none = store.request_tasks(&worker, 10, Queues::Any).await;
    let next_ms = none.next_due_ms.expect("there will be a token");
    assert!(none.tasks.is_empty(), "{none:?}");
    assert!((START_MS + 1_000..START_MS + 1_010).contains(&next_ms), "{next_ms}");
    both.clock.advance(next_ms - START_MS);
    store.takes(&worker, &[4, 5]).await;
    assert_eq!(store.api().await.tokens, Some(0));
}

/// Attempts of a higher priority come first, and the keys take turns among those of one priority.
pub async fn come_by_priority_and_turn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let settings = QueueSettings {
        is_fair: true,
        ..slots(1)
    };
    store.limit(settings).await;
    let mut offers: Vec<TaskOffer> = (2..=5).map(|id| of_key(id, "many")).collect();
    offers.push(of_key(6, "few"));
    offers.push(TaskOffer {
        priority: 9,
        ..of_key(7, "few")
    });
    store.schedules("a", &worker, offers).await;
    for id in [7, 2, 6, 3, 4, 5] {
        let taken = store.takes(&worker, &[id]).await;
        store.finish_tasks(&worker, &taken).await;
    }
}

/// An attempt that is due later, as one that is tried again, comes into the line when it is due.
pub async fn wait_in_line_from_when_they_are_due(store: &Store) {
    let both = store;
    let store = store.first();
    let worker = store.worker("w").await;
    store.limit(slots(1)).await;
    let mut offers = plain(2..=4);
    offers[0].due_at_ms = START_MS + 500;
    offers[0].attempt = 2;
    store.schedules("a", &worker, offers).await;
    assert_eq!((store.api().await.waiting, store.api().await.delayed), (2, 1));
    let first = store.takes(&worker, &[3]).await;
    store.finish_tasks(&worker, &first).await;
    let then = store.takes(&worker, &[4]).await;
    store.finish_tasks(&worker, &then).await;
    let none = store.request_tasks(&worker, 10, Queues::Any).await;
    assert_eq!((numbers(&none), none.next_due_ms), (vec![], Some(START_MS + 500)));
    both.clock.advance(500);
    let late = store.takes(&worker, &[2]).await;
    assert_eq!(late[0].task.attempt, 2);
}

/// An attempt keeps its slot when its worker returns it or is released, and the next worker runs it in that slot.
pub async fn keep_their_slots_over_workers(store: &Store) {
    let store = store.first();
    let (worker, dying) = (store.worker("w").await, store.worker("dying").await);
    store.limit(slots(2)).await;
    store.schedules("a", &worker, plain(2..=5)).await;
    let first = store.takes(&dying, &[2, 3]).await;
    let returned = ReleaseTask {
        worker: dying.clone(),
        task: first[0].task,
    };
    assert_eq!(store.write(Write::ReleaseTask(returned)).await, Outcome::Noted);
    assert_eq!((store.api().await.waiting, store.api().await.running), (2, 2));
    let again = store.takes(&worker, &[2]).await;
    store.provider.release_worker(&dying).await.expect("it is released");
    assert_eq!((store.api().await.waiting, store.api().await.running), (2, 2));
    let last = store.takes(&worker, &[3]).await;
    store.waits_for_slots(&worker).await;
    store.finish_tasks(&worker, &again).await;
    store.finish_tasks(&worker, &last).await;
    store.takes(&worker, &[4, 5]).await;
    store.finds_no_fault().await;
}

/// A withdrawn attempt leaves the line, or gives its slot back at once.
pub async fn leave_when_they_are_withdrawn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.limit(slots(1)).await;
    let owned = store.schedules("a", &worker, plain(2..=5)).await;
    store.takes(&worker, &[2]).await;
    store.withdraws(&owned, &worker, &[2, 3]).await;
    assert_eq!((store.api().await.waiting, store.api().await.running), (2, 0));
    store.takes(&worker, &[4]).await;
    store.waits_for_slots(&worker).await;
    store.finds_no_fault().await;
}

/// The termination of an instance withdraws its attempts: the slot is free, and those that wait are gone.
pub async fn leave_with_their_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let settings = QueueSettings {
        key_concurrency: Some(1),
        ..slots(1)
    };
    store.limit(settings).await;
    store
        .schedules("a", &worker, vec![of_key(2, "x"), of_key(3, "x"), of_key(4, "y")])
        .await;
    store.schedules("b", &worker, vec![of_key(2, "x")]).await;
    store.takes(&worker, &[2]).await;
    store.waits_for_slots(&worker).await;
    store.terminate("a", None).await;
    assert_eq!((store.api().await.waiting, store.api().await.running), (1, 0));
    store.takes(&worker, &[2]).await;
    store.finds_no_fault().await;
}

/// An attempt of a session gets a slot first, and then goes to the worker of its session.
pub async fn of_sessions_get_a_slot_first(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.limit(slots(1)).await;
    let of_session = |id| TaskOffer {
        session: Some("s".into()),
        ..of_key(id, "")
    };
    store.schedules("a", &worker, vec![of_session(2), of_session(3)]).await;
    let mut taken = Vec::new();
    // The slot is given with one request, and the session is bound with the next.
    for _ in 0..2 {
        let acquired = store.request_tasks(&worker, 10, Queues::Any).await;
        if acquired.tasks.is_empty() {
            assert!(acquired.next_due_ms.is_some_and(|at| at <= START_MS), "{acquired:?}");
        }
        taken.extend(acquired.tasks);
    }
    assert_eq!(taken.iter().map(|task| task.task.scheduled.0).collect::<Vec<_>>(), [2]);
    assert_eq!((store.api().await.waiting, store.api().await.running), (1, 1));
    store.finish_tasks(&worker, &taken).await;
}

/// The same holds for an attempt of a session that is due later, also for a worker that holds its session already.
pub async fn of_sessions_are_routed_when_they_are_due(store: &Store) {
    let both = store;
    let store = store.first();
    let worker = store.worker("w").await;
    store.limit(QueueSettings::default()).await;
    let of_session = |id, after_ms| TaskOffer {
        session: Some("s".into()),
        due_at_ms: START_MS + after_ms,
        ..of_key(id, "")
    };
    store
        .schedules("a", &worker, vec![of_session(2, 0), of_session(3, 100)])
        .await;
    store.request_tasks(&worker, 10, Queues::Any).await;
    let first = store.request_tasks(&worker, 10, Queues::Any).await;
    assert_eq!((numbers(&first), first.next_due_ms), (vec![2], Some(START_MS + 100)));
    both.clock.advance(100);
    // The worker of the session has no room for another one.
    let full = TaskRequest {
        worker,
        queues: Queues::Any,
        names: vec!["step".into()],
        limit: PageLimit::rows(10),
        sessions: SessionLimits { max: 1, ..SESSIONS },
    };
    let ask = async || {
        store
            .provider
            .acquire_tasks(full.clone())
            .await
            .expect("the store answers")
    };
    let gives = ask().await;
    assert_eq!((numbers(&gives), gives.next_due_ms), (vec![], Some(START_MS + 100)));
    assert_eq!(numbers(&ask().await), [3]);
}

/// Instances and attempts share the limits of a queue, and the queue is not deleted while attempts are in it.
pub async fn share_the_limits_with_instances(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.limit(slots(1)).await;
    let queued = NewInstance {
        queue: Some(QueueEntry {
            queue: QUEUE.into(),
            key: String::new(),
        }),
        ..instance("queued")
    };
    let owned = store.schedules("a", &worker, plain(2..=3)).await;
    let first = store.takes(&worker, &[2]).await;
    store.start(queued).await;
    let refused = store.acquire(&worker).await;
    assert_eq!((refused.instances.len(), refused.slots_wanted), (0, true));
    store.withdraws(&owned, &worker, &[3]).await;
    store.finish_tasks(&worker, &first).await;
    let running = store.acquire_one(&worker).await;
    let owned = store.schedules("b", &worker, plain(2..=2)).await;
    store.waits_for_slots(&worker).await;
    let deleted = store.provider.delete_queue(QUEUE.into()).await;
    let in_use = QueueDeletion::InUse { waiting: 1, running: 1 };
    assert_eq!(deleted, Ok(in_use));
    store.commit(end(&running, &worker, None)).await;
    let last = store.takes(&worker, &[2]).await;
    let in_use = QueueDeletion::InUse { waiting: 0, running: 1 };
    assert_eq!(store.provider.delete_queue(QUEUE.into()).await, Ok(in_use));
    store.finish_tasks(&worker, &last).await;
    drop(owned);
    let deleted = store.provider.delete_queue(QUEUE.into()).await;
    assert_eq!(deleted, Ok(QueueDeletion::Deleted));
    store.finds_no_fault().await;
}

/// An attempt that is tried again gets its slot anew, within the limits.
pub async fn are_limited_when_they_are_tried_again(store: &Store) {
    let both = store;
    let store = store.first();
    let worker = store.worker("w").await;
    let settings = QueueSettings {
        per_worker: Some(1),
        ..QueueSettings::default()
    };
    store.limit(settings).await;
    let retry = |id, after_ms| TaskOffer {
        attempt: 2,
        due_at_ms: START_MS + after_ms,
        ..of_key(id, "")
    };
    store.schedules("a", &worker, vec![retry(2, 100)]).await;
    store.schedules("b", &worker, vec![retry(2, 200)]).await;
    both.clock.advance(150);
    let first = store.takes(&worker, &[2]).await;
    both.clock.advance(100);
    store.waits_for_slots(&worker).await;
    store.finish_tasks(&worker, &first).await;
    store.takes(&worker, &[2]).await;
}

/// No attempt gets a slot from a paused queue. Those that have one run on, and a late one comes without a slot.
pub async fn wait_while_their_queue_is_paused(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.limit(slots(2)).await;
    let hurried = TaskOffer {
        start_within_ms: Some(100),
        ..of_key(5, "")
    };
    store
        .schedules("a", &worker, vec![of_key(2, ""), of_key(3, ""), of_key(4, ""), hurried])
        .await;
    let running = store.request_tasks(&worker, 1, Queues::Any).await;
    assert_eq!(numbers(&running), [2]);
    assert_eq!(store.provider.pause_queue(QUEUE.into(), true).await, Ok(true));
    let nothing = store.request_tasks(&worker, 10, Queues::Any).await;
    assert_eq!((numbers(&nothing), nothing.slots_wanted), (vec![], false));
    assert_eq!(nothing.next_due_ms, Some(START_MS + 100), "then one is late");
    store.finish_tasks(&worker, &running.tasks).await;
    assert_eq!((store.api().await.waiting, store.api().await.running), (3, 0));
    store.clock.advance(100);
    let late = store.takes(&worker, &[5]).await;
    assert!(late[0].is_late);
    let nothing = store.request_tasks(&worker, 10, Queues::Any).await;
    assert_eq!((numbers(&nothing), nothing.next_due_ms), (vec![], None));
    store.finds_no_fault().await;
    assert_eq!(store.provider.pause_queue(QUEUE.into(), false).await, Ok(true));
    store.takes(&worker, &[3, 4]).await;
    store.finds_no_fault().await;
}

/// The open work of an instance tells of the places of its attempts.
pub async fn are_told_with_their_places(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let limits = QueueSettings {
        key_concurrency: Some(1),
        ..slots(2)
    };
    store.limit(limits).await;
    let later = TaskOffer {
        due_at_ms: START_MS + 1_000,
        ..of_key(6, "")
    };
    // An attempt that is due at once is in line from its offer on.
    let at_once = TaskOffer {
        due_at_ms: 0,
        ..of_key(5, "")
    };
    let offers = vec![of_key(2, "k"), of_key(3, "k"), of_key(4, ""), at_once, later];
    store.schedules("a", &worker, offers).await;
    store.takes(&worker, &[2, 4]).await;
    store.clock.advance(5);
    assert_eq!(store.provider.pause_queue(QUEUE.into(), true).await, Ok(true));
    let work = store.provider.open_work("a".into()).await.expect("the store answers");
    let tasks = work.expect("it is there").tasks;
    let places = tasks.into_iter().map(|task| (task.scheduled.0, task.queued));
    let place = |scheduled, key: &str, place, queued_at_ms| {
        let queued = QueuedPlace {
            queue: QUEUE.into(),
            key: key.into(),
            place,
            queued_at_ms,
            paused_at_ms: Some(START_MS + 5),
        };
        (scheduled, Some(queued))
    };
    assert_eq!(
        places.collect::<Vec<_>>(),
        [
            place(2, "k", QueuePlace::Slot, START_MS),
            place(3, "k", QueuePlace::Held, START_MS),
            place(4, "", QueuePlace::Slot, START_MS),
            place(5, "", QueuePlace::Waits, START_MS),
            place(6, "", QueuePlace::Delayed, START_MS + 1_000),
        ]
    );
}
