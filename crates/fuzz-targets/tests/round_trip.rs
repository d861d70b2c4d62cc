//! Every event and every message comes back from its row as it was.

use perdure_engine::{
    ActivityOptions, Admission, AttemptResult, Backoff, ChildFailure, CommandEvent, DeliveryEvent, EndEvent, Event,
    EventId, EventKind, EventRecord, ExecutionId, ExecutionStarted, Incarnation, InstanceStart, Interruption, Mailbox,
    MessageBody, NoteEvent, ParentLink, Payload, Refusal, RetryPolicy, Settlement, StartConflict, TerminationEvent,
    TimeLimit,
};
use perdure_fuzz_targets::{history, message};
use proptest::collection::{btree_map, vec};
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

fn backoff() -> impl Strategy<Value = Backoff> {
    prop_oneof![Just(Backoff::Linear), number().prop_map(Backoff::Factor)]
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    let names = (vec(text(), 0..3), vec(text(), 0..3));
    (any::<u32>(), [number(), number(), number()], backoff(), names).prop_map(
        |(max_attempts, [initial_interval_ms, max_interval_ms, jitter], backoff, (non_retryable, retry_on))| {
            RetryPolicy {
                max_attempts,
                initial_interval_ms,
                backoff,
                max_interval_ms,
                jitter,
                non_retryable,
                retry_on,
            }
        },
    )
}

fn options() -> impl Strategy<Value = ActivityOptions> {
    let retry = prop_oneof![Just(RetryPolicy::default()), retry()];
    let times = [
        option::of(any::<u64>()).boxed(),
        option::of(any::<u64>()).boxed(),
        option::of(any::<u64>()).boxed(),
        option::of(any::<u64>()).boxed(),
    ];
    let by_whom = (payload(), option::of(any::<u32>()));
    (
        retry,
        times,
        [payload().boxed(), payload().boxed(), payload().boxed()],
        any::<i32>(),
        any::<bool>(),
        by_whom,
    )
        .prop_map(
            |(
                retry,
                [
                    timeout_ms,
                    total_timeout_ms,
                    schedule_to_start_timeout_ms,
                    heartbeat_timeout_ms,
                ],
                [queue, session, key],
                priority,
                inline,
                (trace, fiber),
            )| {
                ActivityOptions {
                    retry,
                    timeout_ms,
                    total_timeout_ms,
                    schedule_to_start_timeout_ms,
                    heartbeat_timeout_ms,
                    queue,
                    session,
                    key,
                    priority,
                    inline,
                    trace,
                    fiber,
                }
            },
        )
}

fn admission() -> impl Strategy<Value = Option<Box<Admission>>> {
    let times = any::<(Option<u64>, Option<i64>, Option<u64>, Option<u64>)>();
    let admission =
        (payload(), payload(), times).prop_map(|(queue, key, (delay_ms, start_at_ms, timeout_ms, grace_ms))| {
            Box::new(Admission {
                queue,
                key,
                delay_ms,
                start_at_ms,
                timeout_ms,
                grace_ms,
            })
        });
    proptest::option::of(admission)
}

fn time_limit() -> impl Strategy<Value = Option<TimeLimit>> {
    let limit = any::<(u64, Option<u64>, Option<i64>)>();
    option::of(limit.prop_map(|(timeout_ms, grace_ms, deadline_ms)| TimeLimit {
        timeout_ms,
        grace_ms,
        deadline_ms,
    }))
}

