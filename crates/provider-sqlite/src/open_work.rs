//! The open work of one instance.

use perdure_engine::EventId;
use perdure_provider::{LastHeartbeat, OPEN_WORK_ROWS_MAX, OpenTask, OpenWork, QueuePlace, QueuedPlace, WorkerId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Failure;
use crate::rows::{integer, number};
use crate::status;

const OWN: &str = "SELECT open_work, unread, owner, next_event_id, wake_at FROM instances WHERE key = ?1";

const QUEUED: &str = "SELECT x.queue, x.queue_key, x.place, x.queued_at, q.paused_at
    FROM queue_places x LEFT JOIN queues q ON q.name = x.queue WHERE x.key = ?1";

const HEARTBEATS: &str = "SELECT event_id, details, time FROM heartbeats
    WHERE instance_key = ?1 AND execution = ?2 ORDER BY event_id LIMIT ?3";

const TASKS: &str = "SELECT x.queue, x.queue_key, x.place, x.queued_at, q.paused_at,
      t.event_id, t.attempt, t.queue, t.owner, t.session
    FROM tasks t LEFT JOIN queue_places x ON x.key = t.place_key LEFT JOIN queues q ON q.name = x.queue
    WHERE t.instance_key = ?1 AND t.execution = ?2 ORDER BY t.event_id LIMIT ?3";

/// Returns the open work of an instance, all of one moment. `None`: there is no instance of that id.
pub(crate) fn of(connection: &Connection, id: String) -> Result<Option<OpenWork>, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let Some(Some(status)) = status::statuses(connection, &[id])?.pop() else {
        return Ok(None);
    };
    let own = connection.prepare_cached(OWN)?.query_row(params![status.key.0], |row| {
        let owner: Option<String> = row.get(2)?;
        Ok((
            row.get(0)?,
            number(row, 1)?,
            owner.map(|id| WorkerId(id.into())),
            EventId(number(row, 3)?),
            row.get(4)?,
        ))
    });
    let Some((open_work, unread, owner, next_event_id, due_at_ms)) = own.optional()? else {
        return Ok(None);
    };
    let queued = connection
        .prepare_cached(QUEUED)?
        .query_row(params![status.key.0], queued_place);
    let queued = queued.optional()?.flatten();
    let execution = params![status.key.0, integer(status.execution.0), OPEN_WORK_ROWS_MAX as i64];
    let heartbeats = connection
        .prepare_cached(HEARTBEATS)?
        .query_map(execution, |row| {
            Ok(LastHeartbeat {
                scheduled: EventId(number(row, 0)?),
                details: row.get(1)?,
                time_ms: row.get(2)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let tasks = connection
        .prepare_cached(TASKS)?
        .query_map(execution, |row| {
            let worker: Option<String> = row.get(8)?;
            Ok(OpenTask {
                scheduled: EventId(number(row, 5)?),
                attempt: row.get(6)?,
                queue: row.get(7)?,
                session: row.get(9)?,
                worker: worker.map(|id| WorkerId(id.into())),
                queued: queued_place(row)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(Some(OpenWork {
        status,
        open_work,
        next_event_id,
        unread,
        owner,
        due_at_ms,
        queued,
        heartbeats,
        tasks,
    }))
}

/// Reads the place in a queue in the first five columns.
fn queued_place(row: &Row<'_>) -> rusqlite::Result<Option<QueuedPlace>> {
    let Some(queue) = row.get(0)? else { return Ok(None) };
    Ok(Some(QueuedPlace {
        queue,
        key: row.get(1)?,
        place: QueuePlace::of(row.get(2)?),
        queued_at_ms: row.get(3)?,
        paused_at_ms: row.get(4)?,
    }))
}
