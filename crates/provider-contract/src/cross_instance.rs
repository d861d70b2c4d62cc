//! The effects of a turn on other instances, and the messages that these send back (P11).

use perdure_engine::{
    ChildFailure, EndEvent, Event, EventId, EventRecord, ExecutionId, Message, MessageBody, Payload, Refusal,
    Settlement,
};
use perdure_provider::{
    AcquiredInstance, AfterTurn, CrossInstanceEffects, CrossInstanceMessage, CrossInstanceOutcome, CrossInstanceStart,
    InstanceKey, NewInstance, NewMessage, NextExecution, Outcome, Status, TurnCommit, WorkerId,
};

use crate::store::{
    Handle, START_MS, Store, VERSION, end, event, instance, queued, release, scheduled, started, suspend, turn,
};

fn text(value: &str) -> Payload {
    Some(value.into())
}

/// A turn with these effects on other instances.
fn doing(turn: TurnCommit, cross_instance: CrossInstanceEffects) -> TurnCommit {
    TurnCommit {
        cross_instance: Some(Box::new(cross_instance)),
        ..turn
    }
}

fn other(scheduled: u64, is_child: bool, instance: NewInstance) -> CrossInstanceStart {
    CrossInstanceStart {
        accepts_other: false,
        scheduled: EventId(scheduled),
        is_child,
        instance,
    }
}

fn child(scheduled: u64, id: &str) -> CrossInstanceStart {
    let instance = NewInstance {
        parent_id: Some("parent".into()),
        ..instance(id)
    };
    other(scheduled, true, instance)
}

fn sent(scheduled: u64, id: &str, body: MessageBody) -> CrossInstanceMessage {
    CrossInstanceMessage {
        scheduled: EventId(scheduled),
        message: NewMessage {
            instance: id.into(),
            body,
            unread_max: None,
            time_ms: START_MS + 2,
        },
    }
}

fn starting(starts: Vec<CrossInstanceStart>) -> CrossInstanceEffects {
    CrossInstanceEffects {
        starts,
        ..CrossInstanceEffects::default()
    }
}

fn settled(scheduled: u64, settlement: Settlement) -> MessageBody {
    MessageBody::Settled {
        execution: ExecutionId::FIRST,
        scheduled: EventId(scheduled),
        settlement,
    }
}

/// A turn that ends the instance with an event and a status.
fn ending(instance: &AcquiredInstance, worker: &WorkerId, event: Event, status: Status) -> TurnCommit {
    TurnCommit {
        events: vec![EventRecord::new(instance.next_event_id, START_MS + 3, event)],
        after: AfterTurn::End { status },
        ..turn(instance, worker)
    }
}

impl Handle<'_> {
    pub(crate) async fn did(&self, turn: TurnCommit) -> CrossInstanceOutcome {
        match self.turn(turn).await {
            Outcome::Committed { others, .. } => others.map(|others| *others).unwrap_or_default(),
            other => panic!("the turn is committed, not {other:?}"),
        }
    }

    /// Instance `parent`, owned, with children as events 2, 3, … that have no owner yet.
    async fn family(&self, worker: &WorkerId, children: &[&str]) -> AcquiredInstance {
        let parent = self.owned("parent", worker).await;
        let starts = children.iter().zip(2..).map(|(id, event)| child(event, id)).collect();
        self.did(doing(turn(&parent, worker), starting(starts))).await;
        parent
    }

    pub(crate) async fn bodies(&self, key: InstanceKey) -> Vec<MessageBody> {
        self.messages(key)
            .await
            .into_iter()
            .map(|Message { body, .. }| body)
            .collect()
    }

    async fn take(&self, worker: &WorkerId, id: &str) -> AcquiredInstance {
        let acquired = self.acquire_up_to(worker, 1).await.instances;
        let [taken] = <[_; 1]>::try_from(acquired).expect("one is due");
        assert_eq!(taken.id, id);
        taken
    }
}

