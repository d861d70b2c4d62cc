//! Streams: numbered entries of instances, which are appended and never changed (P23).

use std::borrow::Cow;

use perdure_engine::{EventId, ExecutionId, StreamAppend};
use perdure_provider::{
    ActivityAppend, ChunkWriter, InstanceKey, StreamChunk, StreamInfo, StreamName, StreamPage, StreamRequest,
    StreamReset, StreamState,
};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{index, integer, number, optional_number, status, text};
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

/// No other transaction appends to these streams, because the rows of their instances are locked. A closed stream takes
/// nothing.
/// `begun` notes where runs of activities begin, and `writers` has the activities of all appends, in their state after
/// that. `trimmed` looks at no chunk that it does not delete but the last one.
const APPEND: &str = "WITH open AS MATERIALIZED (
  SELECT a.*, coalesce(s.next_index, 0) AS first_index
  FROM {a} LEFT JOIN {schema}.streams s ON s.instance_key = ANY (ARRAY[a.instance_key]) AND s.name = a.name
  WHERE s.closed IS NOT TRUE
), moved AS (
  INSERT INTO {schema}.streams (instance_key, name, next_index, closed)
  SELECT instance_key, name, first_index + count, closes FROM open ORDER BY instance_key, name
  ON CONFLICT (instance_key, name) DO UPDATE SET next_index = excluded.next_index, closed = excluded.closed
), former AS (
  DELETE FROM {schema}.stream_writers w USING open o
  WHERE o.begins AND w.instance_key = ANY (ARRAY[o.instance_key]) AND w.execution < o.execution
), begun AS (
  INSERT INTO {schema}.stream_writers AS w (instance_key, execution, event_id, name, first_index, run_index)
  SELECT instance_key, execution, event_id, name, first_index, first_index FROM open
  WHERE begins AND count > 0 ORDER BY instance_key, name
  ON CONFLICT (instance_key, execution, event_id, name) DO UPDATE SET run_index = excluded.run_index
  RETURNING w.instance_key, w.name, w.first_index, w.run_index
), writers AS (
  SELECT * FROM begun
  UNION ALL
  SELECT w.instance_key, w.name, w.first_index, w.run_index
  FROM open o JOIN {schema}.stream_writers w ON w.instance_key = ANY (ARRAY[o.instance_key])
    AND w.execution = o.execution AND w.event_id = o.event_id AND w.name = o.name
  WHERE NOT o.begins
), added AS (
  INSERT INTO {schema}.stream_chunks (instance_key, name, first_index, count, execution, event_id, attempt, reset_from,
    reset_at, time, expires_at, entries)
  SELECT o.instance_key, o.name, o.first_index, count, execution, event_id, attempt, w.first_index, w.run_index, time,
    expires_at, entries
  FROM open o LEFT JOIN writers w
    ON w.instance_key = o.instance_key AND w.name = o.name AND w.first_index < w.run_index
  WHERE count > 0 AND (kept > 0) IS NOT FALSE ORDER BY o.instance_key, o.name
), trimmed AS (
  DELETE FROM {schema}.stream_chunks c USING open o
  WHERE c.instance_key = ANY (ARRAY[o.instance_key]) AND c.name = o.name
    AND c.first_index < o.first_index + o.count - o.kept
    AND c.first_index + c.count <= o.first_index + o.count - o.kept
)
SELECT first_index + count FROM open";

/// An append, with its writer.
#[derive(Clone, Copy)]
pub(crate) struct Append<'w> {
    key: InstanceKey,
    /// The attempt that appends. `None`: the code of the orchestration.
    writer: Option<ChunkWriter>,
    /// True if entries of the activity that are there already are those of former runs.
    begins: bool,
    time_ms: i64,
    append: &'w StreamAppend,
}

impl<'w> Append<'w> {
    /// Returns the append of a turn.
    pub(crate) const fn of_turn(key: InstanceKey, time_ms: i64, append: &'w StreamAppend) -> Self {
        Self {
            key,
            writer: None,
            begins: false,
            time_ms,
            append,
        }
    }

    /// Returns the append of an attempt.
    pub(crate) const fn of_attempt(append: &'w ActivityAppend) -> Self {
        Self {
            key: append.key,
            writer: Some(append.writer()),
            begins: append.begins,
            time_ms: append.time_ms,
            append: &append.append,
        }
    }

    fn expires_at(&self) -> Option<i64> {
        let retain_ms = self.append.keep.retain_ms?;
        Some(self.time_ms.saturating_add_unsigned(retain_ms))
    }
}

