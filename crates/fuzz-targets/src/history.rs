//! Rows of a history: read as events, written again, and replayed by code that follows them.

use perdure_engine::{
    Awaited, Budget, Command, CommandEvent, Completion, EndEvent, Engine, Event, EventId, EventKind, EventRecord,
    ExecutionId, ExecutionStarted, Fault, Mailbox, NoteEvent, Outcome, Start,
};

use crate::rows::{self, Columns};

/// Maximum number of events of one input: each is replayed.
const EVENTS_MAX: usize = 200;

/// Reads, writes and replays the rows of an input.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let records: Vec<EventRecord> = rows::read(&text).take(EVENTS_MAX).filter_map(record).collect();
    for record in &records {
        comes_back(record);
    }
    for page in [records.len(), 3] {
        replay(&records, page.max(1));
    }
}

/// Reads a row whose kind is known: the store has refused the others before.
fn record(mut columns: Columns<'_>) -> Option<EventRecord> {
    Some(EventRecord {
        kind: EventKind::parse(columns.text()?)?,
        event_id: EventId(columns.number()?),
        time_ms: columns.number()?,
        ref_id: columns.number().map(EventId),
        name: columns.text().map(str::to_owned),
        payload: columns.text().map(str::to_owned),
        meta: columns.text().map(str::to_owned),
    })
}

/// Checks that a readable record can be written again and is then the same. The error of another record names its row.
pub fn comes_back(record: &EventRecord) {
    match record.clone().into_event() {
        Ok(event) => {
            let again = EventRecord::new(record.event_id, record.time_ms, event.clone());
            assert_eq!(again.kind, record.kind);
            assert_eq!(again.into_event().as_ref(), Ok(&event));
        }
        Err(error) => assert_eq!((error.event_id, error.kind), (record.event_id, record.kind)),
    }
}

/// Replays the records, `page` in a page, by code that follows them, and goes on past the history.
fn replay(records: &[EventRecord], page: usize) {
    let mut pages = records.chunks(page);
    let start = Start {
        execution: ExecutionId::FIRST,
        history: pages.next().unwrap_or_default().to_vec(),
        complete: page >= records.len(),
        fresh: records.len() == 1,
        budget: Budget {
            replayed: 2,
            ..Budget::default()
        },
    };
    let Ok(mut engine) = Engine::new(start) else { return };
    for page in pages.by_ref() {
        let is_last = page.last().map(|last| last.event_id) == records.last().map(|last| last.event_id);
        if engine.extend_history(page.to_vec(), is_last).is_err() {
            return;
        }
    }
    for record in records.iter().skip(1) {
        let Ok(event) = record.clone().into_event() else { return };
        if follow(&mut engine, event, records, record.time_ms).is_err() {
            return;
        }
    }
    go_on(&mut engine, records);
}

/// Takes the action of the code that an event records.
pub(crate) fn follow(engine: &mut Engine, event: Event, records: &[EventRecord], now_ms: i64) -> Result<(), Fault> {
    let command = match event {
        Event::Command(CommandEvent::ActivityScheduled { name, input, options }) => {
            Command::ScheduleActivity { name, input, options }
        }
        Event::Command(CommandEvent::TimerCreated { fire_at_ms }) => Command::CreateTimerAt { fire_at_ms },
        Event::Command(CommandEvent::ChildScheduled(start)) => Command::StartChild(start),
        Event::Command(CommandEvent::InstanceStarted(start)) => Command::StartInstance(start),
        Event::Command(CommandEvent::MessageSent {
            instance,
            mailbox,
            payload,
        }) => Command::SendMessage {
            instance,
            mailbox,
            payload,
        },
        Event::Command(CommandEvent::OperationCancelled { scheduled }) => Command::CancelOperation { scheduled },
        Event::Note(NoteEvent::PatchApplied { patch }) => {
            engine.patched(&patch);
            return Ok(());
        }
        Event::End(EndEvent::ExecutionCompleted { output }) => return engine.finish(Outcome::Completed(output)),
        Event::End(EndEvent::ExecutionFailed { error }) => return engine.finish(Outcome::Failed(error)),
        Event::End(EndEvent::ExecutionCancelled { error }) => return engine.finish(Outcome::Cancelled(error)),
        Event::End(EndEvent::ExecutionContinuedAsNew { input, version }) => {
            let version = Some(version);
            return engine.finish(Outcome::ContinuedAsNew { input, version });
        }
        Event::Started(ExecutionStarted { .. })
        | Event::Note(NoteEvent::ExecutionBegan { .. })
        | Event::Note(NoteEvent::ActivityAttemptFailed { .. }) => {
            return Ok(());
        }
        _ => return engine.next(everything(records), now_ms).map(drop),
    };
    engine.issue(command).map(drop)
}

/// Returns a wait for all mailboxes and operations that the records name.
fn everything(records: &[EventRecord]) -> Awaited {
    let mailbox = |record: &EventRecord| match record.kind {
        EventKind::EventReceived => record.name.clone().map(Mailbox::Event),
        EventKind::QueueReceived => record.name.clone().map(Mailbox::Queue),
        _ => None,
    };
    Awaited {
        mailboxes: records.iter().filter_map(mailbox).collect(),
        timers: records.iter().map(|record| record.event_id).collect(),
    }
}

/// Goes on past the history, at several times, with completions for all records.
fn go_on(engine: &mut Engine, records: &[EventRecord]) {
    for now_ms in [i64::MIN, 0, i64::MAX] {
        engine.begin_turn(now_ms);
        for record in records {
            engine.offer(Completion::AttemptFailed {
                scheduled: record.event_id,
                error: None,
                error_name: "Error".into(),
                error_codes: Vec::new(),
                non_retryable: false,
                retry_after_ms: Some(now_ms),
            });
        }
        if engine.next(everything(records), now_ms).is_err() {
            return;
        }
        let turn = engine.end_turn();
        for (place, event) in turn.events.iter().enumerate() {
            assert_eq!(event.event_id.0, turn.next_event_id.0 + place as u64);
            comes_back(event);
        }
    }
}
