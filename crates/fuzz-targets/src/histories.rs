//! Histories with which fuzzing begins: those of code that used every operation.

use perdure_engine::{
    ActivityOptions, ChildFailure, CommandEvent, DeliveryEvent, EndEvent, Event, EventId, EventRecord, ExecutionId,
    ExecutionStarted, InstanceStart, Mailbox, NoteEvent, ParentLink, Refusal, RetryPolicy, StartConflict, StateValues,
    TerminationEvent, TimeLimit,
};

use crate::rows;

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

fn start_of(id: &str) -> InstanceStart {
    InstanceStart {
        on_conflict: StartConflict::default(),
        admission: None,
        id: id.into(),
        name: "other".into(),
        version: "1.0.0".into(),
        input: text("1"),
        tags: text(r#"{"team":"a"}"#),
        priority: -1,
        trace: None,
    }
}

/// Each history as an input.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    histories([
        with_activities(),
        with_other_instances(),
        with_messages(),
        vec![began(None), EndEvent::ExecutionFailed { error: text("{}") }.into()],
        vec![
            began(None),
            TerminationEvent::ExecutionTerminated { reason: None }.into(),
        ],
    ])
}

fn began(parent: Option<ParentLink>) -> Event {
    Event::Started(ExecutionStarted {
        name: "order".into(),
        version: "1.0.0".into(),
        input: text(r#"{"total":12}"#),
        seed: 7,
        incarnation: None,
        parent,
        custom_status: text("\"new\""),
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: Some(TimeLimit {
            timeout_ms: 60_000,
            grace_ms: Some(1_000),
            deadline_ms: None,
        }),
        trace: text(r#"{"traceparent":"00-a-b-01"}"#),
    })
}

fn options() -> ActivityOptions {
    ActivityOptions {
        retry: RetryPolicy {
            max_attempts: 9,
            non_retryable: vec!["TypeError".into()],
            ..RetryPolicy::default()
        },
        timeout_ms: Some(1_000),
        total_timeout_ms: Some(60_000),
        schedule_to_start_timeout_ms: Some(30_000),
        heartbeat_timeout_ms: Some(500),
        queue: text("slow"),
        session: text("job-7"),
        key: text("ada"),
        priority: 3,
        inline: false,
        trace: text("{}"),
        fiber: Some(2),
    }
}

fn go() -> Mailbox {
    Mailbox::Event("go".into())
}

fn with_activities() -> Vec<Event> {
    vec![
        began(None),
        Event::Note(NoteEvent::ExecutionBegan { version: None }),
        Event::Command(CommandEvent::ActivityScheduled {
            name: "charge".into(),
            input: text("1"),
            options: options(),
        }),
        Event::Command(CommandEvent::TimerCreated { fire_at_ms: 5_000 }),
        Event::Note(NoteEvent::PatchApplied { patch: "p".into() }),
        Event::Note(NoteEvent::ActivityAttemptFailed {
            scheduled: EventId(3),
            attempt: 1,
            error: text("{}"),
            retry_at_ms: 9_000,
        }),
        Event::Delivery(DeliveryEvent::TimerFired { timer: EventId(4) }),
        Event::Delivery(DeliveryEvent::ActivityCompleted {
            scheduled: EventId(3),
            output: text("2"),
        }),
        Event::End(EndEvent::ExecutionCompleted { output: text("3") }),
    ]
}

fn with_other_instances() -> Vec<Event> {
    let parent = ParentLink {
        instance: "parent".into(),
        execution: ExecutionId(1),
        scheduled: EventId(2),
    };
    vec![
        began(Some(parent)),
        Event::Command(CommandEvent::ChildScheduled(start_of("child"))),
        Event::Command(CommandEvent::ChildScheduled(start_of("other child"))),
        Event::Command(CommandEvent::InstanceStarted(start_of("detached"))),
        Event::Command(CommandEvent::MessageSent {
            instance: "a".into(),
            mailbox: go(),
            payload: None,
        }),
        Event::Command(CommandEvent::MessageSent {
            instance: "a".into(),
            mailbox: Mailbox::Queue("jobs".into()),
            payload: text("4"),
        }),
        Event::Delivery(DeliveryEvent::ChildCompleted {
            scheduled: EventId(2),
            output: text("5"),
        }),
        Event::Delivery(DeliveryEvent::ChildFailed {
            scheduled: EventId(3),
            failure: ChildFailure::Terminated,
            error: None,
        }),
        Event::Delivery(DeliveryEvent::OperationConfirmed { scheduled: EventId(4) }),
        Event::Delivery(DeliveryEvent::OperationRefused {
            scheduled: EventId(5),
            refusal: Refusal::MailboxFull { max: 10 },
        }),
        Event::Command(CommandEvent::OperationCancelled { scheduled: EventId(6) }),
        Event::End(EndEvent::ExecutionContinuedAsNew {
            input: text("6"),
            version: "2.0.0".into(),
        }),
    ]
}

fn with_messages() -> Vec<Event> {
    vec![
        began(None),
        Event::Delivery(DeliveryEvent::MessageReceived {
            mailbox: go(),
            payload: text("7"),
        }),
        Event::Delivery(DeliveryEvent::MessageReceived {
            mailbox: Mailbox::Queue("jobs".into()),
            payload: None,
        }),
        Event::Delivery(DeliveryEvent::MailboxEmpty { mailbox: go() }),
        Event::Delivery(DeliveryEvent::MailboxEmpty {
            mailbox: Mailbox::Queue("jobs".into()),
        }),
        Event::Command(CommandEvent::ActivityScheduled {
            name: "inline".into(),
            input: None,
            options: ActivityOptions {
                inline: true,
                ..ActivityOptions::default()
            },
        }),
        Event::Delivery(DeliveryEvent::ActivityFailed {
            scheduled: EventId(4),
            attempt: 3,
            error: text("{}"),
        }),
        Event::Delivery(DeliveryEvent::CancelRequested { reason: text("\"no\"") }),
        Event::End(EndEvent::ExecutionCancelled { error: text("{}") }),
    ]
}

fn histories<const N: usize>(histories: [Vec<Event>; N]) -> Vec<Vec<u8>> {
    let rows = |events: Vec<Event>| {
        let ids = (1..).map(EventId);
        let records = ids.zip(events).map(|(id, event)| EventRecord::new(id, 1_000, event));
        rows::write(&records.map(columns).collect::<Vec<_>>())
    };
    histories.into_iter().map(rows).collect()
}

fn columns(record: EventRecord) -> [Option<String>; 7] {
    [
        Some(record.kind.to_string()),
        Some(record.event_id.to_string()),
        Some(record.time_ms.to_string()),
        record.ref_id.map(|id| id.to_string()),
        record.name,
        record.payload,
        record.meta,
    ]
}
