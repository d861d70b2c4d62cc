//! Rows as types: what is read is checked, because another program may have changed it.

use std::borrow::Cow;
use std::fmt::Display;

use perdure_engine::{
    AttemptResult, ChildFailure, EventId, EventKind, EventRecord, ExecutionId, Mailbox, Message, MessageBody,
    MessageSeq, Refusal, Settlement,
};
use perdure_provider::{InstanceKey, Status};
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, Row, params};

use crate::error::Failure;

/// A number as SQLite keeps it. Numbers beyond 2^63 are limits that a caller made up (`MessageSeq(u64::MAX)`).
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A column that never holds a negative number.
pub(crate) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

fn optional_number(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => number(row, column).map(Some),
    }
}

/// A text that is one of a few.
pub(crate) fn word<T>(row: &Row<'_>, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    parse(text).ok_or_else(|| {
        // The text is not shown: it may be anything by now.
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, "the word in this column is unknown".into())
    })
}

pub(crate) fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<Status> {
    word(row, column, Status::parse)
}

/// Up to `limit` events from event `from` on. The ids are checked to be without gap (P8).
pub(crate) fn history(
    connection: &Connection,
    key: InstanceKey,
    execution: ExecutionId,
    from: EventId,
    limit: usize,
) -> Result<Vec<EventRecord>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT event_id, time, kind, ref_id, name, payload, meta FROM history
         WHERE instance_key = ?1 AND execution = ?2 AND event_id >= ?3 ORDER BY event_id LIMIT ?4",
    )?;
    let mut rows = statement.query(params![
        key.0,
        integer(execution.0),
        integer(from.0),
        integer(limit as u64)
    ])?;
    let mut events: Vec<EventRecord> = Vec::new();
    let mut expected = from.max(EventId::FIRST);
    while let Some(row) = rows.next()? {
        let event =
            event(row).map_err(|error| unreadable(error, format_args!("event {expected} of instance {}", key.0)))?;
        if event.event_id != expected {
            return Err(Failure::corrupt(format!(
                "event {expected} of instance {} is missing",
                key.0
            )));
        }
        expected = expected.next();
        events.push(event);
    }
    Ok(events)
}

fn event(row: &Row<'_>) -> rusqlite::Result<EventRecord> {
    Ok(EventRecord {
        event_id: EventId(number(row, 0)?),
        time_ms: row.get(1)?,
        kind: word(row, 2, EventKind::parse)?,
        ref_id: optional_number(row, 3)?.map(EventId),
        name: row.get(4)?,
        payload: row.get(5)?,
        meta: row.get(6)?,
    })
}

/// Say which row it was that could not be read.
fn unreadable(error: rusqlite::Error, what: impl Display) -> Failure {
    let failure = Failure::from(error);
    if failure.is_undecodable() {
        Failure::corrupt(format_args!("{what}: {failure}"))
    } else {
        failure
    }
}

/// How a mailbox is kept: the kind of its messages, and its name.
pub(crate) fn mailbox_columns(mailbox: &Mailbox) -> (&'static str, &str) {
    match mailbox {
        Mailbox::Event(name) => ("Event", name),
        Mailbox::Queue(name) => ("Queue", name),
    }
}

/// A body as it is kept.
#[derive(Default)]
pub(crate) struct MessageColumns<'b> {
    pub(crate) kind: &'static str,
    /// Of the mailbox, why something was refused, or the details of an attempt.
    pub(crate) name: Option<Cow<'b, str>>,
    pub(crate) payload: Option<&'b str>,
    pub(crate) execution: Option<i64>,
    pub(crate) ref_id: Option<i64>,
}

impl<'b> MessageColumns<'b> {
    pub(crate) fn of(body: &'b MessageBody) -> Self {
        let (kind, name, payload) = match body {
            MessageBody::Mail { mailbox, payload } => {
                let (kind, name) = mailbox_columns(mailbox);
                (kind, Some(name.into()), payload)
            }
            MessageBody::Cancel { reason } => ("Cancel", None, reason),
            MessageBody::Settled {
                execution,
                scheduled,
                settlement,
            } => {
                let (kind, name, payload) = match settlement {
                    Settlement::Completed(output) => ("ChildCompleted", None, output),
                    Settlement::Failed(ChildFailure::Failed, error) => ("ChildFailed", None, error),
                    Settlement::Failed(ChildFailure::Cancelled, error) => ("ChildCancelled", None, error),
                    Settlement::Failed(ChildFailure::Terminated, reason) => ("ChildTerminated", None, reason),
                    Settlement::Refused(refusal) => ("Refused", Some(refusal.text()), &None),
                    Settlement::Attempted { attempt, result } => {
                        ("Attempted", Some(result.details(*attempt).into()), result.payload())
                    }
                };
                return Self {
                    kind,
                    name,
                    payload: payload.as_deref(),
                    execution: Some(integer(execution.0)),
                    ref_id: Some(integer(scheduled.0)),
                };
            }
        };
        Self {
            kind,
            name,
            payload: payload.as_deref(),
            ..Self::default()
        }
    }
}

/// The message in a row that begins with `seq, kind, name, payload, execution, ref_id`.
pub(crate) fn message(row: &Row<'_>) -> Result<Message, Failure> {
    let seq = MessageSeq(number(row, 0)?);
    Ok(Message {
        seq,
        body: body(row).map_err(|error| unreadable(error, format_args!("message {seq}")))?,
    })
}

fn body(row: &Row<'_>) -> rusqlite::Result<MessageBody> {
    let payload = || row.get(3);
    let mail = |mailbox: fn(String) -> Mailbox| {
        Ok(MessageBody::Mail {
            mailbox: mailbox(row.get(2)?),
            payload: payload()?,
        })
    };
    let settlement = match row.get_ref(1)?.as_str()? {
        "Event" => return mail(Mailbox::Event),
        "Queue" => return mail(Mailbox::Queue),
        "Cancel" => return Ok(MessageBody::Cancel { reason: payload()? }),
        "ChildCompleted" => Settlement::Completed(payload()?),
        "ChildFailed" => Settlement::Failed(ChildFailure::Failed, payload()?),
        "ChildCancelled" => Settlement::Failed(ChildFailure::Cancelled, payload()?),
        "ChildTerminated" => Settlement::Failed(ChildFailure::Terminated, payload()?),
        "Refused" => Settlement::Refused(word(row, 2, Refusal::parse)?),
        "Attempted" => {
            let payload = payload()?;
            let (attempt, result) = word(row, 2, |details| AttemptResult::from_details(details, payload))?;
            Settlement::Attempted { attempt, result }
        }
        _ => return word(row, 1, |_| None),
    };
    Ok(MessageBody::Settled {
        execution: ExecutionId(number(row, 4)?),
        scheduled: EventId(number(row, 5)?),
        settlement,
    })
}