fn start() -> impl Strategy<Value = InstanceStart> {
    let named = (text(), text(), text(), payload(), payload(), any::<i32>(), payload());
    (named, admission()).prop_map(
        |((id, name, version, input, tags, priority, trace), admission)| InstanceStart {
            on_conflict: StartConflict::default(),
            id,
            name,
            version,
            input,
            tags,
            priority,
            admission,
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
        Just(Refusal::QueueNotFound),
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
        btree_map(text(), payload(), 0..4),
        time_limit(),
        payload(),
    )
        .prop_map(
            |(name, version, input, seed, incarnation, parent, custom_status, state, time_limit, trace)| {
                Event::Started(ExecutionStarted {
                    name,
                    version,
                    input,
                    seed,
                    incarnation,
                    parent,
                    custom_status,
                    state,
                    closed_streams: Default::default(),
                    time_limit,
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

fn scheduled() -> impl Strategy<Value = Event> {
    (text(), payload(), options())
        .prop_map(|(name, input, options)| CommandEvent::ActivityScheduled { name, input, options }.into())
}

fn activity_completed() -> impl Strategy<Value = Event> {
    (id(), payload()).prop_map(|(scheduled, output)| DeliveryEvent::ActivityCompleted { scheduled, output }.into())
}

fn attempt_failed() -> impl Strategy<Value = Event> {
    (id(), any::<u32>(), payload(), any::<i64>()).prop_map(|(scheduled, attempt, error, retry_at_ms)| {
        let note = NoteEvent::ActivityAttemptFailed {
            scheduled,
            attempt,
            error,
            retry_at_ms,
        };
        note.into()
    })
}

fn activity_failed() -> impl Strategy<Value = Event> {
    (id(), any::<u32>(), payload()).prop_map(|(scheduled, attempt, error)| {
        let delivery = DeliveryEvent::ActivityFailed {
            scheduled,
            attempt,
            error,
        };
        delivery.into()
    })
}

fn child_completed() -> impl Strategy<Value = Event> {
    (id(), payload()).prop_map(|(scheduled, output)| DeliveryEvent::ChildCompleted { scheduled, output }.into())
}

fn child_failed() -> impl Strategy<Value = Event> {
    (id(), child_failure(), payload()).prop_map(|(scheduled, failure, error)| {
        let delivery = DeliveryEvent::ChildFailed {
            scheduled,
            failure,
            error,
        };
        delivery.into()
    })
}

fn refused() -> impl Strategy<Value = Event> {
    (id(), refusal()).prop_map(|(scheduled, refusal)| DeliveryEvent::OperationRefused { scheduled, refusal }.into())
}

fn cancel_requested() -> impl Strategy<Value = Event> {
    prop_oneof![
        payload().prop_map(|reason| DeliveryEvent::CancelRequested { reason }.into()),
        payload().prop_map(|reason| Interruption { reason }.into()),
        payload().prop_map(|reason| NoteEvent::CancelRequested { reason }.into()),
    ]
}

fn cancelled() -> impl Strategy<Value = Event> {
    prop_oneof![
        payload().prop_map(|error| EndEvent::ExecutionCancelled { error }.into()),
        payload().prop_map(|error| TerminationEvent::ExecutionCancelled { error }.into()),
    ]
}

fn continued() -> impl Strategy<Value = Event> {
    (payload(), text()).prop_map(|(input, version)| EndEvent::ExecutionContinuedAsNew { input, version }.into())
}

/// An event with one value.
fn with<T, E: Into<Event> + 'static>(
    value: impl Strategy<Value = T> + 'static,
    event: fn(T) -> E,
) -> BoxedStrategy<Event>
where
    T: std::fmt::Debug + 'static,
{
    value.prop_map(move |value| event(value).into()).boxed()
}

/// Any event of a kind. The test does not compile before a new kind is here.
fn event(kind: EventKind) -> BoxedStrategy<Event> {
    match kind {
        EventKind::ExecutionStarted => started().boxed(),
        EventKind::ExecutionBegan => with(option::of(text()), |version| NoteEvent::ExecutionBegan { version }),
        EventKind::ActivityScheduled => scheduled().boxed(),
        EventKind::ActivityCompleted => activity_completed().boxed(),
        EventKind::ActivityAttemptFailed => attempt_failed().boxed(),
        EventKind::ActivityFailed => activity_failed().boxed(),
        EventKind::TimerCreated => with(any::<i64>(), |fire_at_ms| CommandEvent::TimerCreated { fire_at_ms }),
        EventKind::TimerFired => with(id(), |timer| DeliveryEvent::TimerFired { timer }),
        EventKind::ChildScheduled => with(start(), CommandEvent::ChildScheduled),
        EventKind::ChildCompleted => child_completed().boxed(),
        EventKind::ChildFailed => child_failed().boxed(),
        EventKind::InstanceStarted => with(start(), CommandEvent::InstanceStarted),
        EventKind::EventSent => sent(Mailbox::Event).boxed(),
        EventKind::QueueSent => sent(Mailbox::Queue).boxed(),
        EventKind::OperationConfirmed => with(id(), |scheduled| DeliveryEvent::OperationConfirmed { scheduled }),
        EventKind::OperationRefused => refused().boxed(),
        EventKind::OperationCancelled => with(id(), |scheduled| CommandEvent::OperationCancelled { scheduled }),
        EventKind::PatchApplied => with(text(), |patch| NoteEvent::PatchApplied { patch }),
        EventKind::EventReceived => received(Mailbox::Event).boxed(),
        EventKind::QueueReceived => received(Mailbox::Queue).boxed(),
        EventKind::EventAbsent => with(text(), |name| DeliveryEvent::MailboxEmpty {
            mailbox: Mailbox::Event(name),
        }),
        EventKind::QueueEmpty => with(text(), |name| DeliveryEvent::MailboxEmpty {
            mailbox: Mailbox::Queue(name),
        }),
        EventKind::CancelRequested => cancel_requested().boxed(),
        EventKind::ExecutionCompleted => with(payload(), |output| EndEvent::ExecutionCompleted { output }),
        EventKind::ExecutionFailed => with(payload(), |error| EndEvent::ExecutionFailed { error }),
        EventKind::ExecutionCancelled => cancelled().boxed(),
        EventKind::ExecutionContinuedAsNew => continued().boxed(),
        EventKind::ExecutionTerminated => with(payload(), |reason| TerminationEvent::ExecutionTerminated { reason }),
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
    let codes = vec(text(), 0..3);
    let failed = (payload(), text(), codes, any::<bool>(), option::of(any::<i64>())).prop_map(
        |(error, error_name, error_codes, non_retryable, retry_after_ms)| AttemptResult::Failed {
            error,
            error_name,
            error_codes,
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
