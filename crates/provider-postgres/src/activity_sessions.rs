//! Sessions of activities (P18): which worker holds which session, and the routes of their tasks.
//!
//! A task of a session is offered with an open route. A request for tasks routes it: to the worker that holds the
//! session, or, if no worker does, to the worker that asks, which then holds the session.
//!
//! - **S1** Tasks of a session are routed under the lock of the session's row, and to the worker in that row.
//! - **S2** A worker to which tasks are routed is locked against its removal before the row of the session is locked.
//!   A removal deletes the worker first, then its sessions, and then opens the routes, each with its own statement. So
//!   no task is routed to a worker that is gone.
//! - **S3** Each transaction that uses a session writes the time into the row of the session. A request that takes the
//!   session away reads the locked row anew, and finds a time that is newer than its snapshot. No time is written if
//!   such a request has the row locked: the request saw the task, so it takes no session away.
//! - **S4** Rows of tasks and sessions that another transaction has locked are passed over, so that no two transactions
//!   wait for each other. New sessions are inserted in order. Tasks that were passed over stay due, and the worker asks
//!   again.

use std::borrow::Cow;

use perdure_provider::{Queues, ROUTE_OPEN, ROUTED_SESSIONS_MAX, ROUTED_TASKS_MAX, TaskRequest};
use tokio_postgres::Row;

use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number, text};
use crate::session::Session;
use crate::statement::{named, query};
use crate::tasks::parts::{any_sorts, named_sorts, texts};
use crate::text::encode;

/// The most tasks of one session that one statement routes.
const TASKS: P<'static> = P::Int(ROUTED_TASKS_MAX as i64);

/// The result of routing.
#[derive(Default)]
pub(crate) struct Routed {
    /// True if tasks went to other workers.
    pub(crate) handed_on: bool,
    /// True if the worker can bind no further session now.
    pub(crate) is_full: bool,
    /// If it is full and tasks wait for it: the time at which it can bind another session at the earliest.
    pub(crate) next_idle_ms: Option<i64>,
}

/// Notes that the sessions of a table of tasks are used now (S3).
macro_rules! note_use {
    ($tasks:literal) => {
        concat!(
            "UPDATE {schema}.sessions s SET used_at = coalesce($now, {now}) FROM (
    SELECT s.queue, s.session FROM {schema}.sessions s JOIN (
      SELECT DISTINCT queue, session FROM ",
            $tasks,
            " WHERE session IS NOT NULL) t
    ON s.queue = ANY (ARRAY[t.queue]) AND s.session = t.session FOR UPDATE OF s SKIP LOCKED) u
  WHERE s.queue = ANY (ARRAY[u.queue]) AND s.session = u.session"
        )
    };
}
pub(crate) use note_use;

/// Locks the worker against its removal (S2).
const LOCK: &str = "SELECT FROM {schema}.workers WHERE id = $owner FOR KEY SHARE";

/// Unbinds the sessions of a worker that had no task for their idle time.
const UNBIND_IDLE: &str = "DELETE FROM {schema}.sessions s USING (
  SELECT s.queue, s.session FROM {schema}.sessions s
  WHERE s.worker = $owner AND s.used_at + s.idle_ms < coalesce($now, {now})
  AND (SELECT true FROM {schema}.tasks t
    WHERE t.queue = s.queue AND t.session = s.session AND t.route <> '=' LIMIT 1) IS NULL
  FOR UPDATE SKIP LOCKED) i
WHERE s.queue = ANY (ARRAY[i.queue]) AND s.session = i.session";

/// Routes tasks of the sessions in the table `locked`, whose rows are locked, to the workers there (S1).
macro_rules! route_locked {
    () => {
        ", used AS (
  UPDATE {schema}.sessions s SET used_at = coalesce($now, {now}) FROM locked l
  WHERE s.queue = ANY (ARRAY[l.queue]) AND s.session = l.session
), open AS MATERIALIZED (
  SELECT o.*, l.worker FROM locked l CROSS JOIN LATERAL (
    SELECT t.instance_key, t.execution, t.event_id FROM {schema}.tasks t
    WHERE t.queue = l.queue AND t.session = l.session AND t.route = '?' AND t.owner IS NULL
    LIMIT $tasks FOR UPDATE SKIP LOCKED) o
)
UPDATE {schema}.tasks t SET route = o.worker FROM open o
WHERE t.instance_key = ANY (ARRAY[o.instance_key]) AND t.execution = o.execution AND t.event_id = o.event_id
RETURNING 1"
    };
}

