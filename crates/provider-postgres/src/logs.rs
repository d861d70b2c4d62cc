//! The lines that the code of instances logged.

use std::borrow::Cow;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, Level, LogLine, LogPage, LogPlace, LogRequest, TurnLogs};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{index, integer, number, optional_text, text};
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

const ADD: &str = "INSERT INTO {schema}.logs (instance_key, execution, event_id, line, time, level, message, fields)
SELECT l.instance_key, l.execution, l.event_id, l.line, l.time, l.level, l.message, l.fields FROM {l}
ORDER BY l.instance_key, l.execution, l.event_id, l.line ON CONFLICT DO NOTHING";

/// Deletes the first lines of instances that have more than they may keep.
const TRIM: &str = "DELETE FROM {schema}.logs d USING {i} CROSS JOIN LATERAL (
  SELECT execution, event_id, line FROM {schema}.logs WHERE instance_key = i.key
  ORDER BY execution DESC, event_id DESC, line DESC LIMIT 1 OFFSET i.kept) last
WHERE d.instance_key = ANY (ARRAY[i.key])
  AND (d.execution, d.event_id, d.line) <= (last.execution, last.event_id, last.line)";

/// Adds the lines of turns that are written, and deletes those that are too many.
pub(crate) async fn add(session: &Session<'_>, turns: &[(InstanceKey, &TurnLogs)]) -> Result<(), Failure> {
    if turns.is_empty() {
        return Ok(());
    }
    let all: Vec<&LogLine> = turns.iter().flat_map(|(_, logs)| &logs.lines).collect();
    let keys: Vec<i64> = (turns.iter())
        .flat_map(|(key, logs)| std::iter::repeat_n(key.0, logs.lines.len()))
        .collect();
    let executions: Vec<i64> = all.iter().map(|line| integer(line.place.execution.0)).collect();
    let events: Vec<i64> = all.iter().map(|line| integer(line.place.event.0)).collect();
    let numbers: Vec<i64> = all.iter().map(|line| line.place.line.into()).collect();
    let times: Vec<i64> = all.iter().map(|line| line.time_ms).collect();
    let levels: Vec<&str> = all.iter().map(|line| line.level.as_str()).collect();
    let messages: Vec<Cow<'_, str>> = all.iter().map(|line| encode(&line.message)).collect();
    let fields: Vec<Option<Cow<'_, str>>> = all.iter().map(|line| line.fields.as_deref().map(encode)).collect();
    named!(
        session.query,
        ADD,
        {},
        l {
            instance_key: P::Ints(&keys),
            execution: P::Ints(&executions),
            event_id: P::Ints(&events),
            line: P::Ints(&numbers),
            time: P::Ints(&times),
            level: P::Names(&levels),
            message: P::Texts(&messages),
            fields: P::MaybeTexts(&fields),
        }
    )
    .await?;
    let keys: Vec<i64> = turns.iter().map(|(key, _)| key.0).collect();
    let kept: Vec<i64> = turns.iter().map(|(_, logs)| index(logs.lines_max)).collect();
    named!(
        session.query,
        TRIM,
        {},
        i {
            key: P::Ints(&keys),
            kept: P::Ints(&kept)
        }
    )
    .await?;
    Ok(())
}

/// The instance, and its lines after it.
const READ: &str = "SELECT execution, event_id, line, time, level, message, fields FROM {schema}.logs
WHERE instance_key = $key AND (execution, event_id, line) > ($execution::bigint, $event::bigint, $line::bigint)
AND execution BETWEEN $first AND $last
ORDER BY execution, event_id, line LIMIT $limit::bigint";

/// Returns lines of an instance. `None`: there is no instance of that id. The reads are to see one snapshot.
pub(crate) async fn read(connection: &Connection, request: &LogRequest) -> Result<Option<LogPage>, Failure> {
    let id = encode(&request.id);
    let found = connection
        .query("SELECT key FROM {schema}.instances WHERE id = $1", &[P::Text(&id)])
        .await?;
    let Some(found) = found.first() else { return Ok(None) };
    let key = InstanceKey(found.try_get(0)?);
    let after = request.after_in(key);
    let [first, last] = [0, i64::MAX].map(|bound| request.execution.map_or(bound, |execution| integer(execution.0)));
    let rows = named!(
        connection.query,
        READ,
        {
            key: P::Int(key.0),
            execution: P::Int(integer(after.execution.0)),
            event: P::Int(integer(after.event.0)),
            line: P::Int(after.line.into()),
            first: P::Int(first),
            last: P::Int(last),
            limit: P::Int(index(request.limit)),
        }
    )
    .await?;
    let lines = rows.iter().map(line).collect::<Result<_, Failure>>()?;
    Ok(Some(LogPage { key, lines }))
}

fn line(row: &Row) -> Result<LogLine, Failure> {
    Ok(LogLine {
        place: LogPlace {
            execution: ExecutionId(number(row, 0)?),
            event: EventId(number(row, 1)?),
            line: u32::try_from(number(row, 2)?).unwrap_or(u32::MAX),
        },
        time_ms: row.try_get(3)?,
        level: Level::parse(row.try_get(4)?).unwrap_or(Level::Info),
        message: text(row, 5)?,
        fields: optional_text(row, 6)?,
    })
}

/// Lines that another process deletes are left to that process.
const PRUNE: &str = "WITH gone AS (DELETE FROM {schema}.logs d USING (
  SELECT instance_key, execution, event_id, line FROM {schema}.logs WHERE time < $before ORDER BY time
  LIMIT $limit::bigint FOR UPDATE SKIP LOCKED) o
WHERE d.instance_key = o.instance_key AND d.execution = o.execution AND d.event_id = o.event_id AND d.line = o.line
  RETURNING d.line)
SELECT count(*) FROM gone";

/// Deletes lines that were logged before a time. Returns true if there may be more.
pub(crate) async fn prune(session: &Session<'_>, before_ms: i64, limit: usize) -> Result<bool, Failure> {
    let limit = index(limit);
    let gone = named!(session.query_one, PRUNE, { before: P::Int(before_ms), limit: P::Int(limit) }).await?;
    Ok(gone.try_get::<_, i64>(0)? == limit)
}
