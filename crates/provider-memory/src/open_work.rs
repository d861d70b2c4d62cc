//! The open work of one instance.

use perdure_provider::{LastHeartbeat, OPEN_WORK_ROWS_MAX, OpenTask, OpenWork, QueuedPlace};

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
        queued: tables.queue_places.get(&row.key.into()).map(|queued| QueuedPlace {
            queue: queued.entry.queue.clone(),
            key: queued.entry.key.clone(),
            place: queued.place,
            queued_at_ms: queued.queued_at_ms,
            paused_at_ms: tables.paused_queues.get(&queued.entry.queue).copied(),
        }),
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
            })
            .collect(),
    })
}
