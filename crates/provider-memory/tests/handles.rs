//! Promises of this store alone: calls take effect at once, answers come in order from one thread, each handle is told
//! of the others' changes and no more, and all stored data can be looked at.

use std::sync::Arc;

use parking_lot::Mutex;
use perdure_engine::{AttemptResult, EventId, ExecutionId, Mailbox, MessageBody};
use perdure_provider::{
    Acquire, AfterTurn, Change, Clock, CrossInstanceEffects, Epoch, InstanceKey, ManualClock, NewInstance, NewMessage,
    Outcome, PageLimit, Provider, ProviderErrorKind, QueuePlace, QueueSettings, Queues, Receiving, SessionLimits,
    Status, TaskDone, TaskOffer, TaskRequest, Terminate, TurnCommit, WorkerId, Write,
};
use perdure_provider_contract::{completed, idle_turn, instance, new_worker, scheduled};
use perdure_provider_memory::{MemoryProvider, MemoryStore};

const NOW_MS: i64 = 1_000_000;

fn store() -> Arc<MemoryStore> {
    MemoryStore::new(Arc::new(ManualClock::new(NOW_MS)))
}

fn start(id: &str) -> Write {
    Write::Start(Box::new(instance(id)))
}

fn claimed(id: &str, worker: &WorkerId) -> Write {
    let claim = Some(worker.clone());
    Write::Start(Box::new(NewInstance { claim, ..instance(id) }))
}

fn event(to: &str) -> Write {
    Write::Message(NewMessage {
        instance: to.into(),
        body: MessageBody::Mail {
            mailbox: Mailbox::Event("go".into()),
            payload: None,
        },
        unread_max: None,
        time_ms: NOW_MS,
    })
}

fn turn(worker: &WorkerId, key: InstanceKey) -> TurnCommit {
    TurnCommit {
        events: vec![scheduled(2)],
        time_ms: NOW_MS,
        ..idle_turn(key, worker, Epoch(1), EventId(2))
    }
}

async fn worker(provider: &MemoryProvider, id: &str) -> WorkerId {
    let worker = new_worker(id);
    provider.register_worker(worker.clone()).await.expect("it is open");
    worker.id
}

/// Returns a function that returns the changes of which a handle was told since the last call.
fn listen(provider: &MemoryProvider) -> impl AsyncFn() -> Vec<Change> {
    let heard: Arc<Mutex<Vec<Change>>> = Arc::default();
    let hears = Arc::clone(&heard);
    provider.on_foreign_change(Box::new(move |change| hears.lock().push(change.clone())));
    async move || {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        std::mem::take(&mut *heard.lock())
    }
}

fn write(provider: &MemoryProvider, write: Write) -> Outcome {
    let outcomes = provider.write(&[write]).expect("it is no defect");
    outcomes.into_iter().next().expect("one outcome for one write")
}

#[tokio::test]
async fn a_batch_is_written_when_it_is_handed_over_and_answered_later() {
    let store = store();
    let provider = store.connect();
    let answers: Arc<Mutex<Vec<u32>>> = Arc::default();
    for n in 0..3 {
        let answers = Arc::clone(&answers);
        provider.commit(
            Arc::new(vec![start(&n.to_string())]),
            Box::new(move |_| answers.lock().push(n)),
        );
    }
    assert_eq!(store.snapshot().instances.len(), 3);
    assert_eq!(*answers.lock(), Vec::<u32>::new());
    provider.close().await;
    assert_eq!(*answers.lock(), [0, 1, 2]);
}

#[tokio::test]
async fn a_write_is_visible_before_its_caller_is_answered() {
    let store = store();
    let provider = store.connect();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (sees, of) = (Arc::clone(&seen), Arc::downgrade(&store));
    store.before_answers(Box::new(move || {
        let last = of.upgrade().and_then(|store| store.last_event("a"));
        sees.lock().push(format!("{last:?}"));
    }));
    let answered = Arc::clone(&seen);
    provider.commit(
        Arc::new(vec![start("a")]),
        Box::new(move |_| answered.lock().push("answered".to_owned())),
    );
    assert_eq!(*seen.lock(), Vec::<String>::new());
    provider.close().await;
    let first = Some((ExecutionId::FIRST, EventId::FIRST));
    assert_eq!(*seen.lock(), [format!("{first:?}"), "answered".to_owned()]);
    assert_eq!(store.last_event("b"), None);
}

