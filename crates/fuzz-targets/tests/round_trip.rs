//! Every event and every message comes back from its row as it was.

use perdure_engine::{
    ActivityOptions, AttemptResult, ChildFailure, CommandEvent, DeliveryEvent, EndEvent, Event, EventId, EventKind,
    EventRecord, ExecutionId, ExecutionStarted, Incarnation, InstanceStart, Interruption, Mailbox, MessageBody,
    NoteEvent, ParentLink, Payload, Refusal, RetryPolicy, Settlement, TerminationEvent,
};
use perdure_fuzz_targets::{history, message};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
        .run(strategy, |value| {
            test(value);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// Texts with a meaning for JSON, a store, the driver or the rows of the fuzz targets.
const SPECIAL: &[&str] = &[
    "", "\0", "\u{1}", "\"", "\\", "{}", "null", "~[1]", "#x", "😀", "\u{feff}", "\u{2028}", "-",
];

/// Any text, often one of `SPECIAL`.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        ".{0,20}".boxed(),
        vec(any::<char>(), 0..20).prop_map(String::from_iter),
        proptest::sample::select(SPECIAL).prop_map(str::to_owned),
    ]
    .boxed()
}

fn payload() -> BoxedStrategy<Payload> {
    option::of(text()).boxed()
}

fn id() -> impl Strategy<Value = EventId> {
    prop_oneof![1..50_u64, any::<u64>()].prop_map(EventId)
}

fn execution() -> impl Strategy<Value = ExecutionId> {
    prop_oneof![1..50_u64, any::<u64>()].prop_map(ExecutionId)
}

/// A number that options may hold: JSON has no NaN, and no other infinity.
fn number() -> BoxedStrategy<f64> {
    use proptest::num::f64::{NORMAL, SUBNORMAL, ZERO};
    prop_oneof![
        NORMAL | SUBNORMAL | ZERO,
        Just(f64::INFINITY),
        (0..100_000_u32).prop_map(|n| f64::from(n) / 10.0)
    ]
    .boxed()
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    (
        any::<u32>(),
        [number(), number(), number(), number()],
        vec(text(), 0..3),
    )
        .prop_map(
            |(max_attempts, [initial_interval_ms, backoff, max_interval_ms, jitter], non_retryable)| RetryPolicy {
                max_attempts,
                initial_interval_ms,
                backoff,
                max_interval_ms,
                jitter,
                non_retryable,
            },
        )
}

fn options() -> impl Strategy<Value = ActivityOptions> {
    let retry = prop_oneof![Just(RetryPolicy::default()), retry()];
    let times = [
        option::of(any::<u64>()).boxed(),
        option::of(any::<u64>()).boxed(),
        option::of(any::<u64>()).boxed(),
    ];
    let by_whom = (payload(), option::of(any::<u32>()));
    (retry, times, payload(), any::<i32>(), any::<bool>(), by_whom).prop_map(
        |(retry, [timeout_ms, total_timeout_ms, heartbeat_timeout_ms], queue, priority, inline, (trace, fiber))| {
            ActivityOptions {
                retry,
                timeout_ms,
                total_timeout_ms,
                heartbeat_timeout_ms,
                queue,
                priority,
                inline,
                trace,
                fiber,
            }
        },
    )
}

fn start() -> impl Strategy<Value = InstanceStart> {
    (text(), text(), text(), payload(), payload(), any::<i32>(), payload()).prop_map(
        |(id, name, version, input, tags, priority, trace)| InstanceStart {
            id,
            name,
            version,
            input,
            tags,
            priority,
            trace,
        },
    )
}

fn child_failure() -> impl Strategy<Value = ChildFailure> {
    prop_oneof![
        Just(ChildFailure::Failed),
        Just(ChildFailure::Cancelled),
        Just(ChildFailure::Terminated)
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        Just(Refusal::InstanceExists),
        Just(Refusal::InstanceNotFound),
        Just(Refusal::InstanceEnded),
        any::<u64>().prop_map(|max| Refusal::MailboxFull { max }),
    ]
}