/// Routes the tasks of the sessions that the worker holds to it, also those that are not due yet.
const ROUTE_HELD: &str = concat!(
    "WITH locked AS MATERIALIZED (
  SELECT s.queue, s.session, s.worker FROM {schema}.sessions s WHERE s.worker = $owner AND (
    SELECT true FROM {schema}.tasks t WHERE t.queue = s.queue AND t.session = s.session AND t.route = '?' LIMIT 1)
  FOR UPDATE SKIP LOCKED
)",
    route_locked!()
);

/// Routes the tasks of sessions that other workers hold to these workers.
const HAND_ON: &str = concat!(
    "WITH holders AS MATERIALIZED (
  SELECT w.id FROM {schema}.workers w WHERE w.id IN (
    SELECT s.worker FROM {c} JOIN {schema}.sessions s ON s.queue = ANY (ARRAY[c.queue]) AND s.session = c.session)
  FOR KEY SHARE SKIP LOCKED
), locked AS MATERIALIZED (
  SELECT s.queue, s.session, s.worker
  FROM {c} JOIN {schema}.sessions s ON s.queue = ANY (ARRAY[c.queue]) AND s.session = c.session
  JOIN holders h ON h.id = s.worker
  FOR UPDATE OF s SKIP LOCKED
)",
    route_locked!()
);

/// The condition under which a session with waiting tasks is unbound: all of them came after its idle time.
macro_rules! is_idle {
    () => {
        "s.used_at + s.idle_ms < (SELECT min(t.due_at) FROM {schema}.tasks t
      WHERE t.queue = ANY (ARRAY[s.queue]) AND t.session = s.session AND t.route = '?')
    AND (SELECT true FROM {schema}.tasks t
      WHERE t.queue = s.queue AND t.session = s.session AND t.route NOT IN ('?', '=') LIMIT 1) IS NULL"
    };
}

/// Binds sessions that are idle to the worker.
const REBIND: &str = concat!(
    "UPDATE {schema}.sessions s SET worker = $owner, idle_ms = $idle, used_at = coalesce($now, {now}) FROM (
  SELECT s.queue, s.session FROM {c}
  JOIN {schema}.sessions s ON s.queue = ANY (ARRAY[c.queue]) AND s.session = c.session
  WHERE ",
    is_idle!(),
    " FOR UPDATE OF s SKIP LOCKED) i
WHERE s.queue = ANY (ARRAY[i.queue]) AND s.session = i.session"
);

/// Binds sessions without a row to the worker, unless another worker does so first.
const BIND: &str = "INSERT INTO {schema}.sessions (queue, session, worker, idle_ms, used_at)
SELECT c.queue, c.session, $owner, $idle, coalesce($now, {now}) FROM {c} ORDER BY c.queue, c.session
ON CONFLICT (queue, session) DO NOTHING";

/// Selects the sessions of the first due tasks whose routes are open, in the order in which tasks are taken, each with
/// the worker in its row and true if that worker holds it.
macro_rules! due_sessions {
    ($sorts:expr) => {
        concat!(
            "WITH RECURSIVE ",
            $sorts,
            ", due AS MATERIALIZED (
  SELECT d.* FROM sorts s CROSS JOIN LATERAL (
    SELECT t.queue, t.session, t.priority, t.due_at, t.instance_key, t.event_id FROM {schema}.tasks t
    WHERE t.owner IS NULL AND t.route = s.route AND t.queue = s.queue AND t.name = s.name
    AND t.priority = s.priority AND t.due_at <= coalesce($now, {now}) AND t.session IS NOT NULL
    ORDER BY t.due_at, t.instance_key, t.event_id LIMIT $most) d
), first AS MATERIALIZED (
  SELECT DISTINCT ON (queue, session) * FROM due
  ORDER BY queue, session, priority DESC, due_at, instance_key, event_id
)
SELECT f.queue, f.session, s.worker, s.worker IS NOT NULL AND NOT (",
            is_idle!(),
            ")
FROM first f LEFT JOIN {schema}.sessions s ON s.queue = ANY (ARRAY[f.queue]) AND s.session = f.session
ORDER BY f.priority DESC, f.due_at, f.instance_key, f.event_id LIMIT $most"
        )
    };
}

