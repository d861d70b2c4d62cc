//! Executions that end where the next one begins (P10).

use perdure_engine::{EndEvent, EventId, EventRecord, ExecutionId, MessageSeq, Payload};
use perdure_provider::{
    Acquire, AcquiredInstance, AfterTurn, Epoch, InstanceKey, MessagePage, NextExecution, Outcome, PageLimit,
    ProviderError, Status, TurnCommit, WorkerId, Write,
};

use crate::store::{
    Handle, START_MS, Store, VERSION, custom_status, end, event, instance, scheduled, started, suspend, turn,
};

/// A turn that continues the instance as new.
pub(crate) fn continued(instance: &AcquiredInstance, worker: &WorkerId, input: Payload, hold: bool) -> TurnCommit {
    let last = EndEvent::ExecutionContinuedAsNew {
        input: input.clone(),
        version: VERSION.into(),
    };
    let next = NextExecution {
        version: VERSION.into(),
        first_event: started(input),
        hold,
    };
    TurnCommit {
        events: vec![EventRecord::new(instance.next_event_id, START_MS + 1, last)],
        after: AfterTurn::ContinueAsNew(Box::new(next)),
        ..turn(instance, worker)
    }
}

/// The instance as its worker has it after [`continued`].
pub(crate) fn next_of(instance: &AcquiredInstance) -> AcquiredInstance {
    AcquiredInstance {
        execution: instance.execution.next(),
        next_event_id: EventId::FIRST.next(),
        ..instance.clone()
    }
}

fn text(value: &str) -> Payload {
    Some(value.into())
}

/// The same worker has the next execution in the same epoch. Turns of the next execution commit, and turns of the
/// former one are fenced off.
pub async fn the_worker_keeps_the_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let again = continued(&owned, &worker, text("2"), true);
    assert_eq!(store.commit(again.clone()).await, None);
    let status = store.status("a").await;
    assert_eq!((status.status, status.execution), (Status::Running, ExecutionId(2)));
    assert_eq!((status.result, status.completed_at_ms), (None, None));
    store.assert_nothing_due(&worker).await;

    assert_eq!(store.turn(again).await, Outcome::Fenced);
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    let next = next_of(&owned);
    store
        .commit(TurnCommit {
            events: vec![scheduled(2)],
            ..turn(&next, &worker)
        })
        .await;
    assert_eq!(store.history_of(owned.key, ExecutionId(2)).await.len(), 2);
}

/// A worker that has registered the orchestration in its new version acquires the instance, fresh.
pub async fn a_worker_can_give_it_back(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let mut again = continued(&owned, &worker, text("2"), false);
    if let AfterTurn::ContinueAsNew(next) = &mut again.after {
        next.version = "2.0.0".into();
    }
    assert_eq!(store.commit(again).await, Some(store.now_ms()));
    store.assert_nothing_due(&worker).await;
    let registered = vec![(owned.name.clone(), "2.0.0".to_owned())];
    let acquired = store
        .request(Acquire {
            worker: worker.clone(),
            registered,
            limit: PageLimit::rows(10),
            history_page: PageLimit::rows(10),
            left_ms: 0,
            looked: false,
        })
        .await;
    let [next] = &acquired.instances[..] else {
        panic!("it is due for whoever has its version, not {acquired:?}")
    };
    assert_eq!((next.key, next.execution), (owned.key, ExecutionId(2)));
    assert_eq!((next.version.as_str(), next.next_event_id), ("2.0.0", EventId(2)));
    assert!(next.fresh && next.epoch > owned.epoch);
    assert_eq!(next.history, [started(text("2"))]);
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
}

/// Unread messages and the custom status survive.
pub async fn unread_messages_and_the_custom_status_stay(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.start(instance("a")).await;
    let read = store.deliver("a", event("go", "1")).await;
    let unread = store.deliver("a", event("later", "2")).await;
    let owned = store.acquire_one(&worker).await;
    store
        .commit(TurnCommit {
            consumed: vec![read],
            custom_status: custom_status("half"),
            ..continued(&owned, &worker, None, true)
        })
        .await;
    let late = store.deliver("a", event("late", "3")).await;
    let seqs: Vec<_> = store.messages(owned.key).await.iter().map(|m| m.seq).collect();
    assert_eq!(seqs, [unread, late]);
    let status = store.status("a").await;
    assert_eq!(
        (status.custom_status.as_deref(), status.custom_status_version),
        (Some("half"), 1)
    );
}