#[tokio::test]
async fn the_batch_is_its_callers_again_with_the_answer() {
    let provider = store().connect();
    let batch = Arc::new(vec![start("a")]);
    let kept = Arc::clone(&batch);
    let (answered, answer) = tokio::sync::oneshot::channel();
    let done = move |_| answered.send(Arc::strong_count(&kept)).expect("it is awaited");
    provider.commit(batch, Box::new(done));
    assert_eq!(answer.await, Ok(1));
}

#[tokio::test]
async fn a_refused_batch_leaves_the_store_as_it_was() {
    let store = store();
    let provider = store.connect();
    let owner = worker(&provider, "w").await;
    provider
        .write(&[claimed("a", &owner), event("a")])
        .expect("it is no defect");
    let before = store.snapshot();
    let gap = TurnCommit {
        next_event_id: EventId(3),
        events: vec![scheduled(9)],
        ..turn(&owner, InstanceKey(1))
    };
    let end = TurnCommit {
        events: vec![completed(2, None)],
        after: AfterTurn::End {
            status: Status::Completed,
        },
        ..turn(&owner, InstanceKey(1))
    };
    let terminate = Terminate {
        id: "a".into(),
        reason: None,
        time_ms: NOW_MS,
    };
    for first in [Write::Turn(Box::new(end)), Write::Terminate(terminate), event("a")] {
        let batch = [start("b"), first, Write::Turn(Box::new(gap.clone()))];
        let refused = provider.write(&batch).expect_err("it is a defect");
        assert_eq!(refused.kind, ProviderErrorKind::Internal);
        let mut after = store.snapshot();
        // A number that was given is not given again.
        after.last_seq = before.last_seq;
        assert_eq!(after, before);
    }
}

#[tokio::test]
async fn a_handle_hears_only_of_changes_by_other_handles() {
    let store = store();
    let (one, two) = (store.connect(), store.connect());
    let (to_one, to_two) = (listen(&one), listen(&two));
    let (mine, theirs) = (worker(&one, "mine").await, worker(&two, "theirs").await);
    let nothing = Change::default();
    let work = || Change {
        work: true,
        ..Change::default()
    };

    write(&one, start("due"));
    assert_eq!((to_one().await, to_two().await), (vec![], vec![work()]));
    for (id, owner) in [("mine", &mine), ("theirs", &theirs)] {
        write(&one, claimed(id, owner));
    }
    assert_eq!(to_two().await, [], "a claimed instance is nobody else's");
    write(&one, event("mine"));
    assert_eq!(to_two().await, [], "its process knows by itself");
    write(&one, event("theirs"));
    let messages = Receiving::These(vec![theirs.clone()]);
    let [heard] = &to_two().await[..] else {
        panic!("one change is heard");
    };
    assert_eq!(*heard, Change { messages, ..nothing });
    assert!(heard.is_for(&theirs) && !heard.is_for(&mine));

    write(&one, Write::Turn(Box::new(turn(&mine, InstanceKey(2)))));
    assert_eq!(to_two().await, [], "nobody sees a step");
    let end = TurnCommit {
        next_event_id: EventId(3),
        events: vec![completed(3, None)],
        after: AfterTurn::End {
            status: Status::Completed,
        },
        ..turn(&mine, InstanceKey(2))
    };
    write(&one, Write::Turn(Box::new(end)));
    let statuses = Change {
        statuses: true,
        ..Change::default()
    };
    assert_eq!(to_two().await, [statuses]);

    two.release_worker(&theirs).await.expect("it is open");
    assert_eq!(to_one().await, [Change { tasks: true, ..work() }]);
    two.close().await;
    write(&one, start("late"));
    assert_eq!(to_two().await, []);
}

