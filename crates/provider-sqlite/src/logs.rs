//! The lines that the code of instances logged.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, Level, LogLine, LogPage, LogPlace, LogRequest, TurnLogs};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Failure;
use crate::rows::{integer, number};
use crate::session::Session;

/// Adds the lines of a turn, and deletes those that are too many.
pub(crate) fn add(session: &Session<'_>, key: InstanceKey, logs: &TurnLogs) -> Result<(), Failure> {
    for line in &logs.lines {
        session.execute(
            "INSERT INTO logs (instance_key, execution, event_id, line, time, level, message, fields)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
            params![
                key.0,
                integer(line.place.execution.0),
                integer(line.place.event.0),
                line.place.line,
                line.time_ms,
                line.level.as_str(),
                line.message,
                line.fields,
            ],
        )?;
    }
    session.execute(
        "DELETE FROM logs WHERE instance_key = ?1 AND (execution, event_id, line) <= (
         SELECT execution, event_id, line FROM logs WHERE instance_key = ?1
           ORDER BY execution DESC, event_id DESC, line DESC LIMIT 1 OFFSET ?2)",
        params![key.0, integer(logs.lines_max as u64)],
    )?;
    Ok(())
}

/// Returns lines of an instance. `None`: there is no instance of that id.
pub(crate) fn read(connection: &Connection, request: &LogRequest) -> Result<Option<LogPage>, Failure> {
    let key = connection
        .prepare_cached("SELECT key FROM instances WHERE id = ?1")?
        .query_row(params![request.id], |row| row.get(0).map(InstanceKey))
        .optional()?;
    let Some(key) = key else { return Ok(None) };
    let after = request.after_in(key);
    let lines = connection
        .prepare_cached(
            "SELECT execution, event_id, line, time, level, message, fields FROM logs
             WHERE instance_key = ?1 AND (execution, event_id, line) > (?2, ?3, ?4)
             AND execution BETWEEN ?5 AND ?6
             ORDER BY execution, event_id, line LIMIT ?7",
        )?
        .query_map(
            params![
                key.0,
                integer(after.execution.0),
                integer(after.event.0),
                after.line,
                request.execution.map_or(0, |execution| integer(execution.0)),
                request.execution.map_or(i64::MAX, |execution| integer(execution.0)),
                integer(request.limit as u64),
            ],
            line,
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(LogPage { key, lines }))
}

fn line(row: &Row<'_>) -> rusqlite::Result<LogLine> {
    let level: String = row.get(4)?;
    Ok(LogLine {
        place: LogPlace {
            execution: ExecutionId(number(row, 0)?),
            event: EventId(number(row, 1)?),
            line: row.get(2)?,
        },
        time_ms: row.get(3)?,
        level: Level::parse(&level).unwrap_or(Level::Info),
        message: row.get(5)?,
        fields: row.get(6)?,
    })
}

/// Deletes lines that were logged before a time. Returns true if there may be more.
pub(crate) fn prune(session: &Session<'_>, before_ms: i64, limit: usize) -> Result<bool, Failure> {
    let limit = integer(limit as u64);
    let gone = session.execute(
        "DELETE FROM logs WHERE rowid IN (SELECT rowid FROM logs WHERE time < ?1 ORDER BY time LIMIT ?2)",
        params![before_ms, limit],
    )?;
    Ok(integer(gone as u64) == limit)
}
