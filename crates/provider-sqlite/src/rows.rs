//! Rows as types. Values that are read are checked, because another program may have changed them.

use std::borrow::Cow;
use std::fmt::Display;

use perdure_engine::{EventId, EventKind, EventRecord, ExecutionId, Message, MessageBody, MessageSeq};
use perdure_provider::{Candidate, Status, StoredMessage};
use rusqlite::Row;
use rusqlite::types::{Type, ValueRef};

use crate::error::Failure;

/// Converts a number for SQLite. Numbers beyond 2^63 are limits of callers, such as the entries that a stream keeps.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a column that never holds a negative number.
pub(crate) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

pub(crate) fn optional_number(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => number(row, column).map(Some),
    }
}

/// Reads a text that is one of a few words.
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

/// The facts that a filter looks at, in eight columns of a row of instances.
macro_rules! candidate_columns {
    () => {
        "id, name, version, status, parent_id, tags, created_at, completed_at"
    };
}
pub(crate) use candidate_columns;

/// Reads the [`candidate_columns`] of a row, from a column on.
pub(crate) fn candidate<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<Candidate<'r>> {
    let text = |offset| row.get_ref(column + offset)?.as_str().map_err(rusqlite::Error::from);
    let optional = |offset| {
        let value = row.get_ref(column + offset)?;
        value.as_str_or_null().map_err(rusqlite::Error::from)
    };
    Ok(Candidate {
        id: text(0)?,
        name: text(1)?,
        version: text(2)?,
        status: status(row, column + 3)?,
        parent_id: optional(4)?,
        tags: optional(5)?,
        created_at_ms: row.get(column + 6)?,
        completed_at_ms: row.get(column + 7)?,
    })
}

/// Reads an event from `event_id, time, kind, ref_id, name, payload, meta`.
pub(crate) fn event(row: &Row<'_>) -> rusqlite::Result<EventRecord> {
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

/// Adds to an error which row could not be read.
pub(crate) fn unreadable(error: rusqlite::Error, what: impl Display) -> Failure {
    let failure = Failure::from(error);
    if failure.is_undecodable() {
        Failure::corrupt(format_args!("{what}: {failure}"))
    } else {
        failure
    }
}

/// Reads the message in a row that begins with `seq, kind, name, payload, execution, ref_id`.
pub(crate) fn message(row: &Row<'_>) -> Result<Message, Failure> {
    let seq = MessageSeq(number(row, 0)?);
    Ok(Message {
        seq,
        body: body(row).map_err(|error| unreadable(error, format_args!("message {seq}")))?,
    })
}

fn body(row: &Row<'_>) -> rusqlite::Result<MessageBody> {
    let text = |column| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
    let kept = StoredMessage {
        kind: row.get_ref(1)?.as_str()?.into(),
        name: text(2)?.map(Cow::Borrowed),
        payload: text(3)?.map(Cow::Borrowed),
        execution: optional_number(row, 4)?.map(ExecutionId),
        scheduled: optional_number(row, 5)?.map(EventId),
    };
    word(row, 1, |_| kept.into_body())
}
