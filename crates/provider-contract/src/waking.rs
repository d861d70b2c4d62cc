//! Turns that acquire their sleeping instances (P20).

use perdure_engine::MessageSeq;
use perdure_provider::{
    AcquiredInstance, AfterTurn, AskState, Epoch, InstanceKey, Outcome, ProviderErrorKind, Status, TurnCommit,
    WorkerId, Write,
};

use crate::asks::{answered, ask, with_value};
use crate::continue_as_new::continued;
use crate::store::{Handle, START_MS, Store, end, event, instance, release, scheduled, suspend, turn};

/// Returns an instance that sleeps in the store, as its last worker knew it.
async fn asleep(store: &Handle<'_>, id: &str, worker: &WorkerId) -> AcquiredInstance {
    let owned = store.owned(id, worker).await;
    store.commit(release(&owned, worker, None)).await;
    owned
}

/// Makes a turn wake its instance.
pub(crate) fn waking(turn: TurnCommit) -> TurnCommit {
    TurnCommit {
        epoch: Epoch(turn.epoch.0 + 1),
        wakes: true,
        ..turn
    }
}

/// A waking turn with one event, after which its worker keeps the instance.
fn step(instance: &AcquiredInstance, worker: &WorkerId) -> TurnCommit {
    let turn = waking(turn(instance, worker));
    TurnCommit {
        events: vec![scheduled(turn.next_event_id.0)],
        ..turn
    }
}

async fn is_fenced(store: &Handle<'_>, turn: TurnCommit) -> bool {
    store.turn(turn).await == Outcome::Fenced
}

/// The worker keeps it, in the next epoch.
pub async fn acquires_its_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let sleeping = asleep(&store, "a", &worker).await;
    assert_eq!(store.commit(step(&sleeping, &worker)).await, None);
    let owned = store.provider.owned_by(&worker, InstanceKey(i64::MIN), 10).await;
    assert_eq!(owned, Ok(vec![(sleeping.key, Epoch(sleeping.epoch.0 + 1))]));
    assert_eq!(store.history(sleeping.key).await.len(), 2);
    store.clock.advance(i64::from(i32::MAX));
    store.assert_nothing_due(&worker).await;
    // The next turn is an ordinary one.
    let next = AcquiredInstance {
        epoch: Epoch(sleeping.epoch.0 + 1),
        next_event_id: sleeping.next_event_id.next(),
        ..sleeping
    };
    store.commit(end(&next, &worker, None)).await;
    assert_eq!(store.status("a").await.status, Status::Completed);
}

/// The instance sleeps in the next epoch, until the time that the turn names.
pub async fn may_put_its_instance_to_sleep_again(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let sleeping = asleep(&store, "a", &worker).await;
    let due = Some(START_MS + 50);
    let turn = TurnCommit {
        after: AfterTurn::Release { wake_at_ms: due },
        ..step(&sleeping, &worker)
    };
    assert_eq!(store.commit(turn).await, due);
    store.assert_nothing_due(&worker).await;
    store.clock.advance(50);
    let woken = store.acquire_one(&worker).await;
    assert_eq!(woken.epoch, Epoch(sleeping.epoch.0 + 2));
}

/// The answer has the status, as that of any turn.
pub async fn may_end_its_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let sleeping = asleep(&store, "a", &worker).await;
    let output = Some("\"done\"".to_owned());
    let turn = TurnCommit {
        tell_status: true,
        ..waking(end(&sleeping, &worker, output.clone()))
    };
    let Outcome::Committed {
        status: Some(status), ..
    } = store.turn(turn).await
    else {
        panic!("it is committed, with the status");
    };
    assert_eq!((status.status, status.result), (Status::Completed, output));
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
}

/// The worker keeps the next execution.
pub async fn may_continue_its_instance_as_new(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let sleeping = asleep(&store, "a", &worker).await;
    let turn = waking(continued(&sleeping, &worker, None, true));
    assert_eq!(store.commit(turn).await, None);
    assert_eq!(store.provider.release_worker(&worker).await, Ok(1));
}

/// A time that has come makes no difference while no worker has acquired the instance.
pub async fn wakes_an_instance_that_is_due(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(release(&owned, &worker, Some(START_MS))).await;
    assert_eq!(store.commit(step(&owned, &worker)).await, None);
    store.assert_nothing_due(&worker).await;
}