/// A started instance is due at once or claimed by the worker, and a child has the id of its parent.
pub async fn a_turn_starts_instances(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.owned("parent", &worker).await;
    let mut claimed = child(2, "claimed");
    claimed.instance.claim = Some(worker.clone());
    let starts = vec![claimed, child(3, "due"), other(4, false, instance("detached"))];
    let did = store.did(doing(turn(&parent, &worker), starting(starts))).await;
    assert!(!did.refused && did.receivers.is_empty());
    let epochs: Vec<_> = did
        .started
        .iter()
        .map(|outcome| match outcome {
            Outcome::Started {
                claimed, turn: None, ..
            } => claimed.map(|epoch| epoch.0),
            other => panic!("it is started, not {other:?}"),
        })
        .collect();
    assert_eq!(epochs, [Some(1), None, None]);
    for (id, parent) in [("claimed", Some("parent")), ("due", Some("parent")), ("detached", None)] {
        assert_eq!(store.status(id).await.parent_id.as_deref(), parent);
    }
    let acquired = store.acquire(&worker).await.instances;
    let ids: Vec<_> = acquired.iter().map(|i| (i.id.as_str(), i.fresh)).collect();
    assert_eq!(ids, [("due", true), ("detached", true)]);
}

/// Nothing of a turn that is fenced off reaches others.
pub async fn a_fenced_turn_does_nothing_to_others(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.family(&worker, &["child"]).await;
    let receiver = store.start(instance("receiver")).await;
    store.commit(turn(&parent, &worker)).await;
    let late = CrossInstanceEffects {
        starts: vec![child(3, "never")],
        messages: vec![sent(4, "receiver", event("go", "1"))],
        cancelled: vec![EventId(2)],
        ..CrossInstanceEffects::default()
    };
    let stale = TurnCommit {
        next_event_id: EventId(9),
        ..turn(&parent, &worker)
    };
    assert_eq!(store.turn(doing(stale, late)).await, Outcome::Fenced);
    assert_eq!(store.find("never").await, None);
    assert_eq!(store.bodies(receiver).await, []);
    let child = store.status("child").await;
    assert_eq!(store.bodies(child.key).await, []);
}

/// A batch that is refused for another write leaves nothing of a turn's starts.
pub async fn a_refused_batch_starts_nothing(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.owned("parent", &worker).await;
    let good = doing(turn(&parent, &worker), starting(vec![child(2, "child")]));
    let bad = TurnCommit {
        events: vec![scheduled(7)],
        ..turn(&parent, &worker)
    };
    let writes = [good.clone(), bad].map(|turn| perdure_provider::Write::Turn(Box::new(turn)));
    assert!(store.try_batch(writes.into()).await.is_err());
    assert_eq!(store.find("child").await, None);
    store.did(good).await;
    assert!(store.find("child").await.is_some());
}

/// The outcome names the owner of each receiver. A receiver that sleeps becomes due.
pub async fn a_turn_sends_messages(store: &Store) {
    let store = store.first();
    let (worker, another) = (store.worker("w").await, store.worker("x").await);
    let asleep = store.owned("asleep", &another).await;
    store.commit(release(&asleep, &another, None)).await;
    let awake = store.owned("awake", &another).await;
    let parent = store.owned("parent", &worker).await;
    let messages = vec![
        sent(2, "awake", event("go", "1")),
        sent(3, "awake", queued("jobs", "2")),
        sent(4, "asleep", queued("jobs", "3")),
        sent(5, "parent", event("self", "4")),
    ];
    let cross_instance = CrossInstanceEffects {
        messages,
        ..CrossInstanceEffects::default()
    };
    let did = store.did(doing(turn(&parent, &worker), cross_instance)).await;
    assert_eq!(did.receivers, [Some(another.clone()), None, Some(worker.clone())]);
    assert_eq!(store.bodies(awake.key).await, [event("go", "1"), queued("jobs", "2")]);
    assert_eq!(store.bodies(parent.key).await, [event("self", "4")]);
    let woken = store.acquire_one(&worker).await;
    assert_eq!((woken.id.as_str(), woken.messages.messages.len()), ("asleep", 1));
}

/// An instance that is started and sent a message in one turn gets the message.
pub async fn messages_come_after_the_starts(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.owned("parent", &worker).await;
    let cross_instance = CrossInstanceEffects {
        starts: vec![child(3, "child")],
        messages: vec![sent(2, "child", event("go", "1"))],
        ..CrossInstanceEffects::default()
    };
    store.did(doing(turn(&parent, &worker), cross_instance)).await;
    let taken = store.acquire_one(&worker).await;
    assert_eq!(taken.messages.messages[0].body, event("go", "1"));
}

