//! Events as rows: stored rows can be read by this release and by every later one, and an unreadable row does no harm.

use expect_test::expect;
use perdure_engine::{
    ActivityOptions, Awaited, Budget, ChildFailure, Command, CommandEvent, Completion, Delivery, DeliveryEvent,
    EndEvent, Engine, Event, EventId, EventKind, EventRecord, ExecutionId, ExecutionStarted, InstanceStart,
    Interruption, Mailbox, Message, MessageBody, MessageSeq, NoteEvent, Outcome, ParentLink, Refusal, RetryPolicy,
    Start, Step, TerminationEvent,
};

use crate::support::draw::Draw;

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// Every kind, and every field with and without a value.
fn events() -> Vec<Event> {
    let parent = ParentLink {
        instance: "parent \"1\"".into(),
        execution: ExecutionId(3),
        scheduled: EventId(44),
    };
    let started = |seed, parent, input: Option<String>| {
        Event::Started(ExecutionStarted {
            name: "order".into(),
            version: "1.2.0".into(),
            custom_status: input.clone(),
            trace: input.clone(),
            input,
            seed,
            incarnation: None,
            parent,
        })
    };
    let retry = RetryPolicy {
        max_attempts: u32::MAX,
        initial_interval_ms: 0.1,
        backoff: 1.5,
        max_interval_ms: f64::INFINITY,
        jitter: 0.0,
        non_retryable: vec!["TypeError".into(), String::new()],
    };
    let options = ActivityOptions {
        retry,
        timeout_ms: Some(u64::MAX),
        total_timeout_ms: Some(u64::MAX),
        heartbeat_timeout_ms: Some(0),
        inline: true,
        queue: Some("gpu".into()),
        priority: -3,
        trace: text("{\"traceparent\":\"00-a-b-01\"}"),
        fiber: None,
    };
    let scheduled = EventId(2);
    vec![
        started(0, None, None),
        started(u64::MAX, Some(parent), text("{\"total\":12}")),
        Event::Note(NoteEvent::ExecutionBegan { version: None }),
        Event::Note(NoteEvent::ExecutionBegan {
            version: Some("1.2.0".into()),
        }),
        Event::Command(CommandEvent::ActivityScheduled {
            name: "charge".into(),
            input: None,
            options: ActivityOptions::default(),
        }),
        Event::Command(CommandEvent::ActivityScheduled {
            name: String::new(),
            input: text("\u{0}\u{1F600}"),
            options,
        }),
        Event::Delivery(DeliveryEvent::ActivityCompleted {
            scheduled,
            output: text("null"),
        }),
        Event::Delivery(DeliveryEvent::ActivityCompleted {
            scheduled,
            output: None,
        }),
        Event::Note(NoteEvent::ActivityAttemptFailed {
            scheduled,
            attempt: 1,
            error: text("{}"),
            retry_at_ms: i64::MAX,
        }),
        Event::Note(NoteEvent::ActivityAttemptFailed {
            scheduled,
            attempt: u32::MAX,
            error: None,
            retry_at_ms: i64::MIN,
        }),
        Event::Delivery(DeliveryEvent::ActivityFailed {
            scheduled,
            attempt: 3,
            error: text("{}"),
        }),
        Event::Command(CommandEvent::TimerCreated {
            fire_at_ms: 1_700_000_000_000,
        }),
        Event::Command(CommandEvent::TimerCreated { fire_at_ms: i64::MIN }),
        Event::Delivery(DeliveryEvent::TimerFired {
            timer: EventId(u64::MAX),
        }),
        Event::Command(CommandEvent::ChildScheduled(InstanceStart {
            id: "order/1".into(),
            name: "order".into(),
            version: "1.2.0".into(),
            input: text("1"),
            tags: text("{\"a\":\"b\"}"),
            priority: i32::MIN,
            trace: text("{}"),
        })),
        Event::Delivery(DeliveryEvent::ChildCompleted {
            scheduled,
            output: text("1"),
        }),
        Event::Delivery(DeliveryEvent::ChildFailed {
            scheduled,
            failure: ChildFailure::Failed,
            error: text("{}"),
        }),
        Event::Delivery(DeliveryEvent::ChildFailed {
            scheduled,
            failure: ChildFailure::Cancelled,
            error: None,
        }),
        Event::Delivery(DeliveryEvent::ChildFailed {
            scheduled,
            failure: ChildFailure::Terminated,
            error: None,
        }),
        Event::Command(CommandEvent::InstanceStarted(InstanceStart {
            id: "audit".into(),
            name: "audit".into(),
            version: "1.0.0".into(),
            input: None,
            tags: None,
            priority: 0,
            trace: None,
        })),
        Event::Command(CommandEvent::MessageSent {
            instance: "audit".into(),
            mailbox: Mailbox::Event("go".into()),
            payload: text("1"),
        }),
        Event::Command(CommandEvent::MessageSent {
            instance: String::new(),
            mailbox: Mailbox::Queue("jobs".into()),
            payload: None,
        }),
        Event::Delivery(DeliveryEvent::OperationConfirmed { scheduled }),
        Event::Delivery(DeliveryEvent::OperationRefused {
            scheduled,
            refusal: Refusal::InstanceExists,
        }),
        Event::Delivery(DeliveryEvent::OperationRefused {
            scheduled,
            refusal: Refusal::InstanceNotFound,
        }),
        Event::Delivery(DeliveryEvent::OperationRefused {
            scheduled,
            refusal: Refusal::InstanceEnded,
        }),
        Event::Delivery(DeliveryEvent::OperationRefused {
            scheduled,
            refusal: Refusal::MailboxFull { max: u64::MAX },
        }),
        Event::Command(CommandEvent::OperationCancelled { scheduled }),
        Event::Note(NoteEvent::PatchApplied {
            patch: "fraud check".into(),
        }),
        Event::Delivery(DeliveryEvent::MessageReceived {
            mailbox: Mailbox::Event("approve".into()),
            payload: text("1"),
        }),
        Event::Delivery(DeliveryEvent::MessageReceived {
            mailbox: Mailbox::Queue("jobs".into()),
            payload: None,
        }),
        Event::Delivery(DeliveryEvent::CancelRequested {
            reason: text("changed my mind"),
        }),
        Event::Interruption(Interruption { reason: None }),
        Event::Note(NoteEvent::CancelRequested { reason: text("held") }),
        Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        Event::End(EndEvent::ExecutionCompleted { output: text("1") }),
        Event::End(EndEvent::ExecutionCompleted { output: None }),
        Event::End(EndEvent::ExecutionFailed { error: text("{}") }),
        Event::End(EndEvent::ExecutionCancelled { error: text("{}") }),
        Event::End(EndEvent::ExecutionContinuedAsNew {
            input: text("[2]"),
            version: "1.3.0".into(),
        }),
        Event::End(EndEvent::ExecutionContinuedAsNew {
            input: None,
            version: String::new(),
        }),
        Event::Termination(TerminationEvent::ExecutionTerminated { reason: None }),
    ]
}

