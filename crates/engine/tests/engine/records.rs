//! Events as rows: stored rows can be read by this release and by every later one.

use expect_test::expect;
use perdure_engine::{
    ActivityOptions, Awaited, Backoff, Budget, ChildFailure, Command, CommandEvent, Completion, Delivery,
    DeliveryEvent, EndEvent, Engine, Event, EventId, EventKind, EventRecord, ExecutionId, ExecutionStarted,
    InstanceStart, Interruption, Mailbox, NoteEvent, ParentLink, Refusal, RetryPolicy, Start, StartConflict,
    StateValues, Step, TerminationEvent,
};

use crate::support::wrapped;

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// Every kind, and every field with and without a value.
pub(crate) fn events() -> Vec<Event> {
    let [started, child] = starts();
    let mut events: Vec<Event> = vec![started.into(), child.into()];
    events.extend(commands().into_iter().map(Event::from));
    events.extend(deliveries().into_iter().map(Event::from));
    events.push(Event::Interruption(Interruption { reason: None }));
    events.extend(notes().into_iter().map(Event::from));
    events.extend(ends().into_iter().map(Event::from));
    events.extend(terminations().map(Event::from));
    events
}

fn starts() -> [ExecutionStarted; 2] {
    let parent = ParentLink {
        instance: "parent \"1\"".into(),
        execution: ExecutionId(3),
        scheduled: EventId(44),
    };
    let started = |seed, parent, input: Option<String>| ExecutionStarted {
        name: "order".into(),
        version: "1.2.0".into(),
        custom_status: input.clone(),
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: None,
        trace: input.clone(),
        input,
        seed,
        incarnation: None,
        parent,
    };
    [
        started(0, None, None),
        started(u64::MAX, Some(parent), text("{\"total\":12}")),
    ]
}

fn options() -> ActivityOptions {
    let retry = RetryPolicy {
        max_attempts: u32::MAX,
        initial_interval_ms: 0.1,
        backoff: Backoff::Factor(1.5),
        max_interval_ms: f64::INFINITY,
        jitter: 0.0,
        non_retryable: vec!["TypeError".into(), String::new()],
        retry_on: vec!["E".into()],
    };
    ActivityOptions {
        retry,
        timeout_ms: Some(1),
        total_timeout_ms: Some(u64::MAX),
        schedule_to_start_timeout_ms: Some(7),
        heartbeat_timeout_ms: Some(0),
        inline: true,
        queue: Some("gpu".into()),
        session: Some("j".into()),
        key: Some("k".into()),
        priority: -3,
        trace: text("{\"traceparent\":\"00\"}"),
        fiber: None,
    }
}

fn commands() -> Vec<CommandEvent> {
    let scheduled = EventId(2);
    vec![
        CommandEvent::ActivityScheduled {
            name: "charge".into(),
            input: None,
            options: ActivityOptions::default(),
        },
        CommandEvent::ActivityScheduled {
            name: String::new(),
            input: text("\u{0}\u{1F600}"),
            options: options(),
        },
        CommandEvent::TimerCreated {
            fire_at_ms: 1_700_000_000_000,
        },
        CommandEvent::TimerCreated { fire_at_ms: i64::MIN },
        CommandEvent::ChildScheduled(InstanceStart {
            on_conflict: StartConflict::default(),
            admission: None,
            id: "order/1".into(),
            name: "order".into(),
            version: "1.2.0".into(),
            input: text("1"),
            tags: text("{\"a\":\"b\"}"),
            priority: i32::MIN,
            trace: text("{}"),
        }),
        CommandEvent::InstanceStarted(InstanceStart {
            on_conflict: StartConflict::TerminateAndRestart,
            admission: None,
            id: "audit".into(),
            name: "audit".into(),
            version: "1.0.0".into(),
            input: None,
            tags: None,
            priority: 0,
            trace: None,
        }),
        CommandEvent::MessageSent {
            instance: "audit".into(),
            mailbox: Mailbox::Event("go".into()),
            payload: text("1"),
        },
        CommandEvent::MessageSent {
            instance: String::new(),
            mailbox: Mailbox::Queue("jobs".into()),
            payload: None,
        },
        CommandEvent::OperationCancelled { scheduled },
    ]
}

fn empty(mailbox: Mailbox) -> DeliveryEvent {
    DeliveryEvent::MailboxEmpty { mailbox }
}

