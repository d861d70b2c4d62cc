//! Streams: numbered entries of instances, which are appended and never changed (P23).

use perdure_engine::{EventId, ExecutionId, StreamAppend};
use perdure_provider::{
    ActivityAppend, ChunkWriter, InstanceKey, PageLimit, StreamChunk, StreamInfo, StreamName, StreamPage,
    StreamRequest, StreamReset, StreamState,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Failure;
use crate::rows::{integer, number, optional_number, status};
use crate::session::Session;

/// The writer of an append.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    /// The attempt; `None`: the orchestration.
    attempt: Option<ChunkWriter>,
    /// True if entries of the activity that are there already are those of former runs.
    begins: bool,
    time_ms: i64,
}

impl Writer {
    /// Returns the orchestration, in a turn.
    pub(crate) const fn turn(time_ms: i64) -> Self {
        Self {
            attempt: None,
            begins: false,
            time_ms,
        }
    }

    /// Returns the attempt of an append.
    pub(crate) const fn attempt(append: &ActivityAppend) -> Self {
        Self {
            attempt: Some(append.writer()),
            begins: append.begins,
            time_ms: append.time_ms,
        }
    }
}

/// Appends entries to a stream, or closes it. Returns the index of the next entry. `None`: the stream was closed, and
/// nothing changed.
pub(crate) fn append(
    session: &Session<'_>,
    key: InstanceKey,
    append: &StreamAppend,
    by: Writer,
) -> Result<Option<u64>, Failure> {
    let stream = &append.stream;
    let found = session.query_optional(
        "SELECT next_index, closed FROM streams WHERE instance_key = ?1 AND name = ?2",
        params![key.0, stream],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let (first, is_closed): (i64, bool) = found.unwrap_or_default();
    if is_closed {
        return Ok(None);
    }
    let next = first.saturating_add(integer(append.count));
    if append.count > 0 {
        add_chunk(session, key, append, first, by)?;
    }
    session.execute(
        "INSERT INTO streams (instance_key, name, next_index, closed) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (instance_key, name) DO UPDATE SET next_index = excluded.next_index, closed = excluded.closed",
        params![key.0, stream, next, append.closes],
    )?;
    if let Some(max) = append.keep.entries_max {
        session.execute(
            "DELETE FROM stream_chunks WHERE instance_key = ?1 AND name = ?2
               AND first_index < ?3 AND first_index + count <= ?3",
            params![key.0, stream, next.saturating_sub(integer(max))],
        )?;
    }
    Ok(Some(u64::try_from(next).unwrap_or_default()))
}

fn add_chunk(
    session: &Session<'_>,
    key: InstanceKey,
    append: &StreamAppend,
    first: i64,
    by: Writer,
) -> Result<(), Failure> {
    let reset = match by.attempt {
        Some(writer) => reset(session, key, &append.stream, writer, by.begins.then_some(first))?,
        None => None,
    };
    let retain_ms = append.keep.retain_ms;
    session.execute(
        "INSERT INTO stream_chunks (instance_key, name, first_index, count, execution, event_id, attempt, reset_from,
           reset_at, time, expires_at, entries) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            key.0,
            append.stream,
            first,
            integer(append.count),
            by.attempt.map(|writer| integer(writer.execution.0)),
            by.attempt.map(|writer| integer(writer.scheduled.0)),
            by.attempt.map(|writer| writer.attempt),
            reset.map(|reset| integer(reset.from)),
            reset.map(|reset| integer(reset.at)),
            by.time_ms,
            retain_ms.map(|retain| by.time_ms.saturating_add_unsigned(retain)),
            append.entries,
        ],
    )?;
    Ok(())
}

/// Notes where a run of an activity begins, if it begins. Returns the entries of former runs that it replaces.
fn reset(
    session: &Session<'_>,
    key: InstanceKey,
    stream: &str,
    by: ChunkWriter,
    begins_at: Option<i64>,
) -> Result<Option<StreamReset>, Failure> {
    let (execution, event) = (integer(by.execution.0), integer(by.scheduled.0));
    if let Some(index) = begins_at {
        session.execute(
            "DELETE FROM stream_writers WHERE instance_key = ?1 AND execution < ?2",
            params![key.0, execution],
        )?;
        session.execute(
            "INSERT INTO stream_writers (instance_key, execution, event_id, name, first_index, run_index)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5)
             ON CONFLICT (instance_key, execution, event_id, name) DO UPDATE SET run_index = excluded.run_index",
            params![key.0, execution, event, stream, index],
        )?;
    }
    session.query_optional(
        "SELECT first_index, run_index FROM stream_writers
         WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3 AND name = ?4 AND first_index < run_index",
        params![key.0, execution, event, stream],
        |row| {
            Ok(StreamReset {
                from: number(row, 0)?,
                at: number(row, 1)?,
            })
        },
    )
}

