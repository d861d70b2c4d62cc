//! Parts of statements that acquire instances, and the rows that they give.

use std::borrow::Cow;

use perdure_engine::{EventId, ExecutionId, MessageSeq};
use perdure_provider::{AcquiredInstance, Epoch, InstanceKey, MessagePage, Suspicion};
use tokio_postgres::Row;

use crate::error::Failure;
use crate::params::P;
use crate::rows::{number, optional_text, text};
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

/// The orchestrations that a worker can run. The planner must not know how many they are: a plan that is made for one
/// execution, as behind a pooler, would cost so much with many of them that the server compiles it (`jit`) each time.
macro_rules! registered {
    () => {
        "r AS (
  SELECT DISTINCT name, version FROM unnest((SELECT $names::text[]), (SELECT $versions::text[])) AS o (name, version)
)"
    };
}
pub(crate) use registered;

macro_rules! classes {
    () => {
        concat!(
            "RECURSIVE ",
            crate::acquire::parts::registered!(),
            ", class AS (
  SELECT r.name, r.version, (
    SELECT priority FROM {schema}.instances i WHERE i.wake_at IS NOT NULL AND i.name = r.name AND i.version = r.version
    ORDER BY priority DESC LIMIT 1) AS priority FROM r
  UNION ALL
  SELECT c.name, c.version, (
    SELECT priority FROM {schema}.instances i
    WHERE i.wake_at IS NOT NULL AND i.name = c.name AND i.version = c.version AND i.priority < c.priority
    ORDER BY priority DESC LIMIT 1) FROM class c WHERE c.priority IS NOT NULL
)"
        )
    };
}
pub(crate) use classes;

/// Measures the messages that are read with an instance. `$row` has its key and the number of its unread messages.
macro_rules! messages_size {
    ($row:literal) => {
        concat!(
            "CASE WHEN ",
            $row,
            ".unread > 0 THEN coalesce((SELECT sum(octet_length(payload)) FROM (
            SELECT payload FROM {schema}.messages WHERE instance_key = ",
            $row,
            ".key ORDER BY seq LIMIT $page_rows) m), 0)
            ELSE 0 END"
        )
    };
}
pub(crate) use messages_size;

/// The condition of an instance that is due, and is left to the worker whose turn released it (P29).
macro_rules! left_to_another {
    () => {
        "(i.wake_at > coalesce($now, {now}) - $left AND i.wake_at <= coalesce($now, {now})
      AND i.released_by <> $owner AND i.released_by IN (SELECT id FROM {schema}.workers)) IS TRUE"
    };
}
pub(crate) use left_to_another;

/// The columns of an instance that was taken, as [`taken`] reads them, but the first and the size.
macro_rules! taken_columns {
    () => {
        "i.key, i.id, i.name, i.version, i.parent_id, i.execution, i.epoch, i.next_event_id, i.turns, i.message_seq,
  i.suspicion, i.tags"
    };
}
pub(crate) use taken_columns;

/// Selects the next time that has not come of a delayed entry of a queue, among those of the names and versions in the
/// table `of_queues`; and whether such entries are in line, or held, or have a time that has come.
macro_rules! work_of_queues {
    ($which:literal) => {
        concat!(
            "(SELECT min((SELECT x.queued_at FROM {schema}.queue_places x
    WHERE x.place = 3 AND x.name = o.name AND x.version = o.version",
            $which,
            " AND x.queued_at > coalesce($now, {now})
    ORDER BY x.queued_at LIMIT 1)) FROM of_queues o),
  (SELECT coalesce(bool_or(coalesce((SELECT true FROM {schema}.queue_places x
      WHERE x.place = 0 AND x.name = o.name AND x.version = o.version",
            $which,
            " LIMIT 1),
    (SELECT true FROM {schema}.queue_places x
      WHERE x.place = 1 AND x.name = o.name AND x.version = o.version",
            $which,
            " LIMIT 1),
    (SELECT true FROM {schema}.queue_places x
      WHERE x.place = 3 AND x.name = o.name AND x.version = o.version",
            $which,
            " AND x.queued_at <= coalesce($now, {now})
      LIMIT 1))), false) FROM of_queues o)"
        )
    };
}
pub(crate) use work_of_queues;

/// Selects the time until which the first instance of a class that is left to another worker is left to it. The times
/// are conditions of their own, so that the index is read from there on and not before.
macro_rules! left_until {
    () => {
        concat!(
            "(SELECT i.wake_at + $left FROM {schema}.instances i
  WHERE i.wake_at IS NOT NULL AND i.name = c.name AND i.version = c.version AND i.priority = c.priority
    AND i.wake_at > coalesce($now, {now}) - $left AND i.wake_at <= coalesce($now, {now}) AND ",
            crate::acquire::parts::left_to_another!(),
            " ORDER BY i.wake_at LIMIT 1)"
        )
    };
}
pub(crate) use left_until;

/// Registered names and versions as columns.
pub(crate) struct Registered<'r> {
    pub(crate) names: Vec<Cow<'r, str>>,
    pub(crate) versions: Vec<Cow<'r, str>>,
}

impl<'r> Registered<'r> {
    pub(crate) fn of(registered: &'r [(String, String)]) -> Self {
        let (names, versions) = registered
            .iter()
            .map(|(name, version)| (encode(name), encode(version)))
            .unzip();
        Self { names, versions }
    }
}

/// Reads the rows of instances that were taken, in order. An instance whose row cannot be read is suspended.
pub(crate) async fn read_taken(session: &Session<'_>, mut rows: Vec<Row>) -> Result<Vec<AcquiredInstance>, Failure> {
    rows.sort_unstable_by_key(|row| row.get::<_, i64>(0));
    let mut instances = Vec::with_capacity(rows.len());
    for row in &rows {
        match taken(row) {
            Ok(instance) => instances.push(instance),
            Err(failure) if failure.is_undecodable() => hold(session, InstanceKey(row.try_get(2)?), &failure).await?,
            Err(failure) => return Err(failure),
        }
    }
    Ok(instances)
}

/// Suspends an instance whose row cannot be read, with the reason, so that it does not keep all others from being
/// acquired.
async fn hold(session: &Session<'_>, key: InstanceKey, why: &Failure) -> Result<(), Failure> {
    let report = format!("Rows of this instance in the store cannot be read: {why}");
    named!(
        session.query,
        "UPDATE {schema}.instances SET status = 'Suspended', owner = NULL, report = $report WHERE key = $key",
        { key: P::Int(key.0), report: P::Text(&encode(&report)) }
    )
    .await?;
    Ok(())
}

fn taken(row: &Row) -> Result<AcquiredInstance, Failure> {
    Ok(AcquiredInstance {
        key: InstanceKey(row.try_get(2)?),
        id: text(row, 3)?,
        name: text(row, 4)?,
        version: text(row, 5)?,
        parent_id: optional_text(row, 6)?,
        tags: optional_text(row, 13)?,
        execution: ExecutionId(number(row, 7)?),
        epoch: Epoch(number(row, 8)?),
        next_event_id: EventId(number(row, 9)?),
        fresh: number(row, 10)? == 0,
        page_bytes: usize::try_from(number(row, 1)?).unwrap_or(usize::MAX),
        history: Vec::new(),
        messages: MessagePage::default(),
        seen: MessageSeq(number(row, 11)?),
        heartbeats: Vec::new(),
        tasks: Vec::new(),
        suspicion: Suspicion(u32::try_from(number(row, 12)?).unwrap_or(u32::MAX)),
    })
}