/// Appends to different streams, whose instances are locked. Deletes the entries that are too many. Returns the index
/// of the next entry of each stream that was open.
pub(crate) async fn append(session: &Session<'_>, appends: &[Append<'_>]) -> Result<Vec<u64>, Failure> {
    if appends.is_empty() {
        return Ok(Vec::new());
    }
    let all = || appends.iter().map(|one| one.append);
    let of_writers = |what: fn(&ChunkWriter) -> i64| -> Vec<Option<i64>> {
        appends.iter().map(|one| one.writer.as_ref().map(what)).collect()
    };
    let keys: Vec<i64> = appends.iter().map(|one| one.key.0).collect();
    let names: Vec<Cow<'_, str>> = all().map(|append| encode(&append.stream)).collect();
    let counts: Vec<i64> = all().map(|append| integer(append.count)).collect();
    let closes: Vec<bool> = all().map(|append| append.closes).collect();
    let executions = of_writers(|writer| integer(writer.execution.0));
    let events = of_writers(|writer| integer(writer.scheduled.0));
    let attempts = of_writers(|writer| writer.attempt.into());
    let begins: Vec<bool> = appends.iter().map(|one| one.begins).collect();
    let times: Vec<i64> = appends.iter().map(|one| one.time_ms).collect();
    let expire: Vec<Option<i64>> = appends.iter().map(Append::expires_at).collect();
    let kept: Vec<Option<i64>> = all().map(|append| append.keep.entries_max.map(integer)).collect();
    let entries: Vec<Cow<'_, str>> = all().map(|append| encode(&append.entries)).collect();
    let rows = named!(
        session.query,
        APPEND,
        {},
        a {
            instance_key: P::Ints(&keys),
            name: P::Texts(&names),
            count: P::Ints(&counts),
            closes: P::Bools(&closes),
            execution: P::MaybeInts(&executions),
            event_id: P::MaybeInts(&events),
            attempt: P::MaybeInts(&attempts),
            begins: P::Bools(&begins),
            time: P::Ints(&times),
            expires_at: P::MaybeInts(&expire),
            kept: P::MaybeInts(&kept),
            entries: P::Texts(&entries),
        }
    )
    .await?;
    rows.iter().map(|row| number(row, 0)).collect()
}

const STATES: &str = "SELECT i.key, i.status, coalesce(s.next_index, 0), coalesce(s.closed, false)
FROM {a} LEFT JOIN {schema}.instances i ON i.id = a.instance
LEFT JOIN {schema}.streams s ON s.instance_key = i.key AND s.name = a.stream ORDER BY a.n";

/// Returns the state of each stream, all at one moment. `None`: there is no such instance.
pub(crate) async fn states(connection: &Connection, names: &[StreamName]) -> Result<Vec<Option<StreamState>>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let n: Vec<i64> = (0..names.len()).map(index).collect();
    let instances: Vec<Cow<'_, str>> = names.iter().map(|name| encode(&name.instance)).collect();
    let streams: Vec<Cow<'_, str>> = names.iter().map(|name| encode(&name.stream)).collect();
    let rows = named!(
        connection.query,
        STATES,
        {},
        a {
            n: P::Ints(&n),
            instance: P::Texts(&instances),
            stream: P::Texts(&streams)
        }
    )
    .await?;
    let state = |row| match Row::try_get::<_, Option<i64>>(row, 0)? {
        Some(_) => state(row).map(Some),
        None => Ok(None),
    };
    rows.iter().map(state).collect()
}

/// Reads the state in the first four columns.
fn state(row: &Row) -> Result<StreamState, Failure> {
    Ok(StreamState {
        key: InstanceKey(row.try_get(0)?),
        status: status(row, 1)?,
        next: number(row, 2)?,
        is_closed: row.try_get(3)?,
    })
}

/// Selects a row without a stream for an instance that has none.
const LIST: &str = "SELECT s.name, coalesce(
  (SELECT c.first_index FROM {schema}.stream_chunks c WHERE c.instance_key = s.instance_key AND c.name = s.name
    ORDER BY c.first_index LIMIT 1), s.next_index), s.next_index, s.closed
FROM {schema}.instances i LEFT JOIN {schema}.streams s ON s.instance_key = i.key WHERE i.id = $1 ORDER BY s.name";

/// Returns the streams of an instance, in the order of their names. `None`: there is no instance of that id.
pub(crate) async fn list(connection: &Connection, id: &str) -> Result<Option<Vec<StreamInfo>>, Failure> {
    let rows = connection.query(LIST, &[P::Text(&encode(id))]).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let mut streams = Vec::with_capacity(rows.len());
    for row in &rows {
        if row.try_get::<_, Option<&str>>(0)?.is_some() {
            streams.push(StreamInfo {
                name: text(row, 0)?,
                first: number(row, 1)?,
                next: number(row, 2)?,
                is_closed: row.try_get(3)?,
            });
        }
    }
    Ok(Some(streams))
}