fn started() -> impl Strategy<Value = Event> {
    let parent = (text(), execution(), id()).prop_map(|(instance, execution, scheduled)| ParentLink {
        instance,
        execution,
        scheduled,
    });
    (
        text(),
        text(),
        payload(),
        any::<u64>(),
        option::of(any::<u64>().prop_map(Incarnation)),
        option::of(parent),
        payload(),
        payload(),
    )
        .prop_map(
            |(name, version, input, seed, incarnation, parent, custom_status, trace)| {
                Event::Started(ExecutionStarted {
                    name,
                    version,
                    input,
                    seed,
                    incarnation,
                    parent,
                    custom_status,
                    trace,
                })
            },
        )
}

fn sent(mailbox: fn(String) -> Mailbox) -> impl Strategy<Value = Event> {
    (text(), text(), payload()).prop_map(move |(instance, name, payload)| {
        Event::Command(CommandEvent::MessageSent {
            instance,
            mailbox: mailbox(name),
            payload,
        })
    })
}

fn received(mailbox: fn(String) -> Mailbox) -> impl Strategy<Value = Event> {
    (text(), payload()).prop_map(move |(name, payload)| {
        Event::Delivery(DeliveryEvent::MessageReceived {
            mailbox: mailbox(name),
            payload,
        })
    })
}

/// Any event of a kind. The test does not compile before a new kind is here.
fn event(kind: EventKind) -> BoxedStrategy<Event> {
    match kind {
        EventKind::ExecutionStarted => started().boxed(),
        EventKind::ExecutionBegan => option::of(text())
            .prop_map(|version| Event::Note(NoteEvent::ExecutionBegan { version }))
            .boxed(),
        EventKind::ActivityScheduled => (text(), payload(), options())
            .prop_map(|(name, input, options)| Event::Command(CommandEvent::ActivityScheduled { name, input, options }))
            .boxed(),
        EventKind::ActivityCompleted => (id(), payload())
            .prop_map(|(scheduled, output)| Event::Delivery(DeliveryEvent::ActivityCompleted { scheduled, output }))
            .boxed(),
        EventKind::ActivityAttemptFailed => (id(), any::<u32>(), payload(), any::<i64>())
            .prop_map(|(scheduled, attempt, error, retry_at_ms)| {
                Event::Note(NoteEvent::ActivityAttemptFailed {
                    scheduled,
                    attempt,
                    error,
                    retry_at_ms,
                })
            })
            .boxed(),
        EventKind::ActivityFailed => (id(), any::<u32>(), payload())
            .prop_map(|(scheduled, attempt, error)| {
                Event::Delivery(DeliveryEvent::ActivityFailed {
                    scheduled,
                    attempt,
                    error,
                })
            })
            .boxed(),
        EventKind::TimerCreated => any::<i64>()
            .prop_map(|fire_at_ms| Event::Command(CommandEvent::TimerCreated { fire_at_ms }))
            .boxed(),
        EventKind::TimerFired => id()
            .prop_map(|timer| Event::Delivery(DeliveryEvent::TimerFired { timer }))
            .boxed(),
        EventKind::ChildScheduled => start()
            .prop_map(|start| Event::Command(CommandEvent::ChildScheduled(start)))
            .boxed(),
        EventKind::ChildCompleted => (id(), payload())
            .prop_map(|(scheduled, output)| Event::Delivery(DeliveryEvent::ChildCompleted { scheduled, output }))
            .boxed(),
        EventKind::ChildFailed => (id(), child_failure(), payload())
            .prop_map(|(scheduled, failure, error)| {
                Event::Delivery(DeliveryEvent::ChildFailed {
                    scheduled,
                    failure,
                    error,
                })
            })
            .boxed(),
        EventKind::InstanceStarted => start()
            .prop_map(|start| Event::Command(CommandEvent::InstanceStarted(start)))
            .boxed(),
        EventKind::EventSent => sent(Mailbox::Event).boxed(),
        EventKind::QueueSent => sent(Mailbox::Queue).boxed(),
        EventKind::OperationConfirmed => id()
            .prop_map(|scheduled| Event::Delivery(DeliveryEvent::OperationConfirmed { scheduled }))
            .boxed(),
        EventKind::OperationRefused => (id(), refusal())
            .prop_map(|(scheduled, refusal)| Event::Delivery(DeliveryEvent::OperationRefused { scheduled, refusal }))
            .boxed(),
        EventKind::OperationCancelled => id()
            .prop_map(|scheduled| Event::Command(CommandEvent::OperationCancelled { scheduled }))
            .boxed(),
        EventKind::PatchApplied => text()
            .prop_map(|patch| Event::Note(NoteEvent::PatchApplied { patch }))
            .boxed(),
        EventKind::EventReceived => received(Mailbox::Event).boxed(),
        EventKind::QueueReceived => received(Mailbox::Queue).boxed(),
        EventKind::CancelRequested => prop_oneof![
            payload().prop_map(|reason| Event::Delivery(DeliveryEvent::CancelRequested { reason })),
            payload().prop_map(|reason| Event::Interruption(Interruption { reason })),
            payload().prop_map(|reason| Event::Note(NoteEvent::CancelRequested { reason })),
        ]
        .boxed(),
        EventKind::ExecutionCompleted => payload()
            .prop_map(|output| Event::End(EndEvent::ExecutionCompleted { output }))
            .boxed(),
        EventKind::ExecutionFailed => payload()
            .prop_map(|error| Event::End(EndEvent::ExecutionFailed { error }))
            .boxed(),
        EventKind::ExecutionCancelled => prop_oneof![
            payload().prop_map(|error| Event::End(EndEvent::ExecutionCancelled { error })),
            payload().prop_map(|error| Event::Termination(TerminationEvent::ExecutionCancelled { error })),
        ]
        .boxed(),
        EventKind::ExecutionContinuedAsNew => (payload(), text())
            .prop_map(|(input, version)| Event::End(EndEvent::ExecutionContinuedAsNew { input, version }))
            .boxed(),
        EventKind::ExecutionTerminated => payload()
            .prop_map(|reason| Event::Termination(TerminationEvent::ExecutionTerminated { reason }))
            .boxed(),
    }
}

