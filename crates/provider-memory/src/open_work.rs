//! The open work of one instance.

use perdure_provider::{EntryKey, LastHeartbeat, OPEN_WORK_ROWS_MAX, OpenTask, OpenWork, QueuedPlace};

use crate::status;
use crate::tables::{Tables, of_execution};

/// Returns the open work of an instance. `None`: there is no instance of that id.
pub(crate) fn of(tables: &Tables, id: &str) -> Option<OpenWork> {
    let row = tables.find(id)?;
    let own = of_execution(row.key, row.execution);
    let heartbeats = tables.heartbeats.range(own.clone()).take(OPEN_WORK_ROWS_MAX);
    let tasks = tables.tasks.range(own).take(OPEN_WORK_ROWS_MAX);
    Some(OpenWork {
        status: status::of(tables, row),
        open_work: row.open_work.clone(),
        next_event_id: row.next_event_id,
        unread: row.unread,
        owner: row.owner.clone(),
        due_at_ms: row.wake_at_ms,
        queued: queued(tables, row.key.into()),
        heartbeats: heartbeats
            .map(|((_, _, scheduled), kept)| LastHeartbeat {
                scheduled: *scheduled,
                details: Some(kept.details.clone()),
                time_ms: kept.time_ms,
            })
            .collect(),
        tasks: tasks
            .map(|((_, _, scheduled), row)| OpenTask {
                scheduled: *scheduled,
                attempt: row.task.attempt,
                queue: row.queue.clone(),
                session: row.session.clone(),
                worker: row.worker.clone(),
                queued: row.place_key.and_then(|key| queued(tables, key)),
            })
            .collect(),
    })
}

/// Returns the place of an instance or an attempt in its queue.
fn queued(tables: &Tables, key: EntryKey) -> Option<QueuedPlace> {
    let row = tables.queue_places.get(&key)?;
    Some(QueuedPlace {
        queue: row.entry.queue.clone(),
        key: row.entry.key.clone(),
        place: row.place,
        queued_at_ms: row.queued_at_ms,
        paused_at_ms: tables.paused_queues.get(&row.entry.queue).copied(),
    })
}
