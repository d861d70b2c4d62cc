//! Texts come back as they went in: no store looks into them.

use perdure_engine::{
    ActivityOptions, ChildFailure, CommandEvent, DeliveryEvent, Event, EventId, EventKind, EventRecord, ExecutionId,
    ExecutionStarted, InstanceStart, Interruption, Mailbox, MessageBody, NoteEvent, ParentLink, Payload, Refusal,
    RetryPolicy, StartConflict, StateValues,
};
use perdure_provider::{AcquiredInstance, NewInstance, StatusChange, TurnCommit, WorkerId};

use crate::store::{Handle, START_MS, Store, instance, scheduled, suspend, turn};

/// Texts that a store may stumble over. `None` is not the empty text.
pub(crate) fn texts() -> Vec<Payload> {
    let mut texts: Vec<Payload> = [
        "",
        " ",
        "null",
        "0",
        "007",
        "1e400",
        "9007199254740993",
        "{\"__proto__\":{\"polluted\":true},\"a\":[1,2.5,-0,null]}",
        "\0",
        "a\0b\0",
        "\u{10FFFF}\u{1F600}\u{1D11E} 4 bytes",
        "e\u{301} is not \u{e9}",
        "\u{FEFF}\u{2028}\u{202E}\r\n\t",
        "'; DROP TABLE history; -- $1 ?1 :a %s \\",
        "X'00'",
        "\u{D7FF}\u{E000}\u{FFFD}",
    ]
    .into_iter()
    .map(|text| Some(text.to_owned()))
    .collect();
    texts.push(None);
    texts.push(Some("\u{e9}\0x".repeat(1 << 18)));
    texts
}

/// Each text is stored in every place that holds a text of the user's.
pub async fn texts_come_back_as_they_went_in(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for (n, text) in texts().into_iter().enumerate() {
        let head: String = text.as_deref().unwrap_or_default().chars().take(20).collect();
        let id = format!("{n} {head}");
        let (owned, first_event) = start_and_acquire(&store, &worker, &id, &text).await;
        let event = commit_turn(&store, &worker, &owned, &text).await;
        assert_eq!(store.history(owned.key).await, [first_event, event]);
        suspend_and_terminate(&store, &worker, &owned, &text).await;
    }
}

/// Checks the texts of a start and of messages. Returns the instance as it was acquired, and its first event.
async fn start_and_acquire(
    store: &Handle<'_>,
    worker: &WorkerId,
    id: &str,
    text: &Payload,
) -> (AcquiredInstance, EventRecord) {
    let first_event = EventRecord {
        payload: text.clone(),
        meta: text.clone(),
        ..instance(id).first_event
    };
    let new = NewInstance {
        first_event: first_event.clone(),
        parent_id: text.clone(),
        tags: text.clone(),
        priority: -7,
        ..instance(id)
    };
    store.start(new).await;
    let name = text.clone().unwrap_or_default();
    let mail = |mailbox| MessageBody::Mail {
        mailbox,
        payload: text.clone(),
    };
    let bodies = [
        mail(Mailbox::Event(name.clone())),
        mail(Mailbox::Queue(name)),
        MessageBody::Cancel { reason: text.clone() },
    ];
    for body in bodies.clone() {
        store.deliver(id, body).await;
    }
    let owned = store.acquire_one(worker).await;
    assert_eq!((owned.id.as_str(), &owned.parent_id), (id, text));
    assert_eq!(owned.history, std::slice::from_ref(&first_event));
    let received: Vec<_> = owned
        .messages
        .messages
        .iter()
        .map(|message| message.body.clone())
        .collect();
    assert_eq!(received, bodies);
    assert_eq!(store.messages(owned.key).await, owned.messages.messages);
    (owned, first_event)
}

/// Checks the texts of a turn and of its status. Returns the event of the turn.
async fn commit_turn(store: &Handle<'_>, worker: &WorkerId, owned: &AcquiredInstance, text: &Payload) -> EventRecord {
    let event = EventRecord {
        name: text.clone(),
        payload: text.clone(),
        meta: text.clone(),
        ..scheduled(2)
    };
    store
        .commit(TurnCommit {
            events: vec![event.clone()],
            custom_status: Some(StatusChange { value: text.clone() }),
            ..turn(owned, worker)
        })
        .await;
    let status = store.status(&owned.id).await;
    assert_eq!(
        (&status.custom_status, &status.tags, &status.parent_id, status.priority),
        (text, text, text, -7)
    );
    event
}

/// Checks the texts of a report and of a terminal event.
async fn suspend_and_terminate(store: &Handle<'_>, worker: &WorkerId, owned: &AcquiredInstance, text: &Payload) {
    let report = text.clone().unwrap_or_default();
    let held = TurnCommit {
        next_event_id: EventId(3),
        ..suspend(owned, worker, &report)
    };
    store.commit(held).await;
    assert_eq!(store.status(&owned.id).await.result, Some(report));
    store.terminate(&owned.id, text.clone()).await;
    assert_eq!(store.status(&owned.id).await.result, *text);
    assert_eq!(store.history(owned.key).await[2].payload, *text);
}

fn payload() -> Payload {
    Some("{\"a\":1}".to_owned())
}

fn first_event() -> Event {
    let parent = ParentLink {
        instance: "p".into(),
        execution: ExecutionId(3),
        scheduled: EventId(9),
    };
    Event::Started(ExecutionStarted {
        name: "flow".into(),
        version: "1.0.0".into(),
        input: payload(),
        seed: u64::MAX - 1,
        incarnation: None,
        parent: Some(parent),
        custom_status: payload(),
        state: StateValues::from([("a".into(), payload()), ("u".into(), None)]),
        closed_streams: Default::default(),
        time_limit: None,
        trace: None,
    })
}

