//! The open work of one instance.

use perdure_engine::EventId;
use perdure_provider::{LastHeartbeat, OPEN_WORK_ROWS_MAX, OpenTask, OpenWork, QueuePlace, QueuedPlace};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{index, number, optional_text, text, worker};
use crate::statement::named;
use crate::status;

/// The instance, its heartbeats, its tasks, its place in its queue, and the places of its tasks, all of one moment. The
/// columns of the other sorts of rows are null.
const OWN: &str = "WITH i AS (
  SELECT key, execution, open_work, unread, owner, next_event_id, wake_at FROM {schema}.instances WHERE key = $key
)
SELECT 0::bigint AS sort, unread AS event_id, open_work AS text, owner, next_event_id AS number, NULL AS session,
  wake_at AS time, NULL::bigint AS paused_at FROM i
UNION ALL
(SELECT 1::bigint, h.event_id, h.details, NULL, NULL, NULL, h.time, NULL FROM i
  JOIN {schema}.heartbeats h ON h.instance_key = i.key
  AND h.execution = i.execution ORDER BY h.event_id LIMIT $limit::bigint)
UNION ALL
SELECT 3::bigint, NULL, x.queue, x.queue_key, x.place::bigint, NULL, x.queued_at, q.paused_at FROM i
  JOIN {schema}.queue_places x ON x.key = i.key JOIN {schema}.queues q ON q.name = x.queue
UNION ALL
(SELECT 2::bigint, t.event_id, t.queue, t.owner, t.attempt::bigint, t.session, NULL, NULL FROM i
  JOIN {schema}.tasks t ON t.instance_key = i.key
  AND t.execution = i.execution ORDER BY t.event_id LIMIT $limit::bigint)
UNION ALL
(SELECT 4::bigint, t.event_id, x.queue, x.queue_key, x.place::bigint, NULL, x.queued_at, q.paused_at FROM i
  JOIN {schema}.tasks t ON t.instance_key = i.key AND t.execution = i.execution
  JOIN {schema}.queue_places x ON x.key = t.place_key JOIN {schema}.queues q ON q.name = x.queue
  ORDER BY t.event_id LIMIT $limit::bigint)
ORDER BY 1, 2";

/// Returns the open work of an instance. `None`: there is no instance of that id. The reads are to see one snapshot.
pub(crate) async fn of(connection: &Connection, id: String) -> Result<Option<OpenWork>, Failure> {
    let Some(Some(status)) = status::statuses(connection, &[id]).await?.pop() else {
        return Ok(None);
    };
    let limit = P::Int(index(OPEN_WORK_ROWS_MAX));
    let rows = named!(connection.query, OWN, { key: P::Int(status.key.0), limit: limit }).await?;
    let mut work = OpenWork {
        status,
        open_work: None,
        next_event_id: EventId::FIRST,
        unread: 0,
        owner: None,
        due_at_ms: None,
        queued: None,
        heartbeats: Vec::new(),
        tasks: Vec::new(),
    };
    for row in &rows {
        match row.try_get::<_, i64>(0)? {
            0 => {
                (work.unread, work.open_work, work.owner) = (number(row, 1)?, optional_text(row, 2)?, worker(row, 3)?);
                work.next_event_id = EventId(number(row, 4)?);
                work.due_at_ms = row.try_get(6)?;
            }
            1 => work.heartbeats.push(LastHeartbeat {
                scheduled: EventId(number(row, 1)?),
                details: optional_text(row, 2)?,
                time_ms: row.try_get(6)?,
            }),
            3 => work.queued = Some(queued_place(row)?),
            4 => {
                let scheduled = EventId(number(row, 1)?);
                if let Some(task) = work.tasks.iter_mut().find(|task| task.scheduled == scheduled) {
                    task.queued = Some(queued_place(row)?);
                }
            }
            _ => work.tasks.push(OpenTask {
                scheduled: EventId(number(row, 1)?),
                attempt: u32::try_from(number(row, 4)?).unwrap_or(u32::MAX),
                queue: text(row, 2)?,
                session: optional_text(row, 5)?,
                worker: worker(row, 3)?,
                queued: None,
            }),
        }
    }
    Ok(Some(work))
}

fn queued_place(row: &Row) -> Result<QueuedPlace, Failure> {
    Ok(QueuedPlace {
        queue: text(row, 2)?,
        key: text(row, 3)?,
        place: QueuePlace::of(row.try_get(4)?),
        queued_at_ms: row.try_get(6)?,
        paused_at_ms: row.try_get(7)?,
    })
}