/// Returns the state of each stream, all at one moment. `None`: there is no such instance.
pub(crate) fn states(connection: &Connection, names: &[StreamName]) -> Result<Vec<Option<StreamState>>, Failure> {
    let moment = (names.len() > 1 && connection.is_autocommit())
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let states = names.iter().map(|name| state(connection, name)).collect();
    moment.map(|transaction| transaction.finish()).transpose()?;
    states
}

fn state(connection: &Connection, name: &StreamName) -> Result<Option<StreamState>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT i.key, i.status, coalesce(s.next_index, 0), coalesce(s.closed, 0)
         FROM instances i LEFT JOIN streams s ON s.instance_key = i.key AND s.name = ?2 WHERE i.id = ?1",
    )?;
    let state = statement.query_row(params![name.instance, name.stream], |row| {
        Ok(StreamState {
            key: InstanceKey(row.get(0)?),
            status: status(row, 1)?,
            next: number(row, 2)?,
            is_closed: row.get(3)?,
        })
    });
    Ok(state.optional()?)
}

/// Returns the streams of an instance. `None`: there is no instance of that id.
pub(crate) fn list(connection: &Connection, id: &str) -> Result<Option<Vec<StreamInfo>>, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let key: Option<i64> = connection
        .prepare_cached("SELECT key FROM instances WHERE id = ?1")?
        .query_row(params![id], |row| row.get(0))
        .optional()?;
    let Some(key) = key else { return Ok(None) };
    let streams = connection
        .prepare_cached(
            "SELECT s.name, coalesce((SELECT c.first_index FROM stream_chunks c
               WHERE c.instance_key = s.instance_key AND c.name = s.name ORDER BY c.first_index LIMIT 1), s.next_index),
             s.next_index, s.closed FROM streams s WHERE s.instance_key = ?1 ORDER BY s.name",
        )?
        .query_map(params![key], |row| {
            Ok(StreamInfo {
                name: row.get(0)?,
                first: number(row, 1)?,
                next: number(row, 2)?,
                is_closed: row.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(Some(streams))
}

/// Returns a page of the entries of a stream. `None`: there is no such instance.
pub(crate) fn read(connection: &Connection, request: &StreamRequest) -> Result<Option<StreamPage>, Failure> {
    let StreamRequest { name, from, limit } = request;
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let Some(state) = state(connection, name)? else {
        return Ok(None);
    };
    let chunks = chunks(connection, state.key, &name.stream, *from, *limit)?;
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(Some(StreamPage { state, chunks }))
}

/// Reads chunks from the last one on that begins no later than with the entry `from`.
fn chunks(
    connection: &Connection,
    key: InstanceKey,
    stream: &str,
    from: u64,
    limit: PageLimit,
) -> Result<Vec<StreamChunk>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT first_index, count, execution, event_id, attempt, reset_from, reset_at, time, entries FROM stream_chunks
         WHERE instance_key = ?1 AND name = ?2 AND first_index + count > ?3 AND first_index >= coalesce(
           (SELECT first_index FROM stream_chunks WHERE instance_key = ?1 AND name = ?2 AND first_index <= ?3
            ORDER BY first_index DESC LIMIT 1), ?3)
         ORDER BY first_index LIMIT ?4",
    )?;
    let mut rows = statement.query(params![key.0, stream, integer(from), integer(limit.rows as u64)])?;
    let (mut chunks, mut bytes) = (Vec::new(), 0);
    while !limit.is_reached(chunks.len(), bytes)
        && let Some(row) = rows.next()?
    {
        let chunk = chunk(row)?;
        bytes += chunk.entries.len();
        chunks.push(chunk);
    }
    Ok(chunks)
}

fn chunk(row: &Row<'_>) -> rusqlite::Result<StreamChunk> {
    let writer = match optional_number(row, 2)? {
        Some(execution) => Some(ChunkWriter {
            execution: ExecutionId(execution),
            scheduled: EventId(number(row, 3)?),
            attempt: row.get(4)?,
        }),
        None => None,
    };
    let reset = optional_number(row, 5)?.zip(optional_number(row, 6)?);
    Ok(StreamChunk {
        first: number(row, 0)?,
        count: number(row, 1)?,
        writer,
        reset: reset.map(|(from, at)| StreamReset { from, at }),
        time_ms: row.get(7)?,
        entries: row.get(8)?,
    })
}

/// Deletes chunks whose time was over at a time, the longest over first. Returns true if there may be more.
pub(crate) fn prune(session: &Session<'_>, now_ms: i64, limit: usize) -> Result<bool, Failure> {
    let limit = integer(limit as u64);
    let gone = session.execute(
        "DELETE FROM stream_chunks WHERE rowid IN (
         SELECT rowid FROM stream_chunks INDEXED BY stream_chunks_expiring WHERE expires_at <= ?1
           ORDER BY expires_at LIMIT ?2)",
        params![now_ms, limit],
    )?;
    Ok(integer(gone as u64) == limit)
}
