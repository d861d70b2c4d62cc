//! Streams: numbered entries of instances, which are appended and never changed (P23).

use std::ops::Range;

use perdure_engine::{Bug, EventId, ExecutionId, StreamAppend, is_planted};
use perdure_provider::{
    ActivityAppend, ChunkWriter, InstanceKey, StreamChunk, StreamInfo, StreamName, StreamPage, StreamRequest,
    StreamReset, StreamState,
};

use crate::rows::{ChunkKey, ChunkRow, InstanceRow, StreamKey, StreamRow, WriterKey, WriterRow};
use crate::tables::Tables;

/// The writer of an append.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    /// The attempt; `None`: the orchestration.
    pub(crate) attempt: Option<ChunkWriter>,
    /// True if entries of the activity that are there already are those of former runs.
    pub(crate) begins: bool,
    /// Time of the append, ms since 1970.
    pub(crate) time_ms: i64,
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

fn of_instance(key: InstanceKey) -> Range<StreamKey> {
    (key, String::new())..(InstanceKey(key.0 + 1), String::new())
}

/// Returns the range of the chunks of an instance.
fn chunks_of_instance(key: InstanceKey) -> Range<ChunkKey> {
    (key, String::new(), 0)..(InstanceKey(key.0 + 1), String::new(), 0)
}

/// Returns the range of the activities of an instance that write to streams.
fn writers_of_instance(key: InstanceKey) -> Range<WriterKey> {
    let at = |key| (key, ExecutionId(0), EventId(0), String::new());
    at(key)..at(InstanceKey(key.0 + 1))
}

/// Returns the range of the activities of an instance that write to streams, in the executions before one.
fn writers_before(key: InstanceKey, execution: ExecutionId) -> Range<WriterKey> {
    let at = |execution| (key, execution, EventId(0), String::new());
    at(ExecutionId(0))..at(execution)
}

/// Returns the range of the chunks of a stream whose first entry has an index of a range.
fn chunks(key: InstanceKey, stream: &str, indexes: Range<u64>) -> Range<ChunkKey> {
    (key, stream.to_owned(), indexes.start)..(key, stream.to_owned(), indexes.end)
}

/// Appends entries to a stream, or closes it. Returns the index of the next entry. `None`: the stream was closed, and
/// nothing changed.
pub(crate) fn append(tables: &mut Tables, key: InstanceKey, append: &StreamAppend, by: Writer) -> Option<u64> {
    let at = (key, append.stream.clone());
    let row = tables.streams.get(&at).copied().unwrap_or_default();
    if row.is_closed {
        return None;
    }
    let next = row.next + append.count;
    if append.count > 0 {
        let chunk = StreamChunk {
            first: row.next,
            count: append.count,
            writer: by.attempt,
            reset: reset(tables, &at, row.next, by),
            time_ms: by.time_ms,
            entries: append.entries.clone(),
        };
        let retain_ms = append.keep.retain_ms;
        let expires_at_ms = retain_ms.map(|retain| by.time_ms.saturating_add_unsigned(retain));
        let row = ChunkRow { chunk, expires_at_ms };
        let at = (key, append.stream.clone(), row.chunk.first);
        tables.stream_chunks.insert(at, row);
    }
    let is_closed = append.closes;
    tables.streams.insert(at, StreamRow { next, is_closed });
    if let Some(max) = append.keep.entries_max {
        drop_before(tables, key, &append.stream, next.saturating_sub(max));
    }
    Some(next)
}

/// Notes where a run of an activity begins. Returns the entries of former runs that it replaces.
fn reset(tables: &mut Tables, (key, stream): &StreamKey, next: u64, by: Writer) -> Option<StreamReset> {
    let ChunkWriter {
        execution, scheduled, ..
    } = by.attempt?;
    let at = (*key, execution, scheduled, stream.clone());
    if by.begins {
        tables.stream_writers.remove_range(writers_before(*key, execution));
        let first = tables.stream_writers.get(&at).map_or(next, |row| row.first);
        tables.stream_writers.insert(at.clone(), WriterRow { first, run: next });
    }
    let WriterRow { first, run } = *tables.stream_writers.get(&at)?;
    (first < run).then_some(StreamReset { from: first, at: run })
}