#[test]
fn every_event_comes_back() {
    for kind in EventKind::ALL {
        check(60, &(id(), any::<i64>(), event(*kind)), |(event_id, time_ms, event)| {
            let record = EventRecord::new(event_id, time_ms, event.clone());
            assert_eq!(
                (record.event_id, record.time_ms, record.kind),
                (event_id, time_ms, *kind)
            );
            assert_eq!(record.clone().into_event(), Ok(event));
            history::comes_back(&record);
        });
    }
}

/// Each row is a row of one kind that has a column of another, or any text at all.
#[test]
fn any_row_of_a_kind_is_an_event_or_an_error() {
    let row = proptest::sample::select(EventKind::ALL).prop_flat_map(|kind| {
        let record = event(kind).prop_map(|event| EventRecord::new(EventId(2), 0, event));
        (
            record,
            proptest::sample::select(EventKind::ALL),
            option::of(payload()),
            option::of(payload()),
            option::of(option::of(id())),
        )
    });
    check(4_000, &row, |(mut record, kind, meta, name, reference)| {
        record.kind = kind;
        record.meta = meta.unwrap_or(record.meta);
        record.name = name.unwrap_or(record.name);
        record.ref_id = reference.unwrap_or(record.ref_id);
        history::comes_back(&record);
    });
}

fn attempt() -> impl Strategy<Value = AttemptResult> {
    let failed = (payload(), text(), any::<bool>(), option::of(any::<i64>())).prop_map(
        |(error, error_name, non_retryable, retry_after_ms)| AttemptResult::Failed {
            error,
            error_name,
            non_retryable,
            retry_after_ms,
        },
    );
    prop_oneof![payload().prop_map(AttemptResult::Completed), failed]
}

fn body() -> impl Strategy<Value = MessageBody> {
    let mailbox = prop_oneof![text().prop_map(Mailbox::Event), text().prop_map(Mailbox::Queue)];
    let settlement = prop_oneof![
        payload().prop_map(Settlement::Completed),
        (child_failure(), payload()).prop_map(|(failure, error)| Settlement::Failed(failure, error)),
        refusal().prop_map(Settlement::Refused),
        (any::<u32>(), attempt()).prop_map(|(attempt, result)| Settlement::Attempted { attempt, result }),
    ];
    prop_oneof![
        (mailbox, payload()).prop_map(|(mailbox, payload)| MessageBody::Mail { mailbox, payload }),
        payload().prop_map(|reason| MessageBody::Cancel { reason }),
        (execution(), id(), settlement).prop_map(|(execution, scheduled, settlement)| MessageBody::Settled {
            execution,
            scheduled,
            settlement,
        }),
    ]
}

#[test]
fn every_message_comes_back() {
    check(2_000, &body(), |body| message::comes_back(&body));
}
