//! Work that has been due for longer than a time.
//!
//! A look skips from one sort of work to the next along an index, and reads one row of each. It counts only the work
//! that it reports. So it takes little time in a store of many instances that sleep, or that other workers serve.

use perdure_provider::{
    OVERDUE_COUNT_MAX, OVERDUE_WALK_MAX, OverdueAttempts, OverdueInstances, OverdueRequest, OverdueWork,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::error::Failure;
use crate::rows::number;

/// The longest due instance of the sort after a name, a version and a priority.
const NEXT_INSTANCE: &str = "SELECT name, version, priority, wake_at, id FROM instances INDEXED BY instances_due
    WHERE wake_at IS NOT NULL AND (name, version, priority) > (?1, ?2, ?3)
    ORDER BY name, version, priority, wake_at LIMIT 1";

const INSTANCES: &str = "SELECT count(*) FROM (SELECT 1 FROM instances INDEXED BY instances_due
    WHERE wake_at IS NOT NULL AND name = ?1 AND version = ?2 AND priority = ?3 AND wake_at < ?4 LIMIT ?5)";

/// The longest due attempt, among those of the highest priority, of the sort after a route, a queue and a name.
const NEXT_ATTEMPT: &str = "SELECT t.queue, t.name, t.priority, t.due_at,
      coalesce((SELECT id FROM instances WHERE key = t.instance_key), ''), t.route
    FROM tasks t INDEXED BY tasks_due WHERE t.owner IS NULL AND (t.route, t.queue, t.name) > (?1, ?2, ?3)
    ORDER BY t.route, t.queue, t.name, t.priority DESC, t.due_at LIMIT 1";

const ATTEMPTS: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_due
    WHERE owner IS NULL AND route = ?6 AND queue = ?1 AND name = ?2 AND priority = ?3 AND due_at < ?4 LIMIT ?5)";

/// The first work of a sort: two names, a priority, the time at which it became due, the id of its instance.
type First = (String, String, i64, i64, String);

pub(crate) fn of_store(connection: &Connection, now_ms: i64, request: &OverdueRequest) -> Result<OverdueWork, Failure> {
    let mut work = OverdueWork::default();
    let before_ms = now_ms.saturating_sub(request.for_ms);
    let mut last = (String::new(), String::new(), i64::MIN);
    for _ in 0..OVERDUE_WALK_MAX {
        let Some((name, version, priority, since_ms, id)) =
            first(connection, NEXT_INSTANCE, params![last.0, last.1, last.2])?
        else {
            break;
        };
        last = (name.clone(), version.clone(), priority);
        let sort = (name, version);
        if since_ms < before_ms && !request.served_orchestrations.contains(&sort) {
            let instances = count(connection, INSTANCES, &last, before_ms)?;
            let (name, version) = sort;
            work.add(OverdueInstances {
                name,
                version,
                instances,
                oldest_ms: now_ms.abs_diff(since_ms),
                id,
            });
        }
    }
    overdue_attempts(connection, now_ms, request, &mut work)?;
    Ok(work.ordered())
}

fn overdue_attempts(
    connection: &Connection,
    now_ms: i64,
    request: &OverdueRequest,
    work: &mut OverdueWork,
) -> Result<(), Failure> {
    let before_ms = now_ms.saturating_sub(request.for_ms);
    let mut last = (String::new(), String::new(), String::new());
    for _ in 0..OVERDUE_WALK_MAX {
        let found = connection
            .prepare_cached(NEXT_ATTEMPT)?
            .query_row(params![last.0, last.1, last.2], |row| {
                Ok((first_of(row)?, row.get::<_, String>(5)?))
            });
        let Some(((queue, name, priority, since_ms, id), route)) = found.optional()? else {
            break;
        };
        let sort = (queue, name);
        if since_ms < before_ms && !request.served_activities.contains(&sort) {
            let of_sort = params![sort.0, sort.1, priority, before_ms, OVERDUE_COUNT_MAX, route];
            let attempts = connection
                .prepare_cached(ATTEMPTS)?
                .query_row(of_sort, |row| number(row, 0))?;
            work.add_attempts(OverdueAttempts {
                queue: sort.0.clone(),
                name: sort.1.clone(),
                attempts,
                oldest_ms: now_ms.abs_diff(since_ms),
                id,
            });
        }
        last = (route, sort.0, sort.1);
    }
    Ok(())
}

fn first_of(row: &Row<'_>) -> rusqlite::Result<First> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
}

fn first(connection: &Connection, sql: &str, after: impl Params) -> Result<Option<First>, Failure> {
    let row = connection.prepare_cached(sql)?.query_row(after, first_of);
    Ok(row.optional()?)
}

fn count(
    connection: &Connection,
    sql: &str,
    (first, second, priority): &(String, String, i64),
    before_ms: i64,
) -> Result<u64, Failure> {
    let sort = params![first, second, priority, before_ms, OVERDUE_COUNT_MAX];
    Ok(connection.prepare_cached(sql)?.query_row(sort, |row| number(row, 0))?)
}