/// The instance is told of each refusal. Its other starts and messages are not affected.
pub async fn refusals_are_reported_to_the_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let ended = store.owned("ended", &worker).await;
    store.commit(end(&ended, &worker, None)).await;
    let parent = store.owned("parent", &worker).await;
    let cross_instance = CrossInstanceEffects {
        starts: vec![
            child(2, "ended"),
            other(3, false, instance("parent")),
            child(4, "child"),
        ],
        messages: vec![sent(5, "nobody", event("go", "1")), sent(6, "ended", event("go", "1"))],
        cancelled: vec![EventId(77)],
        ..CrossInstanceEffects::default()
    };
    let did = store.did(doing(turn(&parent, &worker), cross_instance)).await;
    assert!(did.refused);
    assert_eq!(did.receivers, [Some(worker.clone())]);
    assert!(matches!(
        did.started[..],
        [Outcome::Exists, Outcome::Exists, Outcome::Started { .. }]
    ));
    let refusals = [
        (2, Refusal::InstanceExists),
        (3, Refusal::InstanceExists),
        (5, Refusal::InstanceNotFound),
        (6, Refusal::InstanceEnded),
    ];
    let expected = refusals.map(|(event, refusal)| settled(event, Settlement::Refused(refusal)));
    assert_eq!(store.bodies(parent.key).await, expected);
}

/// Messages of the same turn count for the limit, too.
pub async fn a_message_to_a_full_mailbox_is_refused(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let receiver = store.start(instance("receiver")).await;
    store.deliver("receiver", event("go", "0")).await;
    let owned = store.acquire_one(&worker).await;
    store.commit(release(&owned, &worker, None)).await;
    let parent = store.owned("parent", &worker).await;
    let limited = |scheduled: u64| {
        let mut message = sent(scheduled, "receiver", event("go", "1"));
        message.message.unread_max = Some(2);
        message
    };
    let cross_instance = CrossInstanceEffects {
        messages: vec![limited(2), limited(3)],
        ..CrossInstanceEffects::default()
    };
    assert!(store.did(doing(turn(&parent, &worker), cross_instance)).await.refused);
    let refused = Settlement::Refused(Refusal::MailboxFull { max: 2 });
    assert_eq!(store.bodies(parent.key).await, [settled(3, refused)]);
    assert_eq!(store.bodies(receiver).await.len(), 2);
}

/// Nothing else would ever wake the instance.
pub async fn a_refusal_wakes_an_instance_that_is_released_with_it(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.start(instance("taken")).await;
    let parent = store.take(&worker, "taken").await;
    let again = doing(release(&parent, &worker, None), starting(vec![child(2, "taken")]));
    assert!(store.did(again).await.refused);
    assert_eq!(store.acquire_one(&worker).await.id, "taken");
}

/// An ended instance waits for no answer.
pub async fn an_end_is_told_of_no_refusal(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.owned("parent", &worker).await;
    let last = doing(
        end(&parent, &worker, None),
        starting(vec![other(2, false, instance("parent"))]),
    );
    assert!(!store.did(last).await.refused);
    assert_eq!(store.bodies(parent.key).await, []);
}

/// The parent is told in the commit of the child's end, for each kind of end.
pub async fn the_end_of_a_child_is_told_to_its_parent(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let ends = [
        (
            Event::End(EndEvent::ExecutionCompleted { output: text("1") }),
            Status::Completed,
            Settlement::Completed(text("1")),
        ),
        (
            Event::End(EndEvent::ExecutionFailed { error: text("2") }),
            Status::Failed,
            Settlement::Failed(ChildFailure::Failed, text("2")),
        ),
        (
            Event::End(EndEvent::ExecutionCancelled { error: text("3") }),
            Status::Cancelled,
            Settlement::Failed(ChildFailure::Cancelled, text("3")),
        ),
    ];
    let parent = store.family(&worker, &["c2", "c3", "c4", "c5"]).await;
    let mut expected = Vec::new();
    for ((event, status, settlement), number) in ends.into_iter().zip(2..) {
        let child = store.take(&worker, &format!("c{number}")).await;
        let did = store.did(ending(&child, &worker, event, status)).await;
        assert_eq!(did.receivers, [Some(worker.clone())]);
        expected.push(settled(number, settlement));
    }
    let outcome = store.terminate("c5", text("4")).await;
    assert!(matches!(outcome, Outcome::Terminated { receivers, .. } if receivers == [Some(worker.clone())]));
    expected.push(settled(5, Settlement::Failed(ChildFailure::Terminated, text("4"))));
    assert_eq!(store.bodies(parent.key).await, expected);
}