fn deliveries() -> Vec<DeliveryEvent> {
    let scheduled = EventId(2);
    vec![
        DeliveryEvent::ActivityCompleted {
            scheduled,
            output: text("null"),
        },
        DeliveryEvent::ActivityCompleted {
            scheduled,
            output: None,
        },
        DeliveryEvent::ActivityFailed {
            scheduled,
            attempt: 3,
            error: text("{}"),
        },
        DeliveryEvent::TimerFired {
            timer: EventId(u64::MAX),
        },
        DeliveryEvent::ChildCompleted {
            scheduled,
            output: text("1"),
        },
        DeliveryEvent::ChildFailed {
            scheduled,
            failure: ChildFailure::Failed,
            error: text("{}"),
        },
        DeliveryEvent::ChildFailed {
            scheduled,
            failure: ChildFailure::Cancelled,
            error: None,
        },
        DeliveryEvent::ChildFailed {
            scheduled,
            failure: ChildFailure::Terminated,
            error: None,
        },
        DeliveryEvent::OperationConfirmed { scheduled },
        DeliveryEvent::OperationRefused {
            scheduled,
            refusal: Refusal::InstanceExists,
        },
        DeliveryEvent::OperationRefused {
            scheduled,
            refusal: Refusal::InstanceNotFound,
        },
        DeliveryEvent::OperationRefused {
            scheduled,
            refusal: Refusal::InstanceEnded,
        },
        DeliveryEvent::OperationRefused {
            scheduled,
            refusal: Refusal::MailboxFull { max: u64::MAX },
        },
        DeliveryEvent::MessageReceived {
            mailbox: Mailbox::Event("approve".into()),
            payload: text("1"),
        },
        DeliveryEvent::MessageReceived {
            mailbox: Mailbox::Queue("jobs".into()),
            payload: None,
        },
        empty(Mailbox::Event("approve".into())),
        empty(Mailbox::Queue("jobs".into())),
        DeliveryEvent::CancelRequested {
            reason: text("changed my mind"),
        },
    ]
}

fn notes() -> Vec<NoteEvent> {
    let scheduled = EventId(2);
    vec![
        NoteEvent::ExecutionBegan { version: None },
        NoteEvent::ExecutionBegan {
            version: Some("1.2.0".into()),
        },
        NoteEvent::ActivityAttemptFailed {
            scheduled,
            attempt: 1,
            error: text("{}"),
            retry_at_ms: i64::MAX,
        },
        NoteEvent::ActivityAttemptFailed {
            scheduled,
            attempt: u32::MAX,
            error: None,
            retry_at_ms: i64::MIN,
        },
        NoteEvent::PatchApplied {
            patch: "fraud check".into(),
        },
        NoteEvent::CancelRequested { reason: text("held") },
    ]
}

fn ends() -> Vec<EndEvent> {
    vec![
        EndEvent::ExecutionCompleted { output: text("1") },
        EndEvent::ExecutionCompleted { output: None },
        EndEvent::ExecutionFailed { error: text("{}") },
        EndEvent::ExecutionCancelled { error: text("{}") },
        EndEvent::ExecutionContinuedAsNew {
            input: text("[2]"),
            version: "1.3.0".into(),
        },
        EndEvent::ExecutionContinuedAsNew {
            input: None,
            version: String::new(),
        },
    ]
}

fn terminations() -> impl Iterator<Item = TerminationEvent> {
    [
        TerminationEvent::ExecutionCancelled { error: None },
        TerminationEvent::ExecutionTerminated { reason: None },
    ]
    .into_iter()
}

/// The fiber is in the meta of the events that fibers cause or receive, and changes nothing that a replay looks at.
#[test]
fn fiber_stands_in_the_meta_of_its_events() {
    let mut told = Vec::new();
    for event in events() {
        let plain = EventRecord::new(EventId(7), -5, event.clone());
        let mut record = plain.clone();
        record.set_fiber(0);
        assert_eq!(record, plain, "the main fiber is not told");
        record.set_fiber(12);
        if record != plain {
            let meta = record.meta.clone().expect("a fiber is there");
            let read: serde_json::Value = serde_json::from_str(&meta).expect("it is JSON");
            assert_eq!(read["fiber"], 12, "{meta}");
            told.push(record.kind.as_str());
        }
        let mut expected = event;
        if let Event::Command(CommandEvent::ActivityScheduled { options, .. }) = &mut expected {
            options.fiber = Some(12);
        }
        assert_eq!(record.into_event(), Ok(expected));
    }
    told.dedup();
    let sorts = [
        "ActivityScheduled",
        "TimerCreated",
        "ChildScheduled",
        "InstanceStarted",
        "EventSent",
        "QueueSent",
        "EventReceived",
        "QueueReceived",
        "EventAbsent",
        "QueueEmpty",
    ];
    assert_eq!(told, sorts);
}

