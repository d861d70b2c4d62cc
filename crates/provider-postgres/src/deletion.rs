//! Deletion of ended instances (P13): one by its id, or all that match a filter. Their histories, and the chunks and
//! writers of their streams, are deleted after them. Histories of former executions are deleted here, too. A history is
//! deleted from its last event on, so that a concurrent reader finds no gap.

use perdure_provider::{
    IndexedSet, InstanceKey, Outcome, Place, PruneExecutions, PruneRequest, Pruned, PrunedExecutions,
};

use crate::connection::Connection;
use crate::error::Failure;
use crate::listing::{ConditionParams, Conditions, matches, of_ids};
use crate::options::SWEEP_INSTANCES;
use crate::params::P;
use crate::rows::{integer, number, status};
use crate::session::Session;
use crate::statement::{named, params, sql_with};
use crate::text::encode;

/// Parts of a statement that remove the rows that stay after the end of an instance, but its history and the chunks and
/// writers of its streams.
macro_rules! remove_records {
    ($keys:literal) => {
        concat!(
            "asks AS (DELETE FROM {schema}.asks WHERE instance_key = ANY (ARRAY(",
            $keys,
            "))), streams AS (DELETE FROM {schema}.streams WHERE instance_key = ANY (ARRAY(",
            $keys,
            "))), state AS (DELETE FROM {schema}.state WHERE instance_key = ANY (ARRAY(",
            $keys,
            "))), logs AS (DELETE FROM {schema}.logs WHERE instance_key = ANY (ARRAY(",
            $keys,
            "))), takeovers AS (DELETE FROM {schema}.takeovers WHERE instance_key = ANY (ARRAY(",
            $keys,
            "))), start_keys AS (DELETE FROM {schema}.start_keys WHERE instance_key = ANY (ARRAY(",
            $keys,
            "))), queued AS (DELETE FROM {schema}.queue_places WHERE key = ANY (ARRAY(",
            $keys,
            ")))"
        )
    };
}
pub(crate) use remove_records;

pub(crate) async fn delete(session: &Session<'_>, id: &str) -> Result<Outcome, Failure> {
    let found = session
        .query_optional(
            "SELECT key, status FROM {schema}.instances WHERE id = $1 FOR UPDATE",
            &[P::Text(&encode(id))],
        )
        .await?;
    let Some(found) = found else {
        return Ok(Outcome::NotFound);
    };
    let status = status(&found, 1)?;
    if !status.is_terminal() {
        return Ok(Outcome::NotEnded { status });
    }
    remove(session, &[found.try_get(0)?]).await?;
    Ok(Outcome::Deleted)
}

/// Deletes everything of ended instances except their histories and the chunks of their streams, which may be many and
/// are left to be swept. Returns the number of deleted instances.
pub(crate) async fn remove(session: &Session<'_>, keys: &[i64]) -> Result<usize, Failure> {
    if keys.is_empty() {
        return Ok(0);
    }
    let removed = session
        .query(
            concat!(
                "WITH gone AS (
               DELETE FROM {schema}.instances WHERE key = ANY ($1::bigint[]) AND completed_at IS NOT NULL RETURNING key
             ), messages AS (
               DELETE FROM {schema}.messages WHERE instance_key = ANY (ARRAY(SELECT key FROM gone))
             ), heartbeats AS (
               DELETE FROM {schema}.heartbeats WHERE instance_key = ANY (ARRAY(SELECT key FROM gone))
             ), tasks AS (
               DELETE FROM {schema}.tasks WHERE instance_key = ANY (ARRAY(SELECT key FROM gone)) RETURNING place_key
             ), places AS (
               DELETE FROM {schema}.queue_places
               WHERE key = ANY (ARRAY(SELECT place_key FROM tasks WHERE place_key IS NOT NULL))
             ), ",
                remove_records!("SELECT key FROM gone"),
                "
             INSERT INTO {schema}.deleted_instances (key) SELECT key FROM gone RETURNING key"
            ),
            &[P::Ints(keys)],
        )
        .await?;
    Ok(removed.len())
}

/// Walks over ended instances of a table.
macro_rules! walk {
    ($among:expr) => {
        concat!(
            "SELECT i.key, i.completed_at, ",
            matches!(),
            ", i.tags FROM (
    SELECT * FROM ",
            $among,
            " completed_at IS NOT NULL
    AND (completed_at, key) > ($after_ms::bigint, $after_key::bigint)
      AND ($completed_before IS NULL OR completed_at < $completed_before)
    ORDER BY completed_at, key LIMIT $rows) i
  ORDER BY i.completed_at, i.key"
        )
    };
}

const WALK: &str = walk!("{schema}.instances WHERE");
const WALK_IDS: &str = walk!(of_ids!());

params! {
    /// The place after which a walk over ended instances begins, and its most rows.
    struct WalkEnded { after_ms, after_key, rows }
}

