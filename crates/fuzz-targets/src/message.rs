//! Rows of messages: read as message bodies, written again, and delivered to an execution.

use std::borrow::Cow;

use perdure_engine::{
    ActivityOptions, AttemptResult, Awaited, Budget, ChildFailure, CommandEvent, Completion, Engine, Event, EventId,
    EventRecord, ExecutionId, ExecutionStarted, InstanceStart, Mailbox, Message, MessageBody, MessageSeq, Refusal,
    Settlement, Start, StartConflict, StateValues,
};
use perdure_provider::StoredMessage;

use crate::history;
use crate::rows::{self, Columns};

/// Maximum number of messages of one input.
const MESSAGES_MAX: usize = 200;

/// Reads, writes and delivers the rows of an input.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let bodies: Vec<MessageBody> = rows::read(&text)
        .take(MESSAGES_MAX)
        .filter_map(kept)
        .filter_map(StoredMessage::into_body)
        .collect();
    for body in &bodies {
        comes_back(body);
    }
    deliver(bodies);
}

fn kept(mut columns: Columns<'_>) -> Option<StoredMessage<'_>> {
    Some(StoredMessage {
        kind: columns.text()?.into(),
        name: columns.text().map(Cow::Borrowed),
        payload: columns.text().map(Cow::Borrowed),
        execution: columns.number().map(ExecutionId),
        scheduled: columns.number().map(EventId),
    })
}

/// Checks that a message that was read can be written again and is then the same.
pub fn comes_back(body: &MessageBody) {
    assert_eq!(StoredMessage::of(body).into_body().as_ref(), Some(body));
}

/// Delivers the messages to an execution that waits for all of them, and has open operations of its own.
fn deliver(bodies: Vec<MessageBody>) {
    let mut engine = receiver();
    let mailbox = |body: &MessageBody| match body {
        MessageBody::Mail { mailbox, .. } => Some(mailbox.clone()),
        _ => None,
    };
    let awaited = Awaited {
        mailboxes: bodies.iter().filter_map(mailbox).collect(),
        timers: vec![EventId(3)],
    };
    let count = bodies.len();
    for (place, body) in bodies.into_iter().enumerate() {
        let seq = MessageSeq(place as u64 + 1);
        engine.offer(Completion::Message(Message { seq, body }));
    }
    for _ in 0..=count {
        if engine.next(awaited.clone(), i64::MAX).is_err() {
            return;
        }
    }
    for record in &engine.end_turn().events {
        history::comes_back(record);
    }
}

/// Creates an execution that has scheduled an activity (event 2), has sent a message (3) and has a child (4).
fn receiver() -> Engine {
    let asked = [
        Event::Command(CommandEvent::ActivityScheduled {
            name: "a".into(),
            input: None,
            options: ActivityOptions::default(),
        }),
        Event::Command(CommandEvent::MessageSent {
            instance: "b".into(),
            mailbox: Mailbox::Event("go".into()),
            payload: None,
        }),
        Event::Command(CommandEvent::ChildScheduled(InstanceStart {
            on_conflict: StartConflict::default(),
            admission: None,
            id: "c".into(),
            name: "c".into(),
            version: "1.0.0".into(),
            input: None,
            tags: None,
            priority: 0,
            trace: None,
        })),
    ];
    let started = ExecutionStarted {
        name: "receiver".into(),
        version: "1.0.0".into(),
        input: None,
        seed: 1,
        incarnation: None,
        parent: None,
        custom_status: None,
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: None,
        trace: None,
    };
    let mut engine = Engine::new(Start {
        execution: ExecutionId::FIRST,
        history: vec![EventRecord::new(EventId::FIRST, 0, started)],
        complete: true,
        fresh: true,
        budget: Budget::default(),
    })
    .expect("the history is one");
    for event in asked {
        history::follow(&mut engine, event, &[], 0).expect("nothing is recorded yet");
    }
    engine.end_turn();
    engine
}

/// A message of each kind.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let payload = || Some("{\"a\":1}".to_owned());
    let settled = |scheduled, settlement| MessageBody::Settled {
        execution: ExecutionId::FIRST,
        scheduled: EventId(scheduled),
        settlement,
    };
    let failed = AttemptResult::Failed {
        error: payload(),
        error_name: "TypeError".into(),
        error_codes: vec!["ECONNRESET".into()],
        non_retryable: true,
        retry_after_ms: Some(5),
    };
    let attempted = |attempt, result| Settlement::Attempted { attempt, result };
    let mailboxes = [Mailbox::Event("go".into()), Mailbox::Queue("jobs".into())];
    let mail = mailboxes.map(|mailbox| MessageBody::Mail {
        mailbox,
        payload: payload(),
    });
    let bodies = [
        MessageBody::Cancel { reason: payload() },
        settled(4, Settlement::Completed(payload())),
        settled(4, Settlement::Failed(ChildFailure::Failed, payload())),
        settled(4, Settlement::Failed(ChildFailure::Cancelled, None)),
        settled(4, Settlement::Failed(ChildFailure::Terminated, payload())),
        settled(3, Settlement::Refused(Refusal::InstanceNotFound)),
        settled(3, Settlement::Refused(Refusal::MailboxFull { max: 5 })),
        settled(2, attempted(1, failed)),
        settled(2, attempted(2, AttemptResult::Completed(payload()))),
    ];
    let rows: Vec<_> = mail.iter().chain(&bodies).map(columns).collect();
    let each = rows.iter().map(|row| rows::write(&[row]));
    each.chain([rows::write(&rows)]).collect()
}

fn columns(body: &MessageBody) -> [Option<String>; 5] {
    let kept = StoredMessage::of(body);
    [
        Some(kept.kind.into_owned()),
        kept.name.map(Cow::into_owned),
        kept.payload.map(Cow::into_owned),
        kept.execution.map(|id| id.to_string()),
        kept.scheduled.map(|id| id.to_string()),
    ]
}
