//! Rows as types. Each value that is read is checked, because another program may have changed it.

use std::borrow::Cow;
use std::fmt::Display;

use perdure_engine::{EventId, EventKind, EventRecord, ExecutionId, Message, MessageBody, MessageSeq};
use perdure_provider::{Status, StoredMessage, WorkerId};
use tokio_postgres::Row;

use crate::error::Failure;
use crate::text::decode;

/// Returns a number as Postgres stores it. Numbers of 2^63 or more are limits that a caller made up, and become the
/// largest number.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a count, or a place in a list, as a column.
pub(crate) fn index(n: usize) -> i64 {
    integer(n as u64)
}

/// Reads a column that never holds a negative number.
pub(crate) fn number(row: &Row, column: usize) -> Result<u64, Failure> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|_| Failure::corrupt(format!("column {column} holds {value}")))
}

pub(crate) fn optional_number(row: &Row, column: usize) -> Result<Option<u64>, Failure> {
    let value: Option<i64> = row.try_get(column)?;
    value.map(|_| number(row, column)).transpose()
}

/// Reads a text of the user's.
pub(crate) fn text(row: &Row, column: usize) -> Result<String, Failure> {
    Ok(decode(row.try_get(column)?))
}

pub(crate) fn optional_text(row: &Row, column: usize) -> Result<Option<String>, Failure> {
    Ok(row.try_get::<_, Option<String>>(column)?.map(decode))
}

pub(crate) fn worker(row: &Row, column: usize) -> Result<Option<WorkerId>, Failure> {
    let id: Option<String> = row.try_get(column)?;
    Ok(id.map(|id| WorkerId(id.into())))
}

/// Reads a text that is one of a few words.
pub(crate) fn word<T>(row: &Row, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Failure> {
    let text = text(row, column)?;
    // The text is not shown: another program may have put anything there.
    parse(&text).ok_or_else(|| Failure::corrupt(format!("the word in column {column} is unknown")))
}

pub(crate) fn status(row: &Row, column: usize) -> Result<Status, Failure> {
    word(row, column, Status::parse)
}

/// Reads the event in the seven columns from `first` on.
pub(crate) fn event(row: &Row, first: usize) -> Result<EventRecord, Failure> {
    Ok(EventRecord {
        event_id: EventId(number(row, first)?),
        time_ms: row.try_get(first + 1)?,
        kind: word(row, first + 2, EventKind::parse)?,
        ref_id: optional_number(row, first + 3)?.map(EventId),
        name: optional_text(row, first + 4)?,
        payload: optional_text(row, first + 5)?,
        meta: optional_text(row, first + 6)?,
    })
}

/// Adds to a failure which row could not be read.
pub(crate) fn unreadable(failure: Failure, what: impl Display) -> Failure {
    if failure.is_undecodable() {
        Failure::corrupt(format_args!("{what}: {failure}"))
    } else {
        failure
    }
}

/// Reads the message in a row that begins with `seq, kind, name, payload, execution, ref_id`.
pub(crate) fn message(row: &Row) -> Result<Message, Failure> {
    let seq = MessageSeq(number(row, 0)?);
    Ok(Message {
        seq,
        body: body(row).map_err(|failure| unreadable(failure, format_args!("message {seq}")))?,
    })
}

fn body(row: &Row) -> Result<MessageBody, Failure> {
    let kept = StoredMessage {
        kind: text(row, 1)?.into(),
        name: optional_text(row, 2)?.map(Cow::Owned),
        payload: optional_text(row, 3)?.map(Cow::Owned),
        execution: optional_number(row, 4)?.map(ExecutionId),
        scheduled: optional_number(row, 5)?.map(EventId),
    };
    kept.into_body()
        .ok_or_else(|| Failure::corrupt("its columns are of no message"))
}