/// Deletes ended instances that match a filter. The index of ended instances is read from the one that ended longest
/// ago, and no further than the walk may go.
pub(crate) async fn prune(session: &Session<'_>, request: &PruneRequest) -> Result<Pruned, Failure> {
    let conditions = Conditions::of(&request.filter);
    let mut last = request.after.unwrap_or(Place {
        at_ms: i64::MIN,
        key: InstanceKey(i64::MIN),
    });
    let place = WalkEnded {
        after_ms: P::Int(last.at_ms),
        after_key: P::Int(last.key.0),
        rows: P::Int(integer(request.walk_max as u64).saturating_add(1)),
    };
    let params: Vec<P<'_>> = conditions.params().values().chain(place.values()).collect();
    let sql = match request.filter.indexed_set() {
        IndexedSet::Ids => sql_with!(WALK_IDS, ConditionParams, WalkEnded),
        _ => sql_with!(WALK, ConditionParams, WalkEnded),
    };
    let rows = session.query(sql, &params).await?;
    let (mut keys, mut next) = (Vec::new(), None);
    for (walked, row) in rows.iter().enumerate() {
        if walked >= request.walk_max || keys.len() >= request.limit {
            next = Some(last);
            break;
        }
        last = Place {
            at_ms: row.try_get(1)?,
            key: InstanceKey(row.try_get(0)?),
        };
        if conditions.hold(row, 2, 3)? {
            keys.push(last.key.0);
        }
    }
    Ok(Pruned {
        deleted: remove(session, &keys).await?,
        next,
    })
}

/// Walks over instances of a table that have continued as new.
macro_rules! walk_continued {
    ($among:expr) => {
        concat!(
            "SELECT i.key, i.execution, ",
            matches!(),
            ", i.tags FROM (
    SELECT * FROM ",
            $among,
            " execution > 1 AND key >= $from::bigint ORDER BY key LIMIT $rows) i
  ORDER BY i.key"
        )
    };
}

const WALK_CONTINUED: &str = walk_continued!("{schema}.instances WHERE");
const WALK_CONTINUED_IDS: &str = walk_continued!(of_ids!());

params! {
    /// The first instance of a walk over instances that have continued as new, and its most rows.
    struct WalkContinued { from, rows }
}

