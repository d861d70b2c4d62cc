//! Deletion of ended instances (P13), one by its id or all of a filter, and of their histories afterwards. Histories of
//! former executions are deleted, too. A history is deleted from its last event on, so that a concurrent reader finds
//! no gap.

use perdure_provider::{InstanceKey, Outcome, Place, PruneExecutions, PruneRequest, Pruned, PrunedExecutions};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;
use crate::listing::of_ids;
use crate::queues;
use crate::rows::{candidate, candidate_columns, integer, number, status};
use crate::session::Session;

pub(crate) fn delete(session: &Session<'_>, id: &str) -> Result<Outcome, Failure> {
    let found = session.query_optional("SELECT key, status FROM instances WHERE id = ?1", params![id], |row| {
        Ok((InstanceKey(row.get(0)?), status(row, 1)?))
    })?;
    let Some((key, status)) = found else {
        return Ok(Outcome::NotFound);
    };
    if !status.is_terminal() {
        return Ok(Outcome::NotEnded { status });
    }
    remove(session, key)?;
    Ok(Outcome::Deleted)
}

/// Removes all rows of an instance but its history and the chunks and writers of its streams, which may be many and are
/// left to be swept.
fn remove(session: &Session<'_>, key: InstanceKey) -> Result<(), Failure> {
    session.execute("INSERT INTO deleted_instances (key) VALUES (?1)", params![key.0])?;
    session.execute("DELETE FROM messages WHERE instance_key = ?1", params![key.0])?;
    session.execute("DELETE FROM heartbeats WHERE instance_key = ?1", params![key.0])?;
    session.execute("DELETE FROM tasks WHERE instance_key = ?1", params![key.0])?;
    remove_records(session, key)?;
    let removed = session.execute("DELETE FROM instances WHERE key = ?1", params![key.0])?;
    assert_eq!(removed, 1, "it was found in this transaction");
    Ok(())
}

/// Removes the rows that stay after the end of an instance, but its history and the chunks and writers of its streams.
pub(crate) fn remove_records(session: &Session<'_>, key: InstanceKey) -> Result<(), Failure> {
    queues::leave(session, key)?;
    session.execute("DELETE FROM start_keys WHERE instance_key = ?1", params![key.0])?;
    session.execute("DELETE FROM asks WHERE instance_key = ?1", params![key.0])?;
    session.execute("DELETE FROM state WHERE instance_key = ?1", params![key.0])?;
    session.execute("DELETE FROM streams WHERE instance_key = ?1", params![key.0])?;
    session.execute("DELETE FROM logs WHERE instance_key = ?1", params![key.0])?;
    session.execute("DELETE FROM takeovers WHERE instance_key = ?1", params![key.0])?;
    Ok(())
}

macro_rules! walk_ended {
    ($index:literal, $which:expr) => {
        concat!(
            "SELECT key, ",
            candidate_columns!(),
            " FROM instances INDEXED BY ",
            $index,
            " WHERE ",
            $which,
            "completed_at IS NOT NULL AND (completed_at, key) > (?1, ?2) AND completed_at < ?3
             ORDER BY completed_at, key LIMIT ?4"
        )
    };
}

macro_rules! walk_continued {
    ($index:literal, $which:expr) => {
        concat!(
            "SELECT key, execution, ",
            candidate_columns!(),
            " FROM instances INDEXED BY ",
            $index,
            " WHERE ",
            $which,
            "execution > 1 AND key >= ?1 ORDER BY key LIMIT ?2"
        )
    };
}

/// Reads the index of ended instances, or the instances with the ids of the filter, from the longest ended on, and no
/// further than the walk may go.
pub(crate) fn prune(session: &mut Session<'_>, request: &PruneRequest) -> Result<Pruned, Failure> {
    let PruneRequest {
        filter,
        after,
        limit,
        walk_max,
    } = request;
    let first = after.unwrap_or(Place {
        at_ms: i64::MIN,
        key: InstanceKey(i64::MIN),
    });
    let (sql, ids) = if filter.ids.is_empty() {
        (walk_ended!("instances_ended", "?5 IS NULL AND "), None)
    } else {
        (
            walk_ended!("sqlite_autoindex_instances_1", of_ids!("?5", " AND ")),
            Some(filter.ids_list()),
        )
    };
    let walked: Vec<(Place, bool)> = session.query_all(
        sql,
        params![
            first.at_ms,
            first.key.0,
            filter.completed_before_ms.unwrap_or(i64::MAX),
            integer(*walk_max as u64).saturating_add(1),
            ids
        ],
        |row| {
            let candidate = candidate(row, 1)?;
            let place = Place {
                at_ms: candidate.completed_at_ms.unwrap_or_default(),
                key: InstanceKey(row.get(0)?),
            };
            Ok((place, filter.matches(&candidate)))
        },
    )?;
    let mut pruned = Pruned::default();
    let mut last = first;
    for (n, (place, matches)) in walked.into_iter().enumerate() {
        if n >= *walk_max || pruned.deleted >= *limit {
            pruned.next = Some(last);
            break;
        }
        if matches {
            remove(session, place.key)?;
            pruned.deleted += 1;
        }
        last = place;
    }
    Ok(pruned)
}