/// A child that goes through several executions, or is suspended in between, tells its parent once.
pub async fn a_child_that_continues_as_new_is_the_same_child(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.family(&worker, &["child"]).await;
    let first = store.take(&worker, "child").await;
    let last = EndEvent::ExecutionContinuedAsNew {
        input: None,
        version: VERSION.into(),
    };
    let next = NextExecution {
        version: VERSION.into(),
        first_event: started(None),
        hold: false,
    };
    let after = AfterTurn::ContinueAsNew(Box::new(next));
    let events = vec![EventRecord::new(EventId(2), START_MS + 3, last)];
    let did = store
        .did(TurnCommit {
            events,
            after,
            ..turn(&first, &worker)
        })
        .await;
    assert_eq!(did, CrossInstanceOutcome::default());
    let second = store.take(&worker, "child").await;
    store.commit(suspend(&second, &worker, "why")).await;
    assert_eq!(store.bodies(parent.key).await, []);
    store.resume("child").await;
    let third = store.take(&worker, "child").await;
    store.did(end(&third, &worker, text("1"))).await;
    assert_eq!(
        store.bodies(parent.key).await,
        [settled(2, Settlement::Completed(text("1")))]
    );
}

/// The parent is due at once. A suspended parent gets the message when it is resumed.
pub async fn the_end_of_a_child_wakes_its_parent(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.family(&worker, &["a", "b"]).await;
    store.commit(release(&parent, &worker, None)).await;
    let child = store.take(&worker, "a").await;
    assert_eq!(store.did(end(&child, &worker, None)).await.receivers, [None]);
    let parent = store.take(&worker, "parent").await;
    let child = store.take(&worker, "b").await;
    assert_eq!(parent.messages.messages.len(), 1);
    store.commit(suspend(&parent, &worker, "why")).await;
    store.did(end(&child, &worker, None)).await;
    store.assert_nothing_due(&worker).await;
    store.resume("parent").await;
    assert_eq!(store.take(&worker, "parent").await.messages.messages.len(), 2);
}

/// A parent that has ended, was replaced, or is in its next execution does not wait for the child.
pub async fn the_end_of_a_child_is_reported_only_to_a_waiting_parent(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.family(&worker, &["a", "b"]).await;
    store.commit(end(&parent, &worker, None)).await;
    let a = store.take(&worker, "a").await;
    assert_eq!(store.did(end(&a, &worker, None)).await.receivers, []);
    let again = NewInstance {
        on_conflict: perdure_provider::OnConflict::RestartIfTerminal,
        ..instance("parent")
    };
    let key = store.start(again).await;
    let b = store.take(&worker, "b").await;
    assert_eq!(store.did(end(&b, &worker, None)).await.receivers, []);
    assert_eq!(store.bodies(key).await, []);
}

/// A turn cancels only its own child of that event. An ended child is not cancelled.
pub async fn a_turn_cancels_children(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.family(&worker, &["ended", "a", "b"]).await;
    let ended = store.take(&worker, "ended").await;
    store.did(end(&ended, &worker, None)).await;
    let a = store.take(&worker, "a").await;
    store.commit(release(&a, &worker, None)).await;
    let cross_instance = CrossInstanceEffects {
        cancelled: vec![EventId(2), EventId(3)],
        ..CrossInstanceEffects::default()
    };
    let did = store.did(doing(turn(&parent, &worker), cross_instance)).await;
    assert_eq!(did.receivers, [None]);
    assert_eq!(store.bodies(a.key).await, [MessageBody::Cancel { reason: None }]);
    let b = store.status("b").await;
    assert_eq!(store.bodies(b.key).await, []);
    let woken = store.acquire(&worker).await.instances;
    assert!(woken.iter().any(|instance| instance.id == "a"), "it is due");
}