/// The message comes first, so the worker has to acquire the instance with it.
pub async fn is_fenced_off_by_a_message(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let sleeping = asleep(&store, "a", &worker).await;
    let seq = store.deliver("a", event("go", "1")).await;
    assert!(is_fenced(&store, step(&sleeping, &worker)).await);
    // A turn that consumes an earlier message does not slip past a later one.
    store.deliver("a", event("go", "2")).await;
    assert!(is_fenced(&store, consuming(&sleeping, &worker, &[seq], seq)).await);
    let messages = store.acquire_one(&worker).await.messages.messages;
    assert_eq!((messages.len(), messages[0].seq), (2, seq));
}

/// A waking turn of a worker that has seen the messages up to `seen`.
fn consuming(instance: &AcquiredInstance, worker: &WorkerId, consumed: &[MessageSeq], seen: MessageSeq) -> TurnCommit {
    TurnCommit {
        consumed: consumed.to_vec(),
        seen,
        ..step(instance, worker)
    }
}

/// The messages go with the turn. A later one makes the instance due again.
pub async fn may_consume_the_messages_that_wait(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let sleeping = asleep(&store, "a", &worker).await;
    let mut seqs = Vec::new();
    for n in ["1", "2"] {
        seqs.push(store.deliver("a", event("go", n)).await);
    }
    let turn = TurnCommit {
        after: AfterTurn::Release { wake_at_ms: None },
        ..consuming(&sleeping, &worker, &seqs, seqs[1])
    };
    assert_eq!(store.commit(turn).await, None);
    assert_eq!(store.messages(sleeping.key).await, []);
    store.assert_nothing_due(&worker).await;
    let later = store.deliver("a", event("go", "3")).await;
    let woken = store.acquire_one(&worker).await;
    assert_eq!(woken.epoch, Epoch(sleeping.epoch.0 + 2));
    assert_eq!(woken.messages.messages[0].seq, later);
}

/// A message that the code does not wait for stays, and does not make the instance due.
pub async fn may_leave_messages_that_it_has_seen(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let sleeping = asleep(&store, "a", &worker).await;
    let unwanted = store.deliver("a", event("later", "1")).await;
    let wanted = store.deliver("a", event("go", "2")).await;
    let turn = TurnCommit {
        after: AfterTurn::Release { wake_at_ms: None },
        ..consuming(&sleeping, &worker, &[wanted], wanted)
    };
    assert_eq!(store.commit(turn).await, None);
    store.assert_nothing_due(&worker).await;
    let left: Vec<MessageSeq> = store.messages(sleeping.key).await.iter().map(|m| m.seq).collect();
    assert_eq!(left, [unwanted]);
    // So may a turn that consumes none, as that of a timer does.
    let again = AcquiredInstance {
        epoch: Epoch(sleeping.epoch.0 + 1),
        next_event_id: sleeping.next_event_id.next(),
        ..sleeping
    };
    assert_eq!(store.commit(consuming(&again, &worker, &[], wanted)).await, None);
}

/// All of its messages go, also those that the turn did not consume (P6).
pub async fn may_end_its_instance_with_messages(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for (id, consumes) in [("a", true), ("b", false)] {
        let sleeping = asleep(&store, id, &worker).await;
        let first = store.deliver(id, event("go", "1")).await;
        let last = store.deliver(id, event("later", "2")).await;
        let turn = TurnCommit {
            consumed: consumes.then_some(first).into_iter().collect(),
            seen: last,
            ..waking(end(&sleeping, &worker, None))
        };
        assert_eq!(store.commit(turn).await, None);
        assert_eq!(store.status(id).await.status, Status::Completed);
        assert_eq!(store.messages(sleeping.key).await, []);
    }
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
}

/// By its own worker, too: the turn is not that of the acquired instance.
pub async fn is_fenced_off_by_an_acquisition(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    for owner in [&worker, &other] {
        let id = &*owner.0;
        let owned = store.owned(id, &worker).await;
        store.commit(release(&owned, &worker, Some(START_MS))).await;
        let acquired = store.acquire_one(owner).await;
        assert!(is_fenced(&store, step(&owned, &worker)).await, "{id} owns it");
        store.commit(release(&acquired, owner, None)).await;
        assert!(is_fenced(&store, step(&owned, &worker)).await, "{id} has released it");
        let as_released = TurnCommit {
            next_event_id: acquired.next_event_id.next(),
            ..waking(turn(&acquired, &worker))
        };
        assert!(is_fenced(&store, as_released).await, "another event is the next");
    }
}

