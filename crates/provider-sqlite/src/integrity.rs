//! The rows of a step of a check, for the rules of `perdure_provider`, and the soundness of the file.

use perdure_provider::{
    AttemptFacts, CHECK_EVENTS_MAX, CHECK_FINDINGS_MAX, CHECK_INSTANCES_MAX, CheckRequest, Checked, EventFacts,
    Examination, Finding, InstanceFacts, InstanceKey, ProviderErrorKind as Kind, Rule,
};
use rusqlite::{Connection, Row, params};

use crate::error::Failure;

/// Checks all rows of a step at one moment, in a transaction of the caller's if there is one.
pub(crate) fn step(connection: &Connection, request: CheckRequest) -> Result<Checked, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let mut checked = Checked::default();
    match walk(connection, request, &mut checked) {
        // Unreadable data is a finding of the check, and ends the walk.
        Err(failure) if failure.kind() == Kind::Corrupt => {
            checked.next = None;
            checked.findings.push(Finding::of_store(Rule::File, failure));
        }
        result => result?,
    }
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(checked)
}

fn walk(connection: &Connection, request: CheckRequest, checked: &mut Checked) -> Result<(), Failure> {
    if request.after.is_none() {
        file(connection, checked)?;
        dangling_references(connection, checked)?;
    }
    let after = request.after.map_or(i64::MIN, |key| key.0);
    let limit = request.limit.clamp(1, CHECK_INSTANCES_MAX);
    let mut instances = connection.prepare_cached(
        "SELECT i.key, i.id, i.execution, i.status, i.owner, w.id IS NOT NULL, i.next_event_id,
         i.wake_at IS NOT NULL, i.unread,
         i.report IS NOT NULL, i.completed_at IS NOT NULL
         FROM instances i LEFT JOIN workers w ON w.id = i.owner WHERE i.key > ?1 ORDER BY i.key LIMIT ?2",
    )?;
    // One more row shows whether there are more instances.
    let mut rows = instances.query(params![after, limit as i64 + 1])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        if checked.instances == limit as u64 || checked.events >= CHECK_EVENTS_MAX {
            checked.next = last.map(InstanceKey);
            break;
        }
        let key = row.get(0)?;
        checked
            .findings
            .extend(instance(connection, key, row, &mut checked.events)?);
        checked.instances += 1;
        last = Some(key);
    }
    let until = checked.next.map_or(i64::MAX, |key| key.0);
    orphans(connection, after, until, checked)
}

fn instance(connection: &Connection, key: i64, row: &Row<'_>, events: &mut u64) -> Result<Vec<Finding>, Failure> {
    let mut examination = Examination::new(InstanceFacts {
        id: text(row, 1)?.unwrap_or_default(),
        execution: row.get(2)?,
        status: text(row, 3)?.unwrap_or_default(),
        owner: text(row, 4)?,
        owner_is_registered: row.get(5)?,
        next_event_id: row.get(6)?,
        is_due: row.get(7)?,
        unread: row.get(8)?,
        has_report: row.get(9)?,
        has_end: row.get(10)?,
    });
    *events += examine_events(connection, key, &mut examination)?;
    examine_attempts(connection, key, &mut examination)?;
    examine_waits(connection, key, &mut examination)?;
    Ok(examination.findings())
}

/// Examines the history of an instance. Returns the number of its events.
fn examine_events(connection: &Connection, key: i64, examination: &mut Examination) -> Result<u64, Failure> {
    let mut events = 0;
    each(
        connection,
        "SELECT execution, event_id, kind, ref_id FROM history WHERE instance_key = ?1 ORDER BY execution, event_id",
        key,
        |row| {
            events += 1;
            examination.event(EventFacts {
                execution: row.get(0)?,
                event_id: row.get(1)?,
                kind: &text(row, 2)?.unwrap_or_default(),
                ref_id: row.get(3)?,
            });
            Ok(())
        },
    )?;
    Ok(events)
}

/// Examines the place in a queue, the messages and the children that an instance has.
fn examine_waits(connection: &Connection, key: i64, examination: &mut Examination) -> Result<(), Failure> {
    each(
        connection,
        "SELECT place FROM queue_places WHERE key = ?1",
        key,
        |row| {
            examination.queued(row.get(0)?);
            Ok(())
        },
    )?;
    each(
        connection,
        "SELECT execution, ref_id FROM messages WHERE instance_key = ?1",
        key,
        |row| {
            examination.message(row.get(0)?, row.get(1)?);
            Ok(())
        },
    )?;
    each(
        connection,
        "SELECT parent_execution, parent_event FROM instances INDEXED BY instances_parent
         WHERE parent_key = ?1 AND completed_at IS NULL AND parent_execution IS NOT NULL AND parent_event IS NOT NULL",
        key,
        |row| {
            examination.child(row.get(0)?, row.get(1)?);
            Ok(())
        },
    )
}