/// Deletes former executions, the oldest of each instance first, and each from its last event on. `a` has the instances
/// in the order of their keys, with the first execution of each that stays. At most `events` events are deleted.
///
/// Ids of events have no gap. So the last id of an execution is the number of its events, and no event that stays is
/// read. An execution is gone with its first event. The answer: the number of deleted executions, and the instance at
/// which the limit was reached, if it was.
const DELETE_FORMER: &str = "WITH instance AS MATERIALIZED (
  SELECT a.key, o.execution AS oldest, a.first,
    coalesce(sum(a.first - o.execution)
      OVER (ORDER BY a.key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::bigint AS before
  FROM {a}
  CROSS JOIN LATERAL (SELECT execution FROM {schema}.history WHERE instance_key = a.key ORDER BY execution LIMIT 1) o
  WHERE o.execution < a.first
), former AS MATERIALIZED (
  SELECT i.key, e.execution, l.last, (sum(l.last) OVER (ORDER BY i.key, e.execution) - l.last)::bigint AS before
  FROM instance i
  CROSS JOIN LATERAL generate_series(i.oldest, least(i.first, i.oldest + $events - i.before) - 1) AS e (execution)
  CROSS JOIN LATERAL (SELECT event_id AS last FROM {schema}.history
    WHERE instance_key = i.key AND execution = e.execution ORDER BY event_id DESC LIMIT 1) l
  WHERE i.before < $events
), gone AS (
  DELETE FROM {schema}.history h USING former f
  WHERE f.before < $events AND h.instance_key = f.key AND h.execution = f.execution
  AND h.event_id > f.last - ($events - f.before)
  RETURNING h.event_id
)
SELECT (SELECT count(*) FROM gone WHERE event_id = 1), (SELECT max(key) FROM former WHERE before < $events
  AND ((SELECT sum(first - oldest) FROM instance) > $events OR (SELECT sum(last) FROM former) > $events))";

/// Deletes former executions of instances that match a filter. The index of instances that have continued as new is
/// read in the order of the keys, and no further than the walk may go. One statement deletes the executions of all
/// matching instances.
pub(crate) async fn prune_executions(
    session: &Session<'_>,
    request: &PruneExecutions,
) -> Result<PrunedExecutions, Failure> {
    let conditions = Conditions::of(&request.filter);
    let place = WalkContinued {
        from: P::Int(request.from.map_or(i64::MIN, |from| from.0)),
        rows: P::Int(integer(request.walk_max as u64).saturating_add(1)),
    };
    let params: Vec<P<'_>> = conditions.params().values().chain(place.values()).collect();
    let sql = match request.filter.indexed_set() {
        IndexedSet::Ids => sql_with!(WALK_CONTINUED_IDS, ConditionParams, WalkContinued),
        _ => sql_with!(WALK_CONTINUED, ConditionParams, WalkContinued),
    };
    let rows = session.query(sql, &params).await?;
    let (mut keys, mut firsts, mut next) = (Vec::new(), Vec::new(), None);
    for (walked, row) in rows.iter().enumerate() {
        let key: i64 = row.try_get(0)?;
        if walked >= request.walk_max {
            next = Some(InstanceKey(key));
            break;
        }
        if conditions.hold(row, 2, 3)? {
            let execution = number(row, 1)?;
            keys.push(key);
            // The first execution that stays.
            firsts.push(integer((execution + 1).saturating_sub(request.keep).min(execution)));
        }
    }
    if keys.is_empty() {
        return Ok(PrunedExecutions { deleted: 0, next });
    }
    let events_max = P::Int(integer(request.events_max as u64));
    let gone = named!(
        session.query_one,
        DELETE_FORMER,
        { events: events_max },
        a { key: P::Ints(&keys), first: P::Ints(&firsts) }
    )
    .await?;
    let reached: Option<i64> = gone.try_get(1)?;
    Ok(PrunedExecutions {
        deleted: usize::try_from(number(&gone, 0)?).unwrap_or(usize::MAX),
        next: reached.map(InstanceKey).or(next),
    })
}

/// Returns true if any deleted instance is left to be swept.
pub(crate) async fn any_left(connection: &Connection) -> Result<bool, Failure> {
    let row = connection
        .query_one("SELECT EXISTS (SELECT FROM {schema}.deleted_instances)", &[])
        .await?;
    Ok(row.try_get(0)?)
}

/// Sweeps some deleted instances in the order of their keys: at most `instances` instances, and `rows` events, chunks
/// and writers of streams. Of each instance, no more rows are read than may be deleted. The answer: how many instances
/// were found, how many of them are swept, and how many rows may still be deleted.
const SWEEP: &str = "WITH RECURSIVE found AS MATERIALIZED (
  SELECT key, row_number() OVER (ORDER BY key) AS place FROM (
    SELECT key FROM {schema}.deleted_instances ORDER BY key LIMIT $instances FOR UPDATE SKIP LOCKED) f
), step AS (
  SELECT 0::bigint AS place, NULL::bigint AS key, 0::bigint AS events, 0::bigint AS chunks, 0::bigint AS writers,
    $rows::bigint AS after
  UNION ALL
  SELECT f.place, f.key, h.events, c.chunks, w.writers, s.after - h.events - c.chunks - w.writers
  FROM step s JOIN found f ON f.place = s.place + 1
  CROSS JOIN LATERAL (SELECT count(*) AS events FROM (
    SELECT FROM {schema}.history WHERE instance_key = f.key LIMIT s.after) e) h
  CROSS JOIN LATERAL (SELECT count(*) AS chunks FROM (
    SELECT FROM {schema}.stream_chunks WHERE instance_key = f.key LIMIT s.after - h.events) e) c
  CROSS JOIN LATERAL (SELECT count(*) AS writers FROM (
    SELECT FROM {schema}.stream_writers WHERE instance_key = f.key LIMIT s.after - h.events - c.chunks) e) w
  WHERE s.after > 0
), gone AS (
  DELETE FROM {schema}.history h USING (
    SELECT s.key, e.execution, e.event_id FROM step s CROSS JOIN LATERAL (
      SELECT execution, event_id FROM {schema}.history WHERE instance_key = s.key
      ORDER BY execution DESC, event_id DESC LIMIT s.events) e) d
  WHERE h.instance_key = d.key AND h.execution = d.execution AND h.event_id = d.event_id
), chunks AS (
  DELETE FROM {schema}.stream_chunks c USING (
    SELECT s.key, e.name, e.first_index FROM step s CROSS JOIN LATERAL (
      SELECT name, first_index FROM {schema}.stream_chunks WHERE instance_key = s.key
      ORDER BY name, first_index LIMIT s.chunks) e) d
  WHERE c.instance_key = d.key AND c.name = d.name AND c.first_index = d.first_index
), writers AS (
  DELETE FROM {schema}.stream_writers w USING (
    SELECT s.key, e.execution, e.event_id, e.name FROM step s CROSS JOIN LATERAL (
      SELECT execution, event_id, name FROM {schema}.stream_writers WHERE instance_key = s.key
      ORDER BY execution, event_id, name LIMIT s.writers) e) d
  WHERE w.instance_key = d.key AND w.execution = d.execution AND w.event_id = d.event_id AND w.name = d.name
), swept AS (
  DELETE FROM {schema}.deleted_instances WHERE key IN (SELECT key FROM step WHERE after > 0) RETURNING key
)
SELECT (SELECT count(*) FROM found), (SELECT count(*) FROM swept), (SELECT min(after) FROM step)";

/// Sweeps deleted instances. Returns true if some of them may be left. Instances that another process sweeps are left
/// to that process.
pub(crate) async fn sweep(session: &Session<'_>, limit: usize) -> Result<bool, Failure> {
    let mut left = integer(limit as u64);
    loop {
        let swept = named!(
            session.query_one,
            SWEEP,
            { instances: P::Int(SWEEP_INSTANCES), rows: P::Int(left) }
        )
        .await?;
        let (found, gone): (i64, i64) = (swept.try_get(0)?, swept.try_get(1)?);
        left = swept.try_get(2)?;
        if left == 0 || gone < found {
            return Ok(true);
        }
        if found < SWEEP_INSTANCES {
            return Ok(false);
        }
    }
}