fn events_of_activities_and_timers() -> Vec<Event> {
    let options = ActivityOptions {
        retry: RetryPolicy {
            max_attempts: 7,
            non_retryable: vec!["E".into()],
            retry_on: vec!["F".into()],
            ..RetryPolicy::default()
        },
        timeout_ms: Some(u64::MAX),
        ..ActivityOptions::default()
    };
    vec![
        Event::Command(CommandEvent::ActivityScheduled {
            name: "step".into(),
            input: payload(),
            options,
        }),
        Event::Delivery(DeliveryEvent::ActivityCompleted {
            scheduled: EventId(2),
            output: payload(),
        }),
        Event::Note(NoteEvent::ActivityAttemptFailed {
            scheduled: EventId(2),
            attempt: 1,
            error: payload(),
            retry_at_ms: i64::MAX,
        }),
        Event::Delivery(DeliveryEvent::ActivityFailed {
            scheduled: EventId(2),
            attempt: 2,
            error: None,
        }),
        Event::Command(CommandEvent::TimerCreated { fire_at_ms: -1 }),
        Event::Delivery(DeliveryEvent::TimerFired { timer: EventId(6) }),
    ]
}

fn events_of_children_and_starts() -> Vec<Event> {
    let start = || InstanceStart {
        on_conflict: StartConflict::default(),
        admission: None,
        id: "other".into(),
        name: "flow".into(),
        version: "1.0.0".into(),
        input: payload(),
        tags: payload(),
        priority: -7,
        trace: None,
    };
    vec![
        Event::Command(CommandEvent::ChildScheduled(start())),
        Event::Delivery(DeliveryEvent::ChildCompleted {
            scheduled: EventId(8),
            output: payload(),
        }),
        Event::Delivery(DeliveryEvent::ChildFailed {
            scheduled: EventId(8),
            failure: ChildFailure::Terminated,
            error: payload(),
        }),
        Event::Command(CommandEvent::InstanceStarted(start())),
    ]
}

fn events_of_messages_and_cancellation() -> Vec<Event> {
    vec![
        Event::Command(CommandEvent::MessageSent {
            instance: "other".into(),
            mailbox: Mailbox::Event("go".into()),
            payload: payload(),
        }),
        Event::Command(CommandEvent::MessageSent {
            instance: "other".into(),
            mailbox: Mailbox::Queue("jobs".into()),
            payload: None,
        }),
        Event::Delivery(DeliveryEvent::OperationConfirmed { scheduled: EventId(11) }),
        Event::Delivery(DeliveryEvent::OperationRefused {
            scheduled: EventId(12),
            refusal: Refusal::InstanceEnded,
        }),
        Event::Command(CommandEvent::OperationCancelled { scheduled: EventId(6) }),
        Event::Note(NoteEvent::PatchApplied {
            patch: "fraud check".into(),
        }),
        Event::Delivery(DeliveryEvent::MessageReceived {
            mailbox: Mailbox::Event("go".into()),
            payload: payload(),
        }),
        Event::Delivery(DeliveryEvent::MessageReceived {
            mailbox: Mailbox::Queue("go".into()),
            payload: None,
        }),
        Event::Delivery(DeliveryEvent::MailboxEmpty {
            mailbox: Mailbox::Event("go".into()),
        }),
        Event::Delivery(DeliveryEvent::MailboxEmpty {
            mailbox: Mailbox::Queue("go".into()),
        }),
        Event::Delivery(DeliveryEvent::CancelRequested { reason: payload() }),
        Event::Interruption(Interruption { reason: None }),
    ]
}

/// Each kind of event, with all its fields, is in one history.
pub async fn every_kind_of_event_comes_back(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let events = [
        events_of_activities_and_timers(),
        events_of_children_and_starts(),
        events_of_messages_and_cancellation(),
    ]
    .concat();
    let first = EventRecord::new(EventId::FIRST, START_MS, first_event());
    store
        .start(NewInstance {
            first_event: first.clone(),
            ..instance("a")
        })
        .await;
    let owned = store.acquire_one(&worker).await;
    let records: Vec<_> = (2..)
        .zip(events)
        .map(|(n, event)| EventRecord::new(EventId(n), START_MS, event))
        .collect();
    store
        .commit(TurnCommit {
            events: records.clone(),
            ..turn(&owned, &worker)
        })
        .await;

    let mut expected = vec![first];
    expected.extend(records);
    assert_eq!(store.history(owned.key).await, expected);
    // The terminal kinds are written by the checks of ends and terminations.
    let others = EventKind::ALL
        .iter()
        .filter(|kind| !kind.as_str().starts_with("Execution"));
    for kind in others {
        assert!(
            expected.iter().any(|record| record.kind == *kind),
            "{kind} is not checked"
        );
    }
}

/// Numbers come back at their limits.
pub async fn every_column_of_an_instance_comes_back(store: &Store) {
    let store = store.first();
    let first_event = EventRecord {
        time_ms: i64::MIN,
        ref_id: Some(EventId(i64::MAX as u64)),
        ..instance("a").first_event
    };
    let new = NewInstance {
        first_event: first_event.clone(),
        priority: i32::MAX,
        tags: Some("{}".into()),
        ..instance("a")
    };
    let key = store.start(new).await;
    let status = store.status("a").await;
    assert_eq!(
        (status.created_at_ms, status.updated_at_ms, status.completed_at_ms),
        (i64::MIN, i64::MIN, None)
    );
    assert_eq!(
        (status.name.as_str(), status.version.as_str(), status.tags.as_deref()),
        ("flow", "1.0.0", Some("{}"))
    );
    assert_eq!(store.history(key).await, [first_event]);
}