fn shown(record: &EventRecord) -> String {
    let EventRecord {
        kind,
        ref_id,
        name,
        payload,
        meta,
        ..
    } = record;
    assert_eq!(EventKind::parse(kind.as_str()), Some(*kind));
    let meta = meta.as_deref().unwrap_or("-");
    format!("{kind} ref {ref_id:?} name {name:?} payload {payload:?} meta {meta}\n")
}

/// The rows as this release writes them. A change here changes the content of stores: later releases must still read
/// these rows.
#[test]
fn every_kind_round_trips() {
    let mut rows = String::new();
    for event in events() {
        let record = EventRecord::new(EventId(7), -5, event.clone());
        assert_eq!((record.event_id, record.time_ms), (EventId(7), -5));
        rows += &shown(&record);
        assert_eq!(record.into_event(), Ok(event));
    }
    expect![[r#"
        ExecutionStarted ref None name Some("order") payload None meta {"version":"1.2.0","seed":"0"}
        ExecutionStarted ref None name Some("order") payload Some("{\"total\":12}") meta {"version":"1.2.0",
           "seed":"18446744073709551615","parent":{"instance":"parent \"1\"","execution":3,"scheduled":44},
           "customStatus":"{\"total\":12}","trace":"{\"total\":12}"}
        ActivityScheduled ref None name Some("charge") payload None meta -
        ActivityScheduled ref None name Some("") payload Some("\0😀") meta {"retry":{"maxAttempts":4294967295,
           "initialIntervalMs":0.1,"backoff":1.5,"maxIntervalMs":null,"jitter":0.0,"nonRetryable":["TypeError",""],
           "retryOn":["E"]},"timeoutMs":1,"totalTimeoutMs":18446744073709551615,"scheduleToStartTimeoutMs":7,
           "heartbeatTimeoutMs":0,"queue":"gpu","session":"j","key":"k","priority":-3,"inline":true,
           "trace":"{\"traceparent\":\"00\"}"}
        TimerCreated ref None name None payload None meta {"fireAtMs":1700000000000}
        TimerCreated ref None name None payload None meta {"fireAtMs":-9223372036854775808}
        ChildScheduled ref None name Some("order") payload Some("1") meta {"id":"order/1","version":"1.2.0",
           "tags":"{\"a\":\"b\"}","priority":-2147483648,"trace":"{}"}
        InstanceStarted ref None name Some("audit") payload None meta {"id":"audit","version":"1.0.0",
           "onConflict":"terminateAndRestart"}
        EventSent ref None name Some("go") payload Some("1") meta {"instance":"audit"}
        QueueSent ref None name Some("jobs") payload None meta {"instance":""}
        OperationCancelled ref Some(EventId(2)) name None payload None meta -
        ActivityCompleted ref Some(EventId(2)) name None payload Some("null") meta -
        ActivityCompleted ref Some(EventId(2)) name None payload None meta -
        ActivityFailed ref Some(EventId(2)) name None payload Some("{}") meta {"attempt":3}
        TimerFired ref Some(EventId(18446744073709551615)) name None payload None meta -
        ChildCompleted ref Some(EventId(2)) name None payload Some("1") meta -
        ChildFailed ref Some(EventId(2)) name None payload Some("{}") meta {"failure":"Failed"}
        ChildFailed ref Some(EventId(2)) name None payload None meta {"failure":"Cancelled"}
        ChildFailed ref Some(EventId(2)) name None payload None meta {"failure":"Terminated"}
        OperationConfirmed ref Some(EventId(2)) name None payload None meta -
        OperationRefused ref Some(EventId(2)) name None payload None meta {"refusal":"instanceExists"}
        OperationRefused ref Some(EventId(2)) name None payload None meta {"refusal":"instanceNotFound"}
        OperationRefused ref Some(EventId(2)) name None payload None meta {"refusal":"instanceEnded"}
        OperationRefused ref Some(EventId(2)) name None payload None meta
            {"refusal":{"mailboxFull":{"max":18446744073709551615}}}
        EventReceived ref None name Some("approve") payload Some("1") meta -
        QueueReceived ref None name Some("jobs") payload None meta -
        EventAbsent ref None name Some("approve") payload None meta -
        QueueEmpty ref None name Some("jobs") payload None meta -
        CancelRequested ref None name None payload Some("changed my mind") meta -
        CancelRequested ref None name None payload None meta {"at":"step"}
        ExecutionBegan ref None name None payload None meta -
        ExecutionBegan ref None name None payload None meta {"version":"1.2.0"}
        ActivityAttemptFailed ref Some(EventId(2)) name None payload Some("{}") meta {"attempt":1,
           "retryAtMs":9223372036854775807}
        ActivityAttemptFailed ref Some(EventId(2)) name None payload None meta {"attempt":4294967295,
           "retryAtMs":-9223372036854775808}
        PatchApplied ref None name Some("fraud check") payload None meta -
        CancelRequested ref None name None payload Some("held") meta {"at":"suspended"}
        ExecutionCompleted ref None name None payload Some("1") meta -
        ExecutionCompleted ref None name None payload None meta -
        ExecutionFailed ref None name None payload Some("{}") meta -
        ExecutionCancelled ref None name None payload Some("{}") meta -
        ExecutionContinuedAsNew ref None name None payload Some("[2]") meta {"version":"1.3.0"}
        ExecutionContinuedAsNew ref None name None payload None meta {"version":""}
        ExecutionCancelled ref None name None payload None meta {"outside":true}
        ExecutionTerminated ref None name None payload None meta -
    "#]]
    .assert_eq(&wrapped(&rows));
    for kind in EventKind::ALL {
        assert!(rows.contains(&format!("{kind} ")), "{kind} is not shown here");
    }
}

#[test]
fn a_text_that_names_no_kind_is_none() {
    assert_eq!(EventKind::parse("executionStarted"), None);
    assert_eq!(EventKind::parse(""), None);
}

/// Numbers at their limits are replayed, and the execution goes on with them.
#[test]
fn the_largest_attempt_is_followed_by_none() {
    let scheduled = EventId(2);
    let options = ActivityOptions {
        retry: RetryPolicy {
            max_attempts: u32::MAX,
            ..RetryPolicy::default()
        },
        total_timeout_ms: Some(u64::MAX),
        ..ActivityOptions::default()
    };
    let all = [
        events()[0].clone(),
        Event::Command(CommandEvent::ActivityScheduled {
            name: "charge".into(),
            input: None,
            options: options.clone(),
        }),
        Event::Note(NoteEvent::ActivityAttemptFailed {
            scheduled,
            attempt: u32::MAX,
            error: None,
            retry_at_ms: i64::MAX,
        }),
    ];
    let history: Vec<EventRecord> = all
        .into_iter()
        .zip(1..)
        .map(|(event, id)| EventRecord::new(EventId(id), i64::MAX, event))
        .collect();
    let start = Start {
        execution: ExecutionId::FIRST,
        history,
        complete: true,
        fresh: false,
        budget: Budget::default(),
    };
    let mut engine = Engine::new(start).expect("a sound history");
    engine
        .issue(Command::ScheduleActivity {
            name: "charge".into(),
            input: None,
            options,
        })
        .expect("it fits");
    engine.offer(Completion::AttemptFailed {
        scheduled,
        error: None,
        error_name: "Error".into(),
        error_codes: Vec::new(),
        non_retryable: false,
        retry_after_ms: Some(i64::MAX),
    });
    let delivery = Delivery::Failed {
        operation: scheduled,
        error: None,
        attempt: u32::MAX,
    };
    let step = engine.next(Awaited::default(), i64::MAX).expect("no history is left");
    assert_eq!(
        step,
        Step::Deliver {
            delivery,
            time_ms: i64::MAX
        }
    );
}

/// An option that was left out when it was stored has its default.
#[test]
fn absent_options_have_their_defaults() {
    let read = |meta: &str| {
        let record = EventRecord {
            meta: text(meta),
            ..row(EventKind::ActivityScheduled)
        };
        match record.into_event() {
            Ok(Event::Command(CommandEvent::ActivityScheduled { options, .. })) => Ok(options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    assert_eq!(read("{}"), Ok(ActivityOptions::default()));
    let options = read(r#"{"retry":{"maxAttempts":1},"timeoutMs":5}"#).expect("it can be read");
    assert_eq!(
        options,
        ActivityOptions {
            retry: RetryPolicy {
                max_attempts: 1,
                ..RetryPolicy::default()
            },
            timeout_ms: Some(5),
            ..ActivityOptions::default()
        }
    );
    let unknown = read(r#"{"retry":{"maxAttempt":1}}"#).expect_err("a newer release may mean something by it");
    expect![[r#"
        event 2 (ActivityScheduled) cannot be read: its meta is not what the kind needs: unknown field `maxAttempt`,
            expected one of `maxAttempts`, `initialIntervalMs`, `backoff`, `maxIntervalMs`, `jitter`,
            `nonRetryable`, `retryOn` at line 1 column 22"#]]
    .assert_eq(&wrapped(&unknown));
}

/// A row of this kind with a value in each column but its meta.
pub(crate) fn row(kind: EventKind) -> EventRecord {
    let name = text("name");
    EventRecord {
        event_id: EventId(2),
        time_ms: 5,
        kind,
        ref_id: Some(EventId(2)),
        name,
        payload: text("1"),
        meta: None,
    }
}