#[tokio::test]
async fn a_handle_hears_that_an_attempt_has_left_its_slot() {
    let store = store();
    let (one, two) = (store.connect(), store.connect());
    let owner = worker(&one, "w").await;
    let settings = QueueSettings {
        concurrency: Some(1),
        ..QueueSettings::default()
    };
    assert_eq!(one.set_queue("api".into(), settings).await, Ok(true));
    write(&one, claimed("a", &owner));
    let offer = TaskOffer {
        scheduled: EventId(2),
        attempt: 1,
        queue: "api".into(),
        key: Some(String::new()),
        name: "step".into(),
        session: None,
        priority: 0,
        due_at_ms: NOW_MS,
        deadline_ms: None,
        start_within_ms: None,
    };
    let effects = CrossInstanceEffects {
        offers: vec![offer],
        ..CrossInstanceEffects::default()
    };
    let offers = TurnCommit {
        cross_instance: Some(Box::new(effects)),
        ..turn(&owner, InstanceKey(1))
    };
    write(&one, Write::Turn(Box::new(offers)));
    let request = TaskRequest {
        worker: owner.clone(),
        queues: Queues::Any,
        names: vec!["step".into()],
        limit: PageLimit::rows(1),
        sessions: SessionLimits { max: 1, idle_ms: 1 },
    };
    let acquired = one.acquire_tasks(request).await.expect("it is open");
    let [place] = &store.snapshot().queue_places[..] else {
        panic!("one attempt is in the queue");
    };
    assert_eq!((place.0.is_attempt(), place.1.place), (true, QueuePlace::Slot));
    let heard = listen(&two);
    let done = TaskDone {
        worker: owner,
        task: acquired.tasks[0].task,
        result: AttemptResult::Completed(None),
        time_ms: NOW_MS,
    };
    write(&one, Write::TaskDone(Box::new(done)));
    let tasks = Change {
        tasks: true,
        ..Change::default()
    };
    assert_eq!(heard().await, [tasks]);
    assert_eq!(store.snapshot().queue_places, []);
}

#[tokio::test]
async fn a_snapshot_shows_everything_in_order() {
    let clock = Arc::new(ManualClock::new(NOW_MS));
    let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let provider = store.connect();
    let owner = worker(&provider, "w").await;
    provider
        .write(&[start("b"), start("a"), event("a"), event("b"), event("a")])
        .expect("it is no defect");
    clock.advance(1);
    let request = Acquire {
        worker: owner.clone(),
        registered: vec![("flow".into(), "1.0.0".into())],
        limit: PageLimit::rows(1),
        history_page: PageLimit::rows(10),
        left_ms: 0,
        looked: false,
    };
    assert_eq!(
        provider.acquire(request).await.expect("it is open").instances[0].id,
        "b"
    );
    write(&provider, Write::Turn(Box::new(turn(&owner, InstanceKey(1)))));
    let snapshot = store.snapshot();
    let ids: Vec<&str> = snapshot.instances.iter().map(|row| &*row.id).collect();
    assert_eq!((snapshot.now_ms, ids), (NOW_MS + 1, vec!["b", "a"]));
    let b = snapshot.instance("b").expect("it is there");
    assert_eq!(
        (b.owner.as_ref(), b.epoch, b.wake_at_ms),
        (Some(&owner), Epoch(1), None)
    );
    assert_eq!((b.next_event_id, b.turns, b.unread), (EventId(3), 1, 1));
    let messages: Vec<_> = snapshot.messages.iter().map(|row| (row.key.0, row.seq.0)).collect();
    assert_eq!(messages, [(1, 2), (2, 1), (2, 3)]);
    assert_eq!(snapshot.history("b").len(), 2);
    assert_eq!(snapshot.executions_of(b.key).count(), 1);
    assert_eq!(snapshot.workers[0].worker.lease_until_ms, NOW_MS + 15_000);
    assert_eq!(snapshot, store.snapshot());
}

#[tokio::test]
async fn a_row_is_changed_behind_everybodys_back() {
    let store = store();
    let provider = store.connect();
    let owner = worker(&provider, "w").await;
    let other = store.connect();
    let heard = listen(&other);
    write(&provider, claimed("a", &owner));
    write(&provider, Write::Turn(Box::new(turn(&owner, InstanceKey(1)))));
    let lost = store.edit_history("a", |events| events.pop()).expect("it is there");
    assert_eq!(lost, Some(scheduled(2)));
    assert_eq!(store.edit_instance("a", |row| row.epoch = Epoch(7)), Some(()));
    let next = store.snapshot().instances[0].next_event_id;
    assert_eq!((next, heard().await), (EventId(2), vec![]));
    let fenced = write(&provider, Write::Turn(Box::new(turn(&owner, InstanceKey(1)))));
    assert_eq!(fenced, Outcome::Fenced, "of another epoch");
    assert_eq!(store.edit_instance("b", |_| ()), None);
}