/// No child of a terminated instance goes on by itself. Detached instances do.
pub async fn a_termination_cancels_the_children(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.family(&worker, &["a", "b"]).await;
    let detached = starting(vec![other(9, false, instance("detached"))]);
    store.did(doing(turn(&parent, &worker), detached)).await;
    let a = store.take(&worker, "a").await;
    let outcome = store.terminate("parent", None).await;
    assert!(matches!(outcome, Outcome::Terminated { receivers, .. } if receivers == [Some(worker.clone()), None]));
    let cancel = MessageBody::Cancel { reason: None };
    for key in [a.key, store.status("b").await.key] {
        assert_eq!(store.bodies(key).await, std::slice::from_ref(&cancel));
    }
    assert_eq!(store.bodies(store.status("detached").await.key).await, []);
}

/// A suspended child used to be left behind until a worker brought fitting code.
pub async fn a_suspended_child_ends_with_its_parent(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.family(&worker, &["a", "b"]).await;
    store.suspend("a", "why").await;
    store.terminate("parent", None).await;
    assert_eq!(store.status("a").await.status, Status::Cancelled);
    assert_eq!(store.status("b").await.status, Status::Pending);
    let b = store.status("b").await.key;
    assert_eq!(store.bodies(b).await, [MessageBody::Cancel { reason: None }]);
}

/// The parent is told as of any other end.
pub async fn a_suspended_child_ends_when_it_is_cancelled(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.family(&worker, &["a", "b"]).await;
    let a = store.status("a").await.key;
    store.suspend("a", "why").await;
    let cross_instance = CrossInstanceEffects {
        cancelled: vec![EventId(2), EventId(3)],
        ..CrossInstanceEffects::default()
    };
    store.clock.advance(3);
    let did = store.did(doing(turn(&parent, &worker), cross_instance)).await;
    assert!(did.receivers.contains(&Some(worker.clone())), "{:?}", did.receivers);
    let status = store.status("a").await;
    assert_eq!((status.status, status.result), (Status::Cancelled, None));
    let last = store.history(a).await;
    assert_eq!(last.len(), 3);
    let settled = MessageBody::Settled {
        execution: parent.execution,
        scheduled: EventId(2),
        settlement: Settlement::Failed(ChildFailure::Cancelled, None),
    };
    assert_eq!(store.bodies(parent.key).await, [settled]);
    let b = store.status("b").await.key;
    assert_eq!(store.bodies(b).await, [MessageBody::Cancel { reason: None }]);
}

/// The request goes down the family to any depth. Suspended instances end, and the first that can run is asked to
/// cancel.
pub async fn a_suspended_family_ends_as_one(store: &Store) {
    const DEEP: u64 = 20;
    let store = store.first();
    let worker = store.worker("w").await;
    store.start(instance("0")).await;
    for generation in 1..=DEEP {
        let owned = store.acquire_one(&worker).await;
        let id = generation.to_string();
        store
            .did(doing(turn(&owned, &worker), starting(vec![child(2, &id)])))
            .await;
        if generation < DEEP {
            store.suspend(&owned.id, "why").await;
        }
    }
    // The last two can run.
    let outcome = store.send("0", MessageBody::Cancel { reason: None }).await;
    assert!(matches!(outcome, Outcome::Terminated { .. }), "{outcome:?}");
    for generation in 0..DEEP - 1 {
        let status = store.status(&generation.to_string()).await.status;
        assert_eq!(status, Status::Cancelled, "{generation}");
    }
    let asked = store.status(&(DEEP - 1).to_string()).await;
    assert_eq!(asked.status, Status::Running);
    assert_eq!(store.bodies(asked.key).await, [MessageBody::Cancel { reason: None }]);
    assert_eq!(store.bodies(store.status(&DEEP.to_string()).await.key).await, []);
}

/// A turn can start a thousand instances.
pub async fn a_turn_starts_many(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let parent = store.owned("parent", &worker).await;
    let starts = (2..1_002).map(|event| child(event, &format!("c{event}"))).collect();
    let did = store.did(doing(turn(&parent, &worker), starting(starts))).await;
    assert_eq!(did.started.len(), 1_000);
    assert_eq!(store.acquire_up_to(&worker, 2_000).await.instances.len(), 1_000);
}