/// The number of sessions that a worker holds, and the time at which the first of them is idle at the earliest. That
/// time is over if tasks of its sessions were passed over (S4).
const HELD: &str = "SELECT count(*), min(CASE
  WHEN EXISTS (SELECT FROM {schema}.tasks t
    WHERE t.queue = ANY (ARRAY[s.queue]) AND t.session = s.session AND t.route = '?')
    THEN 0
  WHEN EXISTS (SELECT FROM {schema}.tasks t
    WHERE t.queue = ANY (ARRAY[s.queue]) AND t.session = s.session AND t.route <> '=')
    THEN greatest(s.used_at, coalesce($now, {now})) + s.idle_ms + 1
  ELSE s.used_at + s.idle_ms + 1 END)
FROM {schema}.sessions s WHERE s.worker = $owner";

/// Sessions as columns.
#[derive(Default)]
struct Named {
    queue: Vec<Cow<'static, str>>,
    session: Vec<Cow<'static, str>>,
}

impl Named {
    fn push(&mut self, row: &Row) -> Result<(), Failure> {
        // Encoded again, as a text of the store.
        self.queue.push(Cow::Owned(encode(&text(row, 0)?).into_owned()));
        self.session.push(Cow::Owned(encode(&text(row, 1)?).into_owned()));
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// The sessions whose due tasks a request routes.
#[derive(Default)]
struct Sorted {
    /// Other workers hold them.
    elsewhere: Named,
    /// They have a row, and are idle.
    idle: Named,
    /// They have no row.
    new: Named,
}

/// Routes the due tasks whose routes are open and that the request may take or hand on.
pub(crate) async fn route(session: &Session<'_>, request: &TaskRequest) -> Result<Routed, Failure> {
    let (now, owner) = (session.now(), P::Text(&request.worker.0));
    let max = request.sessions.max;
    let lock = query!(LOCK, { owner: owner });
    let unbind = query!(UNBIND_IDLE, { now: now, owner: owner });
    let route_held = query!(ROUTE_HELD, { now: now, owner: owner, tasks: TASKS });
    let held = query!(HELD, { now: now, owner: owner });
    session
        .connection()
        .prepare(&[&lock, &unbind, &route_held, &held])
        .await?;
    // Sent in this order, without waiting for the answers in between.
    let (registered, _, _, found) = tokio::try_join!(
        biased;
        session.run(Some(&lock)),
        session.run(Some(&unbind)),
        session.run(Some(&route_held)),
        session.run(Some(&held)),
    )?;
    let count = held_of(&found)?;
    if registered.is_empty() {
        return Ok(Routed::default());
    }
    if count >= max {
        return routed_of(&found, max);
    }
    // A session that has to wait for a slot here may find one at another worker.
    let room = (max - count).min(request.limit.rows).min(ROUTED_SESSIONS_MAX);
    let sorted = sorted(&due_sessions(session, request).await?, &request.worker.0, room)?;
    let handed_on = bind(session, request, &sorted).await?;
    let (_, found) = tokio::try_join!(biased; session.run(Some(&route_held)), session.run(Some(&held)))?;
    Ok(Routed {
        handed_on,
        ..routed_of(&found, max)?
    })
}

/// Sorts the due sessions. Those that no worker holds are bound to the asking one, as far as there is room.
fn sorted(rows: &[Row], worker: &str, mut room: usize) -> Result<Sorted, Failure> {
    let mut sorted = Sorted::default();
    for row in rows {
        let holder: Option<&str> = row.try_get(2)?;
        let is_held: bool = row.try_get(3)?;
        match holder {
            Some(holder) if is_held && holder == worker => {}
            Some(_) if is_held => sorted.elsewhere.push(row)?,
            _ if room == 0 => {}
            Some(_) => {
                sorted.idle.push(row)?;
                room -= 1;
            }
            None => {
                sorted.new.push(row)?;
                room -= 1;
            }
        }
    }
    Ok(sorted)
}

/// Binds sessions to the worker, and hands on the tasks of those that other workers hold. Returns true if there were
/// such tasks.
async fn bind(session: &Session<'_>, request: &TaskRequest, sorted: &Sorted) -> Result<bool, Failure> {
    let Sorted { elsewhere, idle, new } = sorted;
    let (now, owner) = (session.now(), P::Text(&request.worker.0));
    let idle_ms = P::Int(request.sessions.idle_ms);
    let hand_on = (!elsewhere.is_empty()).then(|| {
        query!(
            HAND_ON,
            { now: now, tasks: TASKS },
            c { queue: P::Texts(&elsewhere.queue), session: P::Texts(&elsewhere.session) }
        )
    });
    let rebind = (!idle.is_empty()).then(|| {
        query!(
            REBIND,
            { now: now, owner: owner, idle: idle_ms },
            c { queue: P::Texts(&idle.queue), session: P::Texts(&idle.session) }
        )
    });
    let bind = (!new.is_empty()).then(|| {
        query!(
            BIND,
            { now: now, owner: owner, idle: idle_ms },
            c { queue: P::Texts(&new.queue), session: P::Texts(&new.session) }
        )
    });
    let some: Vec<_> = [&hand_on, &rebind, &bind].into_iter().flatten().collect();
    session.connection().prepare(&some).await?;
    let (handed_on, _, _) = tokio::try_join!(
        biased;
        session.run(hand_on.as_ref()),
        session.run(rebind.as_ref()),
        session.run(bind.as_ref()),
    )?;
    Ok(!handed_on.is_empty())
}

async fn due_sessions(session: &Session<'_>, request: &TaskRequest) -> Result<Vec<Row>, Failure> {
    let names = texts(&request.names);
    let names = P::Texts(&names);
    let routes = P::Names(&[ROUTE_OPEN]);
    let most = P::Int(integer(ROUTED_SESSIONS_MAX as u64));
    match &request.queues {
        Queues::Named(queues) => {
            named!(
                session.query,
                due_sessions!(named_sorts!()),
                { now: session.now(), routes: routes, queues: P::Texts(&texts(queues)), names: names, most: most }
            )
            .await
        }
        Queues::Any => {
            named!(
                session.query,
                due_sessions!(any_sorts!()),
                { now: session.now(), routes: routes, names: names, most: most }
            )
            .await
        }
    }
}

fn held_of(rows: &[Row]) -> Result<usize, Failure> {
    let held = rows.first().map_or(Ok(0), |row| number(row, 0))?;
    Ok(usize::try_from(held).unwrap_or(usize::MAX))
}

fn routed_of(rows: &[Row], max: usize) -> Result<Routed, Failure> {
    let is_full = held_of(rows)? >= max;
    let next_idle: Option<i64> = rows.first().map_or(Ok(None), |row| row.try_get(1))?;
    Ok(Routed {
        handed_on: false,
        is_full,
        next_idle_ms: next_idle.filter(|_| is_full),
    })
}

/// Unbinds the sessions of a worker that is removed, and opens the routes of their tasks (S2). The row of the worker is
/// deleted, and it runs no task any more.
pub(crate) async fn unbind_all(session: &Session<'_>, worker: P<'_>) -> Result<(), Failure> {
    session
        .query("DELETE FROM {schema}.sessions WHERE worker = $1", &[worker])
        .await?;
    session
        .query(
            "UPDATE {schema}.tasks SET route = '?' WHERE owner IS NULL AND route = $1",
            &[worker],
        )
        .await?;
    Ok(())
}