/// Reads the index of continued instances, or the instances with the ids of the filter, in order of the keys, and no
/// further than the walk may go.
pub(crate) fn prune_executions(
    session: &mut Session<'_>,
    request: &PruneExecutions,
) -> Result<PrunedExecutions, Failure> {
    let PruneExecutions {
        filter,
        keep,
        from,
        events_max,
        walk_max,
    } = request;
    let (sql, ids) = if filter.ids.is_empty() {
        (walk_continued!("instances_continued", "?3 IS NULL AND "), None)
    } else {
        (
            walk_continued!("sqlite_autoindex_instances_1", of_ids!("?3", " AND ")),
            Some(filter.ids_list()),
        )
    };
    let walked: Vec<(InstanceKey, u64, bool)> = session.query_all(
        sql,
        params![
            from.map_or(i64::MIN, |from| from.0),
            integer(*walk_max as u64).saturating_add(1),
            ids
        ],
        |row| {
            let matches = filter.matches(&candidate(row, 2)?);
            Ok((InstanceKey(row.get(0)?), number(row, 1)?, matches))
        },
    )?;
    let mut pruned = PrunedExecutions::default();
    let mut left = *events_max;
    for (n, (key, execution, matches)) in walked.into_iter().enumerate() {
        if n >= *walk_max || left == 0 {
            pruned.next = Some(key);
            break;
        }
        if !matches {
            continue;
        }
        // The first execution that stays.
        let first = integer((execution + 1).saturating_sub(*keep).min(execution));
        while let Some(oldest) = oldest_execution(session, key)?.filter(|oldest| *oldest < first) {
            if left == 0 {
                pruned.next = Some(key);
                return Ok(pruned);
            }
            left -= session.execute(
                "DELETE FROM history WHERE rowid IN (
                 SELECT rowid FROM history WHERE instance_key = ?1 AND execution = ?2
                   ORDER BY event_id DESC LIMIT ?3)",
                params![key.0, oldest, integer(left as u64)],
            )?;
            pruned.deleted += usize::from(oldest_execution(session, key)? != Some(oldest));
        }
    }
    Ok(pruned)
}

fn oldest_execution(session: &Session<'_>, key: InstanceKey) -> Result<Option<i64>, Failure> {
    session.query_optional(
        "SELECT execution FROM history WHERE instance_key = ?1 ORDER BY execution LIMIT 1",
        params![key.0],
        |row| row.get(0),
    )
}

/// Returns true if any history or chunk is left to be swept.
pub(crate) fn any_left(connection: &Connection) -> Result<bool, Failure> {
    Ok(connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM deleted_instances)")?
        .query_row([], |row| row.get(0))?)
}

/// Deletes up to `limit` events, and chunks and writers of streams, that deleted instances have left. Returns true if
/// more may be left.
pub(crate) fn sweep(session: &mut Session<'_>, limit: usize) -> Result<bool, Failure> {
    let mut left = limit;
    while let Some(key) = first_left(session)? {
        let gone = session.execute(
            "DELETE FROM history WHERE rowid IN (SELECT rowid FROM history WHERE instance_key = ?1
               ORDER BY execution DESC, event_id DESC LIMIT ?2)",
            params![key, integer(left as u64)],
        )?;
        left -= gone;
        left -= session.execute(
            "DELETE FROM stream_chunks WHERE rowid IN (
             SELECT rowid FROM stream_chunks WHERE instance_key = ?1 LIMIT ?2)",
            params![key, integer(left as u64)],
        )?;
        left -= session.execute(
            "DELETE FROM stream_writers WHERE (instance_key, execution, event_id, name) IN (
             SELECT instance_key, execution, event_id, name FROM stream_writers WHERE instance_key = ?1 LIMIT ?2)",
            params![key, integer(left as u64)],
        )?;
        if left == 0 {
            return Ok(true);
        }
        session.execute("DELETE FROM deleted_instances WHERE key = ?1", params![key])?;
    }
    Ok(false)
}

fn first_left(session: &Session<'_>) -> Result<Option<i64>, Failure> {
    Ok(session
        .connection()
        .prepare_cached("SELECT key FROM deleted_instances ORDER BY key LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?)
}
