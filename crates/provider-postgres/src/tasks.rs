//! Attempts of activities that wait in queues. Workers take them, and give them back.

mod late;
pub(crate) mod parts;

use std::borrow::Cow;

use perdure_provider::{
    ATTEMPT_VERSION, AcquiredTasks, Outcome, Queues, ROUTE_ANY, ROUTE_OPEN, ReleaseTask, TaskName, TaskRequest,
    WorkerId,
};
use tokio_postgres::Row;

use crate::acquire::parts::work_of_queues;
use crate::activity_sessions::{self, Routed};
use crate::admission::{self, Outlook};
use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, text};
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

use parts::{acquired, any_sorts, give_back, named_sorts, task_name, texts};

/// The tasks that wait and are not another worker's.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    /// True if there are tasks that need no slot.
    any: bool,
    /// True if there are tasks whose routes are open.
    open: bool,
    /// True if tasks are late.
    late: bool,
    /// When the first task of all that wait is late.
    next_late_ms: Option<i64>,
    /// When the next attempt that the worker could run comes into the line of its queue whose time has not come.
    delayed_until_ms: Option<i64>,
    /// True if a pass over the queues may change anything: attempts that the worker could run wait for a slot, or their
    /// time has come.
    asks_queues: bool,
}

impl Waiting {
    /// Returns the answer without any task. `None`: the worker may find some.
    pub(crate) fn nothing(&self, request: &TaskRequest) -> Option<AcquiredTasks> {
        let has_room = request.limit.rows > 0;
        let some = self.late || (has_room && (self.any || self.asks_queues));
        let delayed_until_ms = self.delayed_until_ms.filter(|_| has_room);
        (!some).then(|| AcquiredTasks {
            next_due_ms: delayed_until_ms.into_iter().chain(self.next_late_ms).min(),
            ..AcquiredTasks::default()
        })
    }
}

/// Looks for tasks that wait. The queues that are not set have no line.
macro_rules! waiting {
    ($of_queues:literal, $which:literal) => {
        concat!(
            "WITH of_queues AS MATERIALIZED (",
            $of_queues,
            ")
SELECT EXISTS (SELECT FROM {schema}.tasks WHERE owner IS NULL AND route = '')
    OR EXISTS (SELECT FROM {schema}.tasks WHERE owner IS NULL AND route = $owner),
  EXISTS (SELECT FROM {schema}.tasks WHERE owner IS NULL AND route = '?'),
  ",
            work_of_queues!($which),
            ",
  (SELECT start_by FROM {schema}.tasks WHERE owner IS NULL AND start_by IS NOT NULL ORDER BY start_by LIMIT 1),
  coalesce($now, {now})"
        )
    };
}

const WAITING: &str = waiting!(
    "SELECT n.name, $version AS version FROM unnest($names::text[]) AS n (name)
  WHERE EXISTS (SELECT FROM {schema}.queues) AND EXISTS (SELECT FROM {schema}.workers WHERE id = $owner)",
    ""
);

const WAITING_IN_QUEUES: &str = waiting!(
    "SELECT n.name, $version AS version, q.queue
  FROM unnest($queues::text[]) AS q (queue) CROSS JOIN unnest($names::text[]) AS n (name)
  WHERE (SELECT true FROM {schema}.queues s WHERE s.name = q.queue LIMIT 1)
    AND EXISTS (SELECT FROM {schema}.workers WHERE id = $owner)",
    " AND x.queue = o.queue"
);

/// Looks for tasks that wait and are not another worker's.
pub(crate) async fn waiting(connection: &Connection, request: &TaskRequest) -> Result<Waiting, Failure> {
    let (names, version) = (texts(&request.names), encode(ATTEMPT_VERSION));
    let (names, version) = (P::Texts(&names), P::Text(&version));
    let owner = P::Text(&request.worker.0);
    let now = P::MaybeInt(connection.from.clock_ms());
    let row = match &request.queues {
        Queues::Named(queues) => {
            named!(
                connection.query_one,
                WAITING_IN_QUEUES,
                { now: now, owner: owner, names: names, version: version, queues: P::Texts(&texts(queues)) }
            )
            .await?
        }
        Queues::Any => {
            named!(
                connection.query_one,
                WAITING,
                { now: now, owner: owner, names: names, version: version }
            )
            .await?
        }
    };
    let open = row.try_get(1)?;
    let (next_late_ms, now_ms): (Option<i64>, i64) = (row.try_get(4)?, row.try_get(5)?);
    Ok(Waiting {
        any: open || row.try_get(0)?,
        open,
        late: next_late_ms.is_some_and(|at_ms| at_ms <= now_ms),
        next_late_ms,
        delayed_until_ms: row.try_get(2)?,
        asks_queues: row.try_get(3)?,
    })
}