/// Examines the tasks and the heartbeats of an instance.
fn examine_attempts(connection: &Connection, key: i64, examination: &mut Examination) -> Result<(), Failure> {
    each(
        connection,
        "SELECT t.execution, t.event_id, t.owner, w.id IS NOT NULL FROM tasks t LEFT JOIN workers w ON w.id = t.owner
         WHERE t.instance_key = ?1",
        key,
        |row| {
            let (owner, is_registered) = (text(row, 2)?, row.get(3)?);
            examination.task(AttemptFacts {
                execution: row.get(0)?,
                scheduled: row.get(1)?,
                owner: owner.as_deref().map(|owner| (owner, is_registered)),
            });
            Ok(())
        },
    )?;
    each(
        connection,
        "SELECT execution, event_id FROM heartbeats WHERE instance_key = ?1",
        key,
        |row| {
            examination.heartbeat(AttemptFacts {
                execution: row.get(0)?,
                scheduled: row.get(1)?,
                owner: None,
            });
            Ok(())
        },
    )
}

fn each(
    connection: &Connection,
    sql: &str,
    key: i64,
    mut tell: impl FnMut(&Row<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![key])?;
    while let Some(row) = rows.next()? {
        tell(row)?;
    }
    Ok(())
}

/// Returns a text, with the replacement character for bytes that are not UTF-8.
fn text(row: &Row<'_>, column: usize) -> Result<Option<String>, Failure> {
    let found = row.get_ref(column)?.as_bytes_or_null().map_err(rusqlite::Error::from)?;
    Ok(found.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// Checks pages, indexes and constraints by SQLite's own check.
fn file(connection: &Connection, checked: &mut Checked) -> Result<(), Failure> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({CHECK_FINDINGS_MAX})"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let found = text(row, 0)?.unwrap_or_default();
        if found != "ok" {
            checked.findings.push(Finding::of_store(Rule::File, found));
        }
    }
    Ok(())
}

/// Finds rows that refer to a worker that does not exist, or that contradict an instance that does.
fn dangling_references(connection: &Connection, checked: &mut Checked) -> Result<(), Failure> {
    let mut find = |sql: &str, detail: fn(String) -> String| -> Result<(), Failure> {
        let mut statement = connection.prepare(&format!("{sql} LIMIT {CHECK_FINDINGS_MAX}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let found = Finding::of_store(Rule::Orphan, detail(text(row, 0)?.unwrap_or_default()));
            checked.findings.push(found);
        }
        Ok(())
    };
    find(
        "SELECT DISTINCT worker FROM revocations WHERE worker NOT IN (SELECT id FROM workers)",
        |worker| format!("there is a list of losses for worker {worker}, which is not registered"),
    )?;
    find(
        "SELECT session FROM sessions WHERE worker NOT IN (SELECT id FROM workers)",
        |name| format!("session '{name}' of activities is bound to a worker that is not registered"),
    )?;
    find(
        "SELECT DISTINCT t.session FROM tasks t LEFT JOIN sessions s ON s.queue = t.queue AND s.session = t.session
         WHERE t.route NOT IN ('', '?', '=') AND t.route IS NOT s.worker",
        |name| format!("a task of session '{name}' is routed to a worker that does not hold the session"),
    )?;
    find(
        "SELECT DISTINCT queue FROM queue_places WHERE queue NOT IN (SELECT name FROM queues)",
        |name| format!("instances or attempts are in queue '{name}', which does not exist"),
    )?;
    find(
        "SELECT DISTINCT queue FROM tasks
         WHERE owner IS NULL AND route = '=' AND place_key NOT IN (SELECT key FROM queue_places)",
        |name| format!("an attempt waits for a slot of queue '{name}', and has no place in it"),
    )?;
    find(
        "SELECT i.id FROM deleted_instances d JOIN instances i ON i.key = d.key",
        |id| format!("instance '{id}' exists, but its history is marked for deletion"),
    )
}

/// Builds the query for the keys between two instances under which a table has rows and no instance. They are found one
/// after the other through the table's index.
macro_rules! orphans {
    ($table:literal $(, $known:literal)?) => {
        ($table, concat!(
            "WITH RECURSIVE found (key) AS (
               SELECT (SELECT min(instance_key) FROM ", $table, " WHERE instance_key > ?1)
               UNION ALL SELECT (SELECT min(instance_key) FROM ", $table, " WHERE instance_key > found.key)
               FROM found WHERE found.key <= ?2
             ) SELECT key FROM found WHERE key <= ?2
             AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.key = found.key)",
            $(" AND NOT EXISTS (SELECT 1 FROM ", $known, " d WHERE d.key = found.key)",)?
            " LIMIT ?3"))
    };
}

/// The places of instances and attempts that are not there.
const PLACES: &str = "SELECT key FROM queue_places WHERE key > ?1 AND key <= ?2
  AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.key = queue_places.key)
  AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.place_key = queue_places.key) LIMIT ?3";

const ORPHANS: [(&str, &str); 13] = [
    orphans!("history", "deleted_instances"),
    orphans!("messages"),
    orphans!("tasks"),
    orphans!("heartbeats"),
    orphans!("takeovers"),
    orphans!("asks"),
    orphans!("state"),
    orphans!("streams"),
    orphans!("stream_chunks", "deleted_instances"),
    orphans!("stream_writers", "deleted_instances"),
    orphans!("logs"),
    ("queue_places", PLACES),
    orphans!("start_keys"),
];

fn orphans(connection: &Connection, after: i64, until: i64, checked: &mut Checked) -> Result<(), Failure> {
    for (table, sql) in ORPHANS {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![after, until, CHECK_FINDINGS_MAX as i64])?;
        while let Some(row) = rows.next()? {
            checked.findings.push(Finding::orphan(table, row.get(0)?));
        }
    }
    Ok(())
}