/// Removes the chunks of a stream all of whose entries come before this one.
fn drop_before(tables: &mut Tables, key: InstanceKey, stream: &str, index: u64) {
    let before = tables.stream_chunks.range(chunks(key, stream, 0..index));
    let before = before.take_while(|(_, row)| row.chunk.first + row.chunk.count <= index);
    let before = before.map(|(at, row)| (at.clone(), row.chunk.writer));
    for (at, writer) in before.collect::<Vec<_>>() {
        tables.stream_chunks.remove(&at);
        if let Some(ChunkWriter {
            execution, scheduled, ..
        }) = writer.filter(|_| is_planted(Bug::StreamWriterForgotten))
        {
            let at = (key, execution, scheduled, stream.to_owned());
            tables.stream_writers.remove(&at);
        }
    }
}

/// Removes the streams of an instance. Their chunks and writers are left.
pub(crate) fn remove(tables: &mut Tables, key: InstanceKey) {
    tables.streams.remove_range(of_instance(key));
}

/// Removes the chunks and the writers of the streams of an instance.
pub(crate) fn remove_entries(tables: &mut Tables, key: InstanceKey) {
    tables.stream_chunks.remove_range(chunks_of_instance(key));
    tables.stream_writers.remove_range(writers_of_instance(key));
}

/// Removes up to `limit` chunks and writers of an instance. Returns the number of removed ones.
pub(crate) fn sweep(tables: &mut Tables, key: InstanceKey, limit: usize) -> usize {
    let chunks = tables.stream_chunks.range(chunks_of_instance(key)).take(limit);
    let chunks: Vec<ChunkKey> = chunks.map(|(at, _)| at.clone()).collect();
    for at in &chunks {
        tables.stream_chunks.remove(at);
    }
    let writers = tables.stream_writers.range(writers_of_instance(key));
    let writers: Vec<WriterKey> = (writers.take(limit - chunks.len())).map(|(at, _)| at.clone()).collect();
    for at in &writers {
        tables.stream_writers.remove(at);
    }
    chunks.len() + writers.len()
}

fn state(tables: &Tables, row: &InstanceRow, stream: &str) -> StreamState {
    let at = (row.key, stream.to_owned());
    let StreamRow { next, is_closed } = tables.streams.get(&at).copied().unwrap_or_default();
    StreamState {
        key: row.key,
        status: row.status,
        next,
        is_closed,
    }
}

/// Returns the state of a stream. `None`: there is no such instance.
pub(crate) fn find(tables: &Tables, name: &StreamName) -> Option<StreamState> {
    let row = tables.find(&name.instance)?;
    Some(state(tables, row, &name.stream))
}

/// Returns the streams of an instance. `None`: there is no instance of that id.
pub(crate) fn list(tables: &Tables, id: &str) -> Option<Vec<StreamInfo>> {
    let key = tables.find(id)?.key;
    let rows = tables.streams.range(of_instance(key));
    let info = |((_, name), row): (&StreamKey, &StreamRow)| {
        let mut left = tables.stream_chunks.range(chunks(key, name, 0..u64::MAX));
        StreamInfo {
            name: name.clone(),
            first: left.next().map_or(row.next, |(_, row)| row.chunk.first),
            next: row.next,
            is_closed: row.is_closed,
        }
    };
    Some(rows.map(info).collect())
}

/// Returns a page of the entries of a stream. `None`: there is no such instance.
pub(crate) fn read(tables: &Tables, request: &StreamRequest) -> Option<StreamPage> {
    let StreamRequest { name, from, limit } = request;
    let state = find(tables, name)?;
    let up_to = chunks(state.key, &name.stream, 0..from.saturating_add(1));
    let with_from = tables.stream_chunks.range(up_to).next_back();
    let with_from = with_from.filter(|(_, row)| row.chunk.first + row.chunk.count > *from);
    let after = chunks(state.key, &name.stream, from.saturating_add(1)..u64::MAX);
    let mut bytes = 0;
    let mut page = Vec::new();
    for (_, row) in with_from.into_iter().chain(tables.stream_chunks.range(after)) {
        if limit.is_reached(page.len(), bytes) {
            break;
        }
        bytes += row.chunk.entries.len();
        page.push(row.chunk.clone());
    }
    Some(StreamPage { state, chunks: page })
}

/// Removes chunks whose time was over at a time, the longest over first. Returns true if there may be more.
pub(crate) fn prune(tables: &mut Tables, now_ms: i64, limit: usize) -> bool {
    let over = |(at, row): (&ChunkKey, &ChunkRow)| {
        let expires_at_ms = row.expires_at_ms.filter(|expires_at| *expires_at <= now_ms)?;
        Some((expires_at_ms, at.clone()))
    };
    let mut over: Vec<_> = tables.stream_chunks.iter().filter_map(over).collect();
    over.sort();
    over.truncate(limit);
    for (_, at) in &over {
        tables.stream_chunks.remove(at);
    }
    over.len() == limit
}