/// Selects the state, and with it as many chunks as a page takes, by their `rows` and then by their `bytes`. The server
/// knows the length of a text without reading it. Chunks do not overlap, so that the last one that begins up to `from`
/// is the first one that can have that entry.
const READ: &str =
    "SELECT i.key, i.status, coalesce(s.next_index, 0), coalesce(s.closed, false), c.first_index, c.count,
  c.execution, c.event_id, c.attempt, c.reset_from, c.reset_at, c.time, c.entries, c.size
FROM {schema}.instances i LEFT JOIN {schema}.streams s ON s.instance_key = i.key AND s.name = $stream
LEFT JOIN LATERAL (SELECT * FROM (
  SELECT p.*, sum(size) OVER (ORDER BY first_index) - size AS before FROM (
    SELECT *, octet_length(entries) AS size FROM {schema}.stream_chunks
    WHERE instance_key = i.key AND name = $stream AND first_index >= coalesce((
      SELECT f.first_index FROM {schema}.stream_chunks f
      WHERE f.instance_key = i.key AND f.name = $stream AND f.first_index <= $from
      ORDER BY f.first_index DESC LIMIT 1), $from) AND first_index + count > $from
    ORDER BY first_index LIMIT $rows) p) q WHERE before < $bytes::bigint) c ON true
WHERE i.id = $instance ORDER BY c.first_index";

/// Returns a page of the entries of a stream. `None`: there is no such instance. The reads are to see one snapshot.
pub(crate) async fn read(connection: &Connection, request: &StreamRequest) -> Result<Option<StreamPage>, Failure> {
    let [instance, stream] = [&request.name.instance, &request.name.stream].map(|text| encode(text));
    let (limit, mut from) = (request.limit, request.from);
    let (mut chunks, mut bytes) = (Vec::new(), 0);
    loop {
        let (rows_max, bytes_max) = (limit.rows - chunks.len(), limit.bytes - bytes);
        let rows = named!(
            connection.query,
            READ,
            {
                instance: P::Text(&instance),
                stream: P::Text(&stream),
                from: P::Int(integer(from)),
                rows: P::Int(index(rows_max)),
                bytes: P::Int(index(bytes_max)),
            }
        )
        .await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let state = state(first)?;
        let (before, mut stored) = (chunks.len(), 0);
        for row in &rows {
            if let Some(size) = row.try_get::<_, Option<i32>>(13)? {
                stored += usize::try_from(size).unwrap_or(0);
                let chunk = chunk(row)?;
                bytes += chunk.entries.len();
                from = chunk.first + chunk.count;
                chunks.push(chunk);
            }
        }
        // A text is longer as it is stored, if it has escapes. Then the page may take more.
        let is_last = chunks.len() - before < rows_max && stored < bytes_max;
        if is_last || limit.is_reached(chunks.len(), bytes) {
            return Ok(Some(StreamPage { state, chunks }));
        }
    }
}

fn chunk(row: &Row) -> Result<StreamChunk, Failure> {
    let reset = optional_number(row, 9)?.zip(optional_number(row, 10)?);
    let writer = match optional_number(row, 6)? {
        Some(execution) => Some(ChunkWriter {
            execution: ExecutionId(execution),
            scheduled: EventId(number(row, 7)?),
            attempt: u32::try_from(number(row, 8)?).map_err(|_| Failure::corrupt("the number of an attempt"))?,
        }),
        None => None,
    };
    Ok(StreamChunk {
        first: number(row, 4)?,
        count: number(row, 5)?,
        writer,
        reset: reset.map(|(from, at)| StreamReset { from, at }),
        time_ms: row.try_get(11)?,
        entries: text(row, 12)?,
    })
}

/// Chunks that another process deletes are left to that process.
const PRUNE: &str = "WITH gone AS (DELETE FROM {schema}.stream_chunks d USING (
  SELECT instance_key, name, first_index FROM {schema}.stream_chunks WHERE expires_at <= $until
  ORDER BY expires_at, instance_key, name, first_index LIMIT $limit::bigint FOR UPDATE SKIP LOCKED) o
WHERE d.instance_key = o.instance_key AND d.name = o.name AND d.first_index = o.first_index RETURNING d.first_index)
SELECT count(*) FROM gone";

/// Deletes chunks whose time was over at a time. Returns true if there may be more.
pub(crate) async fn prune(session: &Session<'_>, now_ms: i64, limit: usize) -> Result<bool, Failure> {
    let limit = index(limit);
    let gone = named!(session.query_one, PRUNE, { until: P::Int(now_ms), limit: P::Int(limit) }).await?;
    Ok(gone.try_get::<_, i64>(0)? == limit)
}