/// Each execution has a history of its own.
pub async fn former_executions_can_be_read(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    for round in 0..3 {
        store
            .commit(continued(&owned, &worker, text(&round.to_string()), true))
            .await;
        owned = next_of(&owned);
    }
    store.commit(end(&owned, &worker, text("done"))).await;
    for (execution, input) in [(1, "{}"), (2, "0"), (3, "1"), (4, "2")] {
        let history = store.history_of(owned.key, ExecutionId(execution)).await;
        assert_eq!(history.len(), 2, "execution {execution}");
        assert_eq!(history[0].payload.as_deref(), Some(input));
    }
    let status = store.status("a").await;
    assert_eq!((status.execution, status.result), (ExecutionId(4), text("done")));
}

/// An instance can be started and continued as new in one turn.
pub async fn a_first_turn_can_continue(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut new = instance("a");
    new.claim = Some(worker.clone());
    let unborn = AcquiredInstance {
        key: InstanceKey(0),
        id: new.id.clone(),
        name: new.name.clone(),
        version: new.version.clone(),
        parent_id: None,
        tags: None,
        execution: ExecutionId::FIRST,
        epoch: Epoch(0),
        next_event_id: EventId::FIRST.next(),
        fresh: true,
        page_bytes: 0,
        history: Vec::new(),
        messages: MessagePage::default(),
        seen: MessageSeq(0),
        heartbeats: Vec::new(),
        tasks: Vec::new(),
        suspicion: perdure_provider::Suspicion::default(),
    };
    new.first_turn = Some(Box::new(continued(&unborn, &worker, text("2"), true)));
    let key = store.start(new).await;
    assert_eq!(store.status("a").await.execution, ExecutionId(2));
    assert_eq!(store.history_of(key, ExecutionId(2)).await, [started(text("2"))]);
}

/// The instance is resumed as `Running`, not as `Pending`, although no turn of this execution was committed.
pub async fn a_suspension_after_it_is_resumed_as_running(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(continued(&owned, &worker, None, true)).await;
    store.commit(suspend(&next_of(&owned), &worker, "why")).await;
    assert_eq!(store.resume("a").await, Outcome::Resumed);
    assert_eq!(store.status("a").await.status, Status::Running);
    assert!(store.acquire_one(&worker).await.fresh);
}

/// A turn is refused if its last event does not say that it continues as new, or if the next execution lacks its first
/// event.
pub async fn is_refused_when_its_events_do_not_fit(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let sound = || continued(&owned, &worker, None, true);
    let unsaid = TurnCommit {
        events: vec![scheduled(2)],
        ..sound()
    };
    let not_last = TurnCommit {
        events: [sound().events, vec![scheduled(3)]].concat(),
        ..sound()
    };
    let only_said = TurnCommit {
        after: AfterTurn::Hold,
        ..sound()
    };
    let mut strange = sound();
    if let AfterTurn::ContinueAsNew(next) = &mut strange.after {
        next.first_event = scheduled(1);
    }
    for turn in [unsaid, not_last, only_said, strange] {
        assert!(store.try_turn(turn).await.is_err());
    }
    store.commit(sound()).await;
}

impl Handle<'_> {
    async fn history_of(&self, key: InstanceKey, execution: ExecutionId) -> Vec<EventRecord> {
        self.provider
            .read_history(key, execution, EventId::FIRST, PageLimit::rows(usize::MAX))
            .await
            .expect("the store answers")
    }

    async fn try_turn(&self, turn: TurnCommit) -> Result<Vec<Outcome>, ProviderError> {
        self.try_batch(vec![Write::Turn(Box::new(turn))]).await
    }
}