/// The fiber is in the meta of the events that fibers cause or receive, and changes nothing that a replay looks at.
#[test]
fn what_is_of_a_fiber_says_so() {
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
    ];
    assert_eq!(told, sorts);
}

/// The rows as this release writes them. A change here changes the content of stores: later releases must still read
/// these rows.
#[test]
fn every_kind_comes_back_as_it_went() {
    let mut rows = String::new();
    for event in events() {
        let record = EventRecord::new(EventId(7), -5, event.clone());
        assert_eq!((record.event_id, record.time_ms), (EventId(7), -5));
        let EventRecord {
            kind,
            ref_id,
            name,
            payload,
            meta,
            ..
        } = &record;
        rows += &format!(
            "{kind} ref {ref_id:?} name {name:?} payload {payload:?} meta {}\n",
            meta.as_deref().unwrap_or("-")
        );
        assert_eq!(EventKind::parse(record.kind.as_str()), Some(record.kind));
        assert_eq!(record.into_event(), Ok(event));
    }
    expect![[r#"
        ExecutionStarted ref None name Some("order") payload None meta {"version":"1.2.0","seed":"0"}
        ExecutionStarted ref None name Some("order") payload Some("{\"total\":12}") meta {"version":"1.2.0","seed":"18446744073709551615","parent":{"instance":"parent \"1\"","execution":3,"scheduled":44},"customStatus":"{\"total\":12}","trace":"{\"total\":12}"}
        ExecutionBegan ref None name None payload None meta -
        ExecutionBegan ref None name None payload None meta {"version":"1.2.0"}
        ActivityScheduled ref None name Some("charge") payload None meta -
        ActivityScheduled ref None name Some("") payload Some("\0😀") meta {"retry":{"maxAttempts":4294967295,"initialIntervalMs":0.1,"backoff":1.5,"maxIntervalMs":null,"jitter":0.0,"nonRetryable":["TypeError",""]},"timeoutMs":18446744073709551615,"totalTimeoutMs":18446744073709551615,"heartbeatTimeoutMs":0,"queue":"gpu","priority":-3,"inline":true,"trace":"{\"traceparent\":\"00-a-b-01\"}"}
        ActivityCompleted ref Some(EventId(2)) name None payload Some("null") meta -
        ActivityCompleted ref Some(EventId(2)) name None payload None meta -
        ActivityAttemptFailed ref Some(EventId(2)) name None payload Some("{}") meta {"attempt":1,"retryAtMs":9223372036854775807}
        ActivityAttemptFailed ref Some(EventId(2)) name None payload None meta {"attempt":4294967295,"retryAtMs":-9223372036854775808}
        ActivityFailed ref Some(EventId(2)) name None payload Some("{}") meta {"attempt":3}
        TimerCreated ref None name None payload None meta {"fireAtMs":1700000000000}
        TimerCreated ref None name None payload None meta {"fireAtMs":-9223372036854775808}
        TimerFired ref Some(EventId(18446744073709551615)) name None payload None meta -
        ChildScheduled ref None name Some("order") payload Some("1") meta {"id":"order/1","version":"1.2.0","tags":"{\"a\":\"b\"}","priority":-2147483648,"trace":"{}"}
        ChildCompleted ref Some(EventId(2)) name None payload Some("1") meta -
        ChildFailed ref Some(EventId(2)) name None payload Some("{}") meta {"failure":"Failed"}
        ChildFailed ref Some(EventId(2)) name None payload None meta {"failure":"Cancelled"}
        ChildFailed ref Some(EventId(2)) name None payload None meta {"failure":"Terminated"}
        InstanceStarted ref None name Some("audit") payload None meta {"id":"audit","version":"1.0.0"}
        EventSent ref None name Some("go") payload Some("1") meta {"instance":"audit"}
        QueueSent ref None name Some("jobs") payload None meta {"instance":""}
        OperationConfirmed ref Some(EventId(2)) name None payload None meta -
        OperationRefused ref Some(EventId(2)) name None payload None meta {"refusal":"instanceExists"}
        OperationRefused ref Some(EventId(2)) name None payload None meta {"refusal":"instanceNotFound"}
        OperationRefused ref Some(EventId(2)) name None payload None meta {"refusal":"instanceEnded"}
        OperationRefused ref Some(EventId(2)) name None payload None meta {"refusal":{"mailboxFull":{"max":18446744073709551615}}}
        OperationCancelled ref Some(EventId(2)) name None payload None meta -
        PatchApplied ref None name Some("fraud check") payload None meta -
        EventReceived ref None name Some("approve") payload Some("1") meta -
        QueueReceived ref None name Some("jobs") payload None meta -
        CancelRequested ref None name None payload Some("changed my mind") meta -
        CancelRequested ref None name None payload None meta {"at":"step"}
        CancelRequested ref None name None payload Some("held") meta {"at":"suspended"}
        ExecutionCancelled ref None name None payload None meta {"outside":true}
        ExecutionCompleted ref None name None payload Some("1") meta -
        ExecutionCompleted ref None name None payload None meta -
        ExecutionFailed ref None name None payload Some("{}") meta -
        ExecutionCancelled ref None name None payload Some("{}") meta -
        ExecutionContinuedAsNew ref None name None payload Some("[2]") meta {"version":"1.3.0"}
        ExecutionContinuedAsNew ref None name None payload None meta {"version":""}
        ExecutionTerminated ref None name None payload None meta -
    "#]].assert_eq(&rows);
    for kind in EventKind::ALL {
        assert!(rows.contains(&format!("{kind} ")), "{kind} is not shown here");
    }
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
fn options_that_are_left_out() {
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
    expect!["event 2 (ActivityScheduled) cannot be read: its meta is not what the kind needs: unknown field `maxAttempt`, expected one of `maxAttempts`, `initialIntervalMs`, `backoff`, `maxIntervalMs`, `jitter`, `nonRetryable` at line 1 column 22"].assert_eq(&read(r#"{"retry":{"maxAttempt":1}}"#).expect_err("a newer release may mean something by it"));
}

fn row(kind: EventKind) -> EventRecord {
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

const METAS: &[Option<&str>] = &[
    None,
    Some(""),
    Some("{}"),
    Some("null"),
    Some("[]"),
    Some("\u{0}"),
    Some("{\"version\":\"1\",\"seed\":\"12\"}"),
    Some("{\"version\":\"1\",\"seed\":12}"),
    Some("{\"version\":\"1\",\"seed\":\"-1\"}"),
    Some("{\"version\":\"1\",\"seed\":\"99999999999999999999999\"}"),
    Some("{\"version\":\"1\",\"seed\":\"1\",\"incarnation\":\"00000000000000a5\"}"),
    Some("{\"version\":\"1\",\"seed\":\"1\",\"incarnation\":\"10000000000000000\"}"),
    Some("{\"version\":\"1\",\"seed\":\"1\",\"incarnation\":\"-1\"}"),
    Some("{\"version\":\"1\",\"seed\":\"1\",\"incarnation\":5}"),
    Some("{\"version\":\"1\",\"seed\":\"1\",\"parent\":{}}"),
    Some("{\"version\":\"1\",\"seed\":\"1\",\"parent\":{\"instance\":\"p\",\"execution\":1,\"scheduled\":-3}}"),
    Some("{\"attempt\":1}"),
    Some("{\"attempt\":4294967295,\"retryAtMs\":9223372036854775807}"),
    Some("{\"attempt\":4294967296,\"retryAtMs\":0}"),
    Some("{\"attempt\":-1}"),
    Some("{\"fireAtMs\":-9223372036854775808}"),
    Some("{\"fireAtMs\":1e400}"),
    Some("{\"fireAtMs\":9223372036854775808}"),
    Some("{\"retry\":null}"),
    Some("{\"retry\":{\"initialIntervalMs\":1e308,\"backoff\":1e308,\"maxIntervalMs\":null,\"jitter\":1e308}}"),
    Some(
        "{\"retry\":{\"initialIntervalMs\":-1,\"backoff\":-1.5,\"maxIntervalMs\":-7,\"jitter\":-3,\"maxAttempts\":4294967295}}",
    ),
    Some("{\"timeoutMs\":18446744073709551615}"),
    Some("{\"attempt\":1,\"attempt\":2}"),
];

/// A column that the kind needs is there, or the error names the event; never a panic.
#[test]
fn every_kind_with_every_column_absent_or_garbage() {
    let mut problems: Vec<String> = Vec::new();
    for kind in EventKind::ALL {
        for meta in METAS {
            for (has_ref, has_name) in [(true, true), (true, false), (false, true), (false, false)] {
                let mut record = EventRecord {
                    meta: meta.map(str::to_owned),
                    ..row(*kind)
                };
                record.ref_id = record.ref_id.filter(|_| has_ref);
                record.name = record.name.filter(|_| has_name);
                match record.clone().into_event() {
                    Ok(event) => {
                        let again = EventRecord::new(record.event_id, record.time_ms, event.clone());
                        assert_eq!(again.kind, *kind);
                        assert_eq!(again.into_event(), Ok(event), "what could be read can be written");
                    }
                    Err(error) => {
                        assert_eq!((error.event_id, error.kind), (EventId(2), *kind));
                        let problem = error.problem.split(" at line ").next();
                        problems.extend(problem.map(str::to_owned));
                    }
                }
            }
        }
    }
    problems.sort();
    problems.dedup();
    expect![[r#"
        it has no name
        it has no retryAtMs
        it refers to no earlier event
        its meta is not what the kind needs: EOF while parsing a value
        its meta is not what the kind needs: duplicate field `attempt`
        its meta is not what the kind needs: expected value
        its meta is not what the kind needs: invalid length 0, expected struct AttemptMeta with 2 elements
        its meta is not what the kind needs: invalid length 0, expected struct ChildFailedMeta with 1 element
        its meta is not what the kind needs: invalid length 0, expected struct InstanceStartMeta with 5 elements
        its meta is not what the kind needs: invalid length 0, expected struct RefusedMeta with 1 element
        its meta is not what the kind needs: invalid length 0, expected struct SentMeta with 1 element
        its meta is not what the kind needs: invalid length 0, expected struct StartMeta with 6 elements
        its meta is not what the kind needs: invalid length 0, expected struct TimerMeta with 1 element
        its meta is not what the kind needs: invalid length 0, expected struct VersionMeta with 1 element
        its meta is not what the kind needs: invalid type: integer `12`, expected a string
        its meta is not what the kind needs: invalid type: integer `5`, expected a string
        its meta is not what the kind needs: invalid type: null, expected struct ActivityOptions
        its meta is not what the kind needs: invalid type: null, expected struct AttemptMeta
        its meta is not what the kind needs: invalid type: null, expected struct CancelMeta
        its meta is not what the kind needs: invalid type: null, expected struct CancelledMeta
        its meta is not what the kind needs: invalid type: null, expected struct ChildFailedMeta
        its meta is not what the kind needs: invalid type: null, expected struct InstanceStartMeta
        its meta is not what the kind needs: invalid type: null, expected struct RefusedMeta
        its meta is not what the kind needs: invalid type: null, expected struct RetryPolicy
        its meta is not what the kind needs: invalid type: null, expected struct SentMeta
        its meta is not what the kind needs: invalid type: null, expected struct StartMeta
        its meta is not what the kind needs: invalid type: null, expected struct TimerMeta
        its meta is not what the kind needs: invalid type: null, expected struct VersionMeta
        its meta is not what the kind needs: invalid value: integer `-1`, expected u32
        its meta is not what the kind needs: invalid value: integer `-3`, expected u64
        its meta is not what the kind needs: invalid value: integer `4294967296`, expected u32
        its meta is not what the kind needs: invalid value: integer `9223372036854775808`, expected i64
        its meta is not what the kind needs: its incarnation is no number
        its meta is not what the kind needs: missing field `attempt`
        its meta is not what the kind needs: missing field `failure`
        its meta is not what the kind needs: missing field `fireAtMs`
        its meta is not what the kind needs: missing field `id`
        its meta is not what the kind needs: missing field `instance`
        its meta is not what the kind needs: missing field `refusal`
        its meta is not what the kind needs: missing field `version`
        its meta is not what the kind needs: number out of range
        its meta is not what the kind needs: unknown field `attempt`, expected one of `retry`, `timeoutMs`, `totalTimeoutMs`, `heartbeatTimeoutMs`, `queue`, `priority`, `inline`, `trace`, `fiber`
        its meta is not what the kind needs: unknown field `fireAtMs`, expected one of `retry`, `timeoutMs`, `totalTimeoutMs`, `heartbeatTimeoutMs`, `queue`, `priority`, `inline`, `trace`, `fiber`
        its meta is not what the kind needs: unknown field `version`, expected one of `retry`, `timeoutMs`, `totalTimeoutMs`, `heartbeatTimeoutMs`, `queue`, `priority`, `inline`, `trace`, `fiber`
        its seed is no number"#]]
    .assert_eq(&problems.join("\n"));
    let deep = format!(
        "{{\"version\":\"1\",\"seed\":\"1\",\"x\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let _ = EventRecord {
        meta: Some(deep),
        ..row(EventKind::ExecutionStarted)
    }
    .into_event();
}

impl Draw {
    fn record(&mut self, place: u64) -> EventRecord {
        // Mostly an event that could stand there.
        let mut record = if self.below(4) > 0 {
            let events = events();
            let event = events[self.below(events.len() as u64) as usize].clone();
            EventRecord::new(EventId(place), 1_000 + place as i64, event)
        } else {
            row(EventKind::ALL[self.below(EventKind::ALL.len() as u64) as usize])
        };
        record.event_id = EventId(place);
        if record.ref_id.is_some() {
            record.ref_id = Some(EventId(self.below(place + 3)));
        }
        match self.below(60) {
            0 => record.event_id = EventId(self.below(place + 3)),
            1 => record.event_id = EventId(u64::MAX - self.below(2)),
            2 => record.ref_id = None,
            3 => record.ref_id = Some(EventId(u64::MAX)),
            4 => record.name = None,
            5 => record.meta = METAS[self.below(METAS.len() as u64) as usize].map(str::to_owned),
            6 => record.time_ms = [i64::MIN, i64::MAX, -1][self.below(3) as usize],
            _ => {}
        }
        record
    }

    fn history(&mut self) -> Vec<EventRecord> {
        let length = self.below(12);
        let mut history: Vec<EventRecord> = (1..=length).map(|place| self.record(place)).collect();
        if let Some(first) = history.first_mut()
            && self.below(10) > 0
        {
            *first = EventRecord::new(EventId(1), 1_000, events()[self.below(2) as usize].clone());
        }
        history
    }

    fn time(&mut self) -> i64 {
        [0, 1_005, i64::MIN, i64::MAX][self.below(4) as usize]
    }

    /// Makes a random call of the code or of its surroundings.
    fn call(&mut self, engine: &mut Engine) {
        let id = EventId(self.below(12));
        match self.below(12) {
            0 => {
                let options = ActivityOptions::default();
                let _ = engine.issue(Command::ScheduleActivity {
                    name: "charge".into(),
                    input: None,
                    options,
                });
            }
            1 => {
                let _ = engine.issue(Command::CreateTimer { delay_ms: self.time() });
            }
            2 => {
                let _ = engine.issue(Command::CreateTimerAt {
                    fire_at_ms: 1_700_000_000_000,
                });
            }
            3 => {
                let _ = engine.issue(Command::CancelOperation { scheduled: EventId(2) });
            }
            4..=6 => {
                let mailboxes = vec![Mailbox::Event("approve".into()), Mailbox::Queue("jobs".into())];
                let timers = (0..12).map(EventId).collect();
                let _ = engine.next(Awaited { mailboxes, timers }, self.time());
            }
            7 if self.below(4) == 0 => {
                let _ = engine.finish(Outcome::Completed(text("1")));
            }
            7 => engine.offer(Completion::ActivityCompleted {
                scheduled: id,
                output: None,
            }),
            8 => engine.offer(Completion::AttemptFailed {
                scheduled: id,
                error: None,
                error_name: "Error".into(),
                non_retryable: false,
                retry_after_ms: Some(self.time()),
            }),
            9 => {
                let body = match self.below(2) {
                    0 => MessageBody::Cancel { reason: None },
                    _ => MessageBody::Mail {
                        mailbox: Mailbox::Event("approve".into()),
                        payload: None,
                    },
                };
                engine.offer(Completion::Message(Message {
                    seq: MessageSeq(id.0),
                    body,
                }));
            }
            10 => {
                engine.set_custom_status(text("1"));
                let _ = (engine.random(), engine.is_runnable(self.time()), engine.needs_history());
            }
            _ => {
                engine.end_turn();
            }
        }
    }
}

/// A history of arbitrary rows, in arbitrary pages, under arbitrary calls: an error or a mismatch, never a panic.
#[test]
fn arbitrary_histories_never_panic() {
    let (mut read, mut broken) = (0, 0);
    for seed in 0..30_000 {
        let mut draw = Draw(seed);
        let mut history = draw.history();
        let later = history.split_off(draw.below(history.len() as u64 + 1) as usize);
        let (complete, fresh) = (draw.below(2) == 0, draw.below(8) == 0);
        let budget = Budget {
            replayed: 2,
            ..Budget::default()
        };
        let Ok(mut engine) = Engine::new(Start {
            execution: ExecutionId::FIRST,
            history,
            complete,
            fresh,
            budget,
        }) else {
            continue;
        };
        read += 1;
        for _ in 0..draw.below(20) {
            draw.call(&mut engine);
        }
        let _ = engine.extend_history(later.clone(), draw.below(2) == 0);
        for _ in 0..draw.below(20) {
            draw.call(&mut engine);
        }
        let _ = engine.extend_history(later, true);
        for _ in 0..draw.below(20) {
            draw.call(&mut engine);
        }
        broken += u32::from(engine.fault().is_some());
    }
    assert!(
        read > 10_000 && broken > 1_000,
        "{read} could be read, {broken} did not fit"
    );
}
