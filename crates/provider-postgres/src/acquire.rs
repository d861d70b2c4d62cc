//! Acquisition of the instances that are due, in order (P3, P4).
//!
//! The partial index on `(name, version, priority, wake_at, key)` holds only active instances without an owner. For
//! each registered orchestration and each priority in use, the index is read from the instance that has been due
//! longest, and no further than the limit. Rows that another worker is about to take are skipped, so that workers share
//! the due instances without waiting for each other. The transaction measures histories and reads none: they are read
//! after it. Instances of queues come after the due ones: see [`admission`].

pub(crate) mod parts;

use std::borrow::Cow;

use perdure_provider::{Acquire, Acquired, AcquiredInstance, OPEN_VERSION, Settled};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::query::Query;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::{named, query};
use crate::text::encode;
use crate::{admission, registration};

use parts::{Registered, classes, left_to_another, left_until, read_taken, taken_columns, work_of_queues};

/// Measures the first page of an instance's history, and the messages and heartbeats that are read with it. `$row` has
/// the key, the execution and the number of unread messages of the instance.
macro_rules! page_size {
    ($row:literal) => {
        concat!(
            "SELECT (coalesce(sum(size), 0)
        + ",
            crate::acquire::parts::messages_size!($row),
            "
        + coalesce((SELECT sum(octet_length(details)) FROM {schema}.heartbeats WHERE instance_key = ",
            $row,
            ".key
        AND execution = ",
            $row,
            ".execution), 0)
      )::bigint AS size FROM (
      SELECT size, sum(size) OVER (ORDER BY event_id) - size AS before FROM (
        SELECT event_id, coalesce(octet_length(payload), 0) + coalesce(octet_length(meta), 0) AS size
        FROM {schema}.history
        WHERE instance_key = ",
            $row,
            ".key AND execution = ",
            $row,
            ".execution ORDER BY event_id LIMIT $page_rows) h) h
      WHERE before < $page_bytes::bigint"
        )
    };
}

/// Takes due instances for a worker, which is locked against its removal. A worker that is no longer registered gets
/// none.
const TAKE: &str = concat!(
    "WITH ",
    classes!(),
    ", w AS MATERIALIZED (
  SELECT id FROM {schema}.workers WHERE id = $owner FOR KEY SHARE
), due AS MATERIALIZED (
  SELECT d.* FROM w, class c CROSS JOIN LATERAL (
    SELECT i.key, i.execution, i.priority, i.wake_at, i.unread FROM {schema}.instances i
    WHERE i.wake_at IS NOT NULL AND i.name = c.name AND i.version = c.version AND i.priority = c.priority
      AND i.wake_at <= coalesce($now, {now}) AND NOT ",
    left_to_another!(),
    "
    ORDER BY i.wake_at, i.key LIMIT $limit FOR NO KEY UPDATE SKIP LOCKED) d
  ORDER BY c.priority DESC, d.wake_at, d.key LIMIT $limit
), ranked AS MATERIALIZED (
  SELECT * FROM (
    SELECT d.key, d.place, s.size, sum(s.size) OVER (ORDER BY d.place) - s.size AS before FROM (
      SELECT *, row_number() OVER (ORDER BY priority DESC, wake_at, key) AS place FROM due) d
    CROSS JOIN LATERAL (",
    page_size!("d"),
    ") s) r
  WHERE before < $bytes::bigint
)
UPDATE {schema}.instances i SET owner = $owner, epoch = i.epoch + 1, wake_at = NULL, probation = 0 FROM ranked
WHERE i.key = ranked.key
RETURNING ranked.place, ranked.size, ",
    taken_columns!()
);

/// Selects the time at which the next instance that is not taken is due; the time until which one is left to another
/// worker; the next start time of an instance of a queue that has not come; and whether instances are in line, or held,
/// or have a start time that has come. A worker that is not registered gets none.
const NEXT: &str = concat!(
    "WITH ",
    classes!(),
    ", of_queues AS MATERIALIZED (
  SELECT * FROM r WHERE EXISTS (SELECT FROM {schema}.queues) AND EXISTS (SELECT FROM {schema}.workers WHERE id = $owner)
)
SELECT coalesce($now, {now}), min((
  SELECT i.wake_at FROM {schema}.instances i
  WHERE i.wake_at IS NOT NULL AND i.name = c.name AND i.version = c.version AND i.priority = c.priority AND NOT ",
    left_to_another!(),
    "
  ORDER BY i.wake_at LIMIT 1)),
  min(",
    left_until!(),
    "),
  ",
    work_of_queues!(""),
    "
FROM class c WHERE c.priority IS NOT NULL AND EXISTS (SELECT FROM {schema}.workers WHERE id = $owner)"
);

/// Returns the statement that finds the next work.
fn next_of<'p>(registered: &'p Registered<'_>, now: P<'p>, owner: P<'p>, left: P<'p>) -> Query<'p> {
    let (names, versions) = (P::Texts(&registered.names), P::Texts(&registered.versions));
    query!(
        NEXT,
        { now: now, owner: owner, left: left, names: names, versions: versions }
    )
}

/// The next work of a worker.
struct Next {
    now_ms: i64,
    /// When the next instance is due.
    due_at_ms: Option<i64>,
    /// When the next instance is no longer left to another worker.
    left_until_ms: Option<i64>,
    /// When the next instance of a queue comes into the line whose time has not come.
    delayed_until_ms: Option<i64>,
    /// True if a pass over the queues may change anything: instances wait for a slot, or their start time has come.
    asks_queues: bool,
}

impl Next {
    fn of(row: &Row) -> Result<Self, Failure> {
        Ok(Self {
            now_ms: row.try_get(0)?,
            due_at_ms: row.try_get(1)?,
            left_until_ms: row.try_get(2)?,
            delayed_until_ms: row.try_get(3)?,
            asks_queues: row.try_get(4)?,
        })
    }

    /// Returns the answer without any instance.
    fn nothing(&self) -> Acquired {
        Acquired {
            next_wake_at_ms: [self.due_at_ms, self.left_until_ms, self.delayed_until_ms]
                .into_iter()
                .flatten()
                .min(),
            now_ms: self.now_ms,
            ..Acquired::default()
        }
    }
}

/// Returns the answer to a request that would find nothing now, or `None` if the request may find something.
pub(crate) async fn answer_if_nothing_due(
    connection: &Connection,
    request: &Acquire,
) -> Result<Option<Acquired>, Failure> {
    let registered = Registered::of(&request.registered);
    let now = P::MaybeInt(connection.from.clock_ms());
    let left = P::Int(integer(request.left_ms));
    let next = next_of(&registered, now, P::Text(&request.worker.0), left);
    let row = connection.query_one(next.sql, &next.params).await?;
    let next = Next::of(&row)?;
    let is_due = request.limit.rows > 0 && next.due_at_ms.is_some_and(|at| at <= next.now_ms);
    Ok((!is_due && !next.asks_queues).then(|| next.nothing()))
}

pub(crate) async fn acquire(session: &Session<'_>, request: &Acquire) -> Result<Acquired, Failure> {
    let registered = Registered::of(&request.registered);
    let owner = P::Text(&request.worker.0);
    let left = P::Int(integer(request.left_ms));
    let limit = |limit: usize| P::Int(integer(limit as u64));
    let take = query!(
        TAKE,
        {
            now: session.now(),
            owner: owner,
            left: left,
            limit: limit(request.limit.rows),
            bytes: limit(request.limit.bytes),
            page_rows: limit(request.history_page.rows),
            page_bytes: limit(request.history_page.bytes),
            names: P::Texts(&registered.names),
            versions: P::Texts(&registered.versions),
        }
    );
    let next = next_of(&registered, session.now(), owner, left);
    session.connection().prepare(&[&take, &next]).await?;
    let (rows, next) = tokio::try_join!(biased; session.run(Some(&take)), session.run(Some(&next)))?;
    let mut instances = read_taken(session, rows).await?;
    settle(session, request, &mut instances).await?;
    let next = next
        .first()
        .ok_or_else(|| Failure::internal("a statement gave no row"))?;
    let next = Next::of(next)?;
    let mut acquired = Acquired {
        instances,
        ..next.nothing()
    };
    if next.asks_queues {
        let outlook = admission::admit_instances(session, request, &registered, &mut acquired.instances).await?;
        acquired.slots_wanted = outlook.slots_wanted;
        if let Some(at_ms) = outlook.next_at_ms {
            acquired.look_again_at(at_ms);
        }
    }
    Ok(acquired)
}

/// Stores the settled versions of instances whose version was open (P17). An instance that is not the worker's own is
/// released in the same transaction.
const SETTLE: &str = "UPDATE {schema}.instances i SET version = s.version, owner = CASE WHEN s.is_own THEN i.owner END,
  wake_at = CASE WHEN s.is_own THEN i.wake_at ELSE coalesce($now, {now}) END
FROM {s} WHERE i.key = ANY (ARRAY[s.key])";

/// Settles the versions that are open, and drops the instances that are left to other workers.
async fn settle(
    session: &Session<'_>,
    request: &Acquire,
    instances: &mut Vec<AcquiredInstance>,
) -> Result<(), Failure> {
    if instances.iter().all(|instance| instance.version != OPEN_VERSION) {
        return Ok(());
    }
    let live = registration::live_orchestrations(session).await?;
    let (mut keys, mut versions, mut own) = (Vec::new(), Vec::new(), Vec::new());
    instances.retain_mut(|instance| {
        if instance.version != OPEN_VERSION {
            return true;
        }
        let Settled { version, is_own } = request.settle(&instance.name, &live);
        keys.push(instance.key.0);
        versions.push(Cow::Owned(encode(&version).into_owned()));
        own.push(is_own);
        instance.version = version;
        is_own
    });
    named!(
        session.query,
        SETTLE,
        { now: session.now() },
        s { key: P::Ints(&keys), version: P::Texts(&versions), is_own: P::Bools(&own) }
    )
    .await?;
    Ok(())
}