/// A suspended instance, one that has ended and one that has not begun cannot be woken.
pub async fn is_fenced_off_by_the_status(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("suspended", &worker).await;
    store.commit(suspend(&owned, &worker, "{}")).await;
    assert!(is_fenced(&store, step(&owned, &worker)).await);
    let owned = store.owned("ended", &worker).await;
    store.commit(end(&owned, &worker, None)).await;
    let after = TurnCommit {
        next_event_id: owned.next_event_id.next(),
        ..waking(turn(&owned, &worker))
    };
    assert!(is_fenced(&store, after).await);
    let key = store.start(instance("new")).await;
    let new = AcquiredInstance {
        key,
        epoch: Epoch(0),
        ..owned
    };
    assert!(is_fenced(&store, step(&new, &worker)).await, "it has not begun");
}

/// No worker would ever take the instance over.
pub async fn needs_a_registered_worker(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let sleeping = asleep(&store, "a", &worker).await;
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
    assert!(is_fenced(&store, step(&sleeping, &worker)).await);
    store.commit(step(&sleeping, &other)).await;
}

/// One of them is fenced off, and the others are written.
pub async fn goes_with_other_turns_in_a_batch(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut sleeping = Vec::new();
    for id in ["a", "b", "c"] {
        sleeping.push(asleep(&store, id, &worker).await);
    }
    let owned = store.owned("d", &worker).await;
    store.deliver("b", event("go", "1")).await;
    let mut turns: Vec<TurnCommit> = sleeping.iter().map(|one| step(one, &worker)).collect();
    turns.push(turn(&owned, &worker));
    let turns = turns.into_iter().map(|turn| Write::Turn(Box::new(turn)));
    let outcomes = store.batch(turns.collect()).await;
    let fenced: Vec<bool> = outcomes.iter().map(|outcome| *outcome == Outcome::Fenced).collect();
    assert_eq!(fenced, [false, true, false, false]);
    assert_eq!(store.provider.release_worker(&worker).await, Ok(3));
}

/// A waking turn that sends an ask.
fn asking(instance: &AcquiredInstance, worker: &WorkerId, ask: &str) -> TurnCommit {
    TurnCommit {
        asked: Some(ask.into()),
        ..step(instance, worker)
    }
}

/// With its answer, or without one, which a later turn gives. A refused ask leaves no event.
pub async fn may_send_the_ask_that_wakes_its_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut sleeping = asleep(&store, "a", &worker).await;
    for (ask, answers, events) in [("1", true, true), ("2", true, false), ("3", false, true)] {
        let turn = asking(&sleeping, &worker, ask);
        let turn = TurnCommit {
            answers: answers.then(|| answered(ask)).into_iter().collect(),
            events: turn.events.clone().into_iter().filter(|_| events).collect(),
            after: AfterTurn::Release { wake_at_ms: None },
            ..turn
        };
        store.commit(turn).await;
        sleeping.epoch.0 += 1;
        sleeping.next_event_id.0 += u64::from(events);
    }
    let open = Some(AskState::Open);
    assert_eq!(
        store.asks(["1", "2", "3"]).await,
        [with_value("1"), with_value("2"), open]
    );
    assert_eq!(store.messages(sleeping.key).await.len(), 0);
    let again = store.write(ask("1")).await;
    assert_eq!(Some(again), with_value("1").map(|state| Outcome::Asked { state }));
    let last = TurnCommit {
        answers: vec![answered("3")],
        ..step(&sleeping, &worker)
    };
    store.commit(last).await;
    assert_eq!(store.asks(["3"]).await, [with_value("3")]);
}

/// The handler must not run again.
pub async fn is_fenced_off_by_an_ask_that_is_there(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut sleeping = asleep(&store, "a", &worker).await;
    let asleep_again = |turn: TurnCommit| TurnCommit {
        after: AfterTurn::Release { wake_at_ms: None },
        ..turn
    };
    let first = TurnCommit {
        answers: vec![answered("1")],
        ..asking(&sleeping, &worker, "1")
    };
    store.commit(asleep_again(first)).await;
    sleeping.epoch.0 += 1;
    sleeping.next_event_id = sleeping.next_event_id.next();
    assert!(is_fenced(&store, asking(&sleeping, &worker, "1")).await);
    assert_eq!(store.history(sleeping.key).await.len(), 2);
    store.commit(asleep_again(asking(&sleeping, &worker, "2"))).await;
    assert_eq!(store.asks(["1", "2"]).await, [with_value("1"), Some(AskState::Open)]);
}

/// Such a turn is a defect of its caller.
pub async fn sends_no_ask_to_an_instance_that_is_awake(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let turn = TurnCommit {
        asked: Some("1".into()),
        ..turn(&owned, &worker)
    };
    let refused = store.try_batch(vec![Write::Turn(Box::new(turn))]).await;
    assert_eq!(refused.expect_err("it is refused").kind, ProviderErrorKind::Internal);
}