/// Takes tasks for a worker, which is locked against its removal. A worker that is no longer registered gets none.
macro_rules! take {
    ($sorts:expr) => {
        concat!(
            "WITH RECURSIVE ",
            $sorts,
            ", w AS MATERIALIZED (
  SELECT id FROM {schema}.workers WHERE id = $owner FOR KEY SHARE
), due AS MATERIALIZED (
  SELECT d.* FROM w, sorts s CROSS JOIN LATERAL (
    SELECT t.instance_key, t.execution, t.event_id, t.priority, t.due_at FROM {schema}.tasks t
    WHERE t.owner IS NULL AND t.route = s.route AND t.queue = s.queue AND t.name = s.name
    AND t.priority = s.priority AND t.due_at <= coalesce($now, {now})
    ORDER BY t.due_at, t.instance_key, t.event_id LIMIT $limit FOR UPDATE SKIP LOCKED) d
  ORDER BY d.priority DESC, d.due_at, d.instance_key, d.event_id LIMIT $limit
), ranked AS MATERIALIZED (
  SELECT * FROM (
    SELECT r.*, sum(s.size) OVER (ORDER BY r.place) - s.size AS before FROM (
      SELECT *, row_number() OVER (ORDER BY priority DESC, due_at, instance_key, event_id) AS place FROM due) r
    CROSS JOIN LATERAL (",
            crate::tasks::parts::given_size!("r"),
            ") s) m
  WHERE before < $bytes::bigint
), taken AS (
  UPDATE {schema}.tasks t SET owner = $owner, ",
            crate::tasks::parts::note_late!("coalesce($now, {now})"),
            " FROM ranked r
  WHERE t.instance_key = ANY (ARRAY[r.instance_key]) AND t.execution = r.execution AND t.event_id = r.event_id
  RETURNING r.place, t.instance_key, t.execution, t.event_id, t.attempt, t.name, t.deadline, t.queue, t.session,
    t.start_by, coalesce(t.start_by <= coalesce($now, {now}), false) AS is_late
), used AS (",
            crate::activity_sessions::note_use!("taken"),
            ") ",
            crate::tasks::parts::select_taken!()
        )
    };
}

/// Selects the time at which the next task that is not taken is due, the same of the tasks whose routes are open, and
/// the time at which the first task of all that wait is late.
macro_rules! next {
    ($sorts:expr) => {
        concat!(
            "WITH RECURSIVE ",
            $sorts,
            " SELECT min(d.due_at) FILTER (WHERE s.route <> '?'), min(d.due_at) FILTER (WHERE s.route = '?'),
  (SELECT start_by FROM {schema}.tasks WHERE owner IS NULL AND start_by IS NOT NULL ORDER BY start_by LIMIT 1)
  FROM sorts s CROSS JOIN LATERAL (
    SELECT t.due_at FROM {schema}.tasks t WHERE t.owner IS NULL AND t.route = s.route
    AND t.queue = s.queue AND t.name = s.name AND t.priority = s.priority ORDER BY t.due_at LIMIT 1) d
  WHERE EXISTS (SELECT FROM {schema}.workers WHERE id = $owner)"
        )
    };
}

/// Acquires tasks: those that need no slot first, and then those that get one. `waiting` tells which tasks waited
/// before this transaction began. A task that came later is reported as the next one.
pub(crate) async fn acquire(
    session: &Session<'_>,
    request: &TaskRequest,
    waiting: Waiting,
) -> Result<AcquiredTasks, Failure> {
    let late = if waiting.late {
        late::take(session, &request.worker).await?
    } else {
        Vec::new()
    };
    let mut acquired = if request.limit.rows > 0 {
        acquire_due(session, request, waiting).await?
    } else {
        AcquiredTasks {
            next_due_ms: late::next(session).await?,
            ..AcquiredTasks::default()
        }
    };
    acquired.tasks.splice(..0, late);
    Ok(acquired)
}

async fn acquire_due(session: &Session<'_>, request: &TaskRequest, waiting: Waiting) -> Result<AcquiredTasks, Failure> {
    let routed = if waiting.open {
        activity_sessions::route(session, request).await?
    } else {
        Routed::default()
    };
    let mut tasks = acquired(&take(session, request).await?)?;
    let outlook = if waiting.asks_queues {
        admission::admit_attempts(session, request, &mut tasks).await?
    } else {
        Outlook::default()
    };
    // An attempt of a session that has a slot now is among them.
    let next_due_ms = next(session, request, &routed).await?;
    let times = [next_due_ms, waiting.delayed_until_ms, outlook.next_at_ms];
    Ok(AcquiredTasks {
        tasks,
        next_due_ms: times.into_iter().flatten().min(),
        slots_wanted: outlook.slots_wanted,
        handed_on: routed.handed_on,
    })
}

/// Takes the due tasks without a session, and those of the worker's sessions.
async fn take(session: &Session<'_>, request: &TaskRequest) -> Result<Vec<Row>, Failure> {
    let names = texts(&request.names);
    let names = P::Texts(&names);
    let worker = P::Text(&request.worker.0);
    let routes = [ROUTE_ANY, &*request.worker.0];
    let routes = P::Names(&routes);
    let limit = P::Int(integer(request.limit.rows as u64));
    let bytes = P::Int(integer(request.limit.bytes as u64));
    let now = session.now();
    match &request.queues {
        Queues::Named(queues) => {
            named!(
                session.query,
                take!(named_sorts!()),
                {
                    now: now, routes: routes, queues: P::Texts(&texts(queues)), names: names, owner: worker,
                    limit: limit, bytes: bytes
                }
            )
            .await
        }
        Queues::Any => {
            named!(
                session.query,
                take!(any_sorts!()),
                { now: now, routes: routes, names: names, owner: worker, limit: limit, bytes: bytes }
            )
            .await
        }
    }
}

/// Returns the time at which the next task is due that the worker can take, or the first one of all is late. A worker
/// that holds as many sessions as it may has to wait until one of them is idle.
async fn next(session: &Session<'_>, request: &TaskRequest, routed: &Routed) -> Result<Option<i64>, Failure> {
    let names = texts(&request.names);
    let names = P::Texts(&names);
    let worker = P::Text(&request.worker.0);
    let routes = [ROUTE_ANY, &*request.worker.0, ROUTE_OPEN];
    let routes = P::Names(&routes);
    let row = match &request.queues {
        Queues::Named(queues) => {
            named!(
                session.query_one,
                next!(named_sorts!()),
                { routes: routes, queues: P::Texts(&texts(queues)), names: names, owner: worker }
            )
            .await?
        }
        Queues::Any => {
            named!(
                session.query_one,
                next!(any_sorts!()),
                { routes: routes, names: names, owner: worker }
            )
            .await?
        }
    };
    let (own, open, late): (Option<i64>, Option<i64>, Option<i64>) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let open = if routed.is_full {
        open.and(routed.next_idle_ms)
    } else {
        open
    };
    Ok([own, open, late].into_iter().flatten().min())
}

/// Stores names of activities. Returns all names that were ever stored.
pub(crate) async fn know(session: &Session<'_>, names: &[String]) -> Result<Vec<String>, Failure> {
    let names: Vec<Cow<'_, str>> = names.iter().map(|name| encode(name)).collect();
    session
        .query(
            "INSERT INTO {schema}.activities (name) SELECT * FROM unnest($1::text[]) AS n (name) ORDER BY name
             ON CONFLICT (name) DO NOTHING",
            &[P::Texts(&names)],
        )
        .await?;
    let rows = session
        .query("SELECT name FROM {schema}.activities ORDER BY name", &[])
        .await?;
    rows.iter().map(|row| text(row, 0)).collect()
}

/// Returns the tasks that a worker runs.
pub(crate) async fn of_worker(connection: &Connection, worker: &WorkerId) -> Result<Vec<TaskName>, Failure> {
    let rows = connection
        .query(
            "SELECT instance_key, execution, event_id, attempt FROM {schema}.tasks WHERE owner = $1",
            &[P::Text(&worker.0)],
        )
        .await?;
    rows.iter().map(task_name).collect()
}

/// Returns a task of a worker to its queue. The row of its instance is locked.
pub(crate) async fn release_one(
    session: &Session<'_>,
    ReleaseTask { worker, task }: &ReleaseTask,
) -> Result<Outcome, Failure> {
    let gone = named!(
        session.query_optional,
        concat!(
            give_back!(),
            " WHERE instance_key = $key AND execution = $execution AND event_id = $event AND attempt = $attempt
         AND (owner = $owner) IS TRUE RETURNING 1"
        ),
        {
            now: session.now(),
            key: P::Int(task.key.0),
            execution: P::Int(integer(task.execution.0)),
            event: P::Int(integer(task.scheduled.0)),
            attempt: P::Int(i64::from(task.attempt)),
            owner: P::Text(&worker.0),
        }
    )
    .await?;
    Ok(gone.map_or(Outcome::Fenced, |_| Outcome::Noted))
}
