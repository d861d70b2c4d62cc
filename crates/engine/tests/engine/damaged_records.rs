//! Rows that were damaged: an unreadable row is an error that names its event, and an arbitrary history does no harm.

use expect_test::expect;
use perdure_engine::{
    ActivityOptions, Awaited, Budget, Command, Completion, Engine, EventId, EventKind, EventRecord, ExecutionId,
    Mailbox, Message, MessageBody, MessageSeq, Outcome, Start,
};

use crate::records::{events, row};
use crate::support::draw::Draw;
use crate::support::wrapped;

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
        "{\"retry\":{\"initialIntervalMs\":-1,\"backoff\":-1.5,\"maxIntervalMs\":-7,\"jitter\":-3,\
         \"maxAttempts\":4294967295}}",
    ),
    Some("{\"timeoutMs\":18446744073709551615}"),
    Some("{\"attempt\":1,\"attempt\":2}"),
];

/// A column that the kind needs is there, or the error names the event; never a panic.
#[test]
fn every_kind_with_every_column_absent_or_garbage() {
    let kinds = EventKind::ALL.iter();
    let rows = kinds.flat_map(|kind| METAS.iter().flat_map(|meta| damaged(*kind, *meta)));
    let mut problems: Vec<String> = rows.filter_map(problem_of).collect();
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
        its meta is not what the kind needs: invalid length 0, expected struct InstanceStartMeta with 7 elements
        its meta is not what the kind needs: invalid length 0, expected struct RefusedMeta with 1 element
        its meta is not what the kind needs: invalid length 0, expected struct SentMeta with 1 element
        its meta is not what the kind needs: invalid length 0, expected struct StartMeta with 9 elements
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
        its meta is not what the kind needs: unknown field `attempt`, expected one of `retry`, `timeoutMs`,
            `totalTimeoutMs`, `scheduleToStartTimeoutMs`, `heartbeatTimeoutMs`, `queue`, `session`, `key`,
            `priority`, `inline`, `trace`, `fiber`
        its meta is not what the kind needs: unknown field `fireAtMs`, expected one of `retry`, `timeoutMs`,
            `totalTimeoutMs`, `scheduleToStartTimeoutMs`, `heartbeatTimeoutMs`, `queue`, `session`, `key`,
            `priority`, `inline`, `trace`, `fiber`
        its meta is not what the kind needs: unknown field `version`, expected one of `retry`, `timeoutMs`,
            `totalTimeoutMs`, `scheduleToStartTimeoutMs`, `heartbeatTimeoutMs`, `queue`, `session`, `key`,
            `priority`, `inline`, `trace`, `fiber`
        its seed is no number"#]]
    .assert_eq(&wrapped(&problems.join("\n")));
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

/// Returns rows of a kind with this meta, with and without the other columns that a kind may need.
fn damaged(kind: EventKind, meta: Option<&str>) -> [EventRecord; 4] {
    [(true, true), (true, false), (false, true), (false, false)].map(|(has_ref, has_name)| {
        let row = row(kind);
        EventRecord {
            meta: meta.map(str::to_owned),
            ref_id: row.ref_id.filter(|_| has_ref),
            name: row.name.filter(|_| has_name),
            ..row
        }
    })
}

/// Reads a row. A row that can be read can be written, and read again. Returns the problem of another row, without its
/// place in the meta.
fn problem_of(record: EventRecord) -> Option<String> {
    let EventRecord {
        event_id,
        time_ms,
        kind,
        ..
    } = record;
    match record.into_event() {
        Ok(event) => {
            let again = EventRecord::new(event_id, time_ms, event.clone());
            assert_eq!(again.kind, kind);
            assert_eq!(again.into_event(), Ok(event), "what could be read can be written");
            None
        }
        Err(error) => {
            assert_eq!((error.event_id, error.kind), (event_id, kind));
            error.problem.split(" at line ").next().map(str::to_owned)
        }
    }
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
                let _ = engine.finish(Outcome::Completed(Some("1".into())));
            }
            7 => engine.offer(Completion::ActivityCompleted {
                scheduled: id,
                output: None,
            }),
            8 => engine.offer(Completion::AttemptFailed {
                scheduled: id,
                error: None,
                error_name: "Error".into(),
                error_codes: Vec::new(),
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
                engine.set_custom_status(Some("1".into()));
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
