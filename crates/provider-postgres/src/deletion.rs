//! Ended instances go (P13): one by its id, or those of a filter; and their histories after them. Histories of former executions go, too.
//! A history goes from its last event on: whoever reads it meanwhile finds no gap.

use perdure_provider::{InstanceKey, Outcome, Place, PruneExecutions, PruneRequest, Pruned, PrunedExecutions};

use crate::connection::Connection;
use crate::error::Failure;
use crate::listing::{Conditions, matches};
use crate::params::P;
use crate::rows::{integer, number, status};
use crate::session::Session;
use crate::text::encode;

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

/// All but the histories, which may be long and are left to be swept. Returns how many were there.
pub(crate) async fn remove(session: &Session<'_>, keys: &[i64]) -> Result<usize, Failure> {
    if keys.is_empty() {
        return Ok(0);
    }
    let removed = session
        .query(
            "WITH gone AS (
               DELETE FROM {schema}.instances WHERE key = ANY ($1::bigint[]) AND completed_at IS NOT NULL RETURNING key
             ), messages AS (
               DELETE FROM {schema}.messages WHERE instance_key IN (SELECT key FROM gone)
             ), heartbeats AS (
               DELETE FROM {schema}.heartbeats WHERE instance_key IN (SELECT key FROM gone)
             ), tasks AS (
               DELETE FROM {schema}.tasks WHERE instance_key IN (SELECT key FROM gone)
             )
             INSERT INTO {schema}.deleted_instances (key) SELECT key FROM gone RETURNING key",
            &[P::Ints(keys)],
        )
        .await?;
    Ok(removed.len())
}

const WALK: &str = concat!(
    "SELECT i.key, i.completed_at, ",
    matches!(),
    ", i.tags FROM (
    SELECT * FROM {schema}.instances WHERE completed_at IS NOT NULL AND (completed_at, key) > ($9::bigint, $10::bigint)
      AND ($8 IS NULL OR completed_at < $8)
    ORDER BY completed_at, key LIMIT $11) i
  ORDER BY i.completed_at, i.key"
);

/// The index of what has ended is read from the longest ended on, and no further than the walk may go.
pub(crate) async fn prune(session: &Session<'_>, request: &PruneRequest) -> Result<Pruned, Failure> {
    let conditions = Conditions::of(&request.filter);
    let mut last = request.after.unwrap_or(Place {
        at_ms: i64::MIN,
        key: InstanceKey(i64::MIN),
    });
    let place = [
        P::Int(last.at_ms),
        P::Int(last.key.0),
        P::Int(integer(request.walk_max as u64).saturating_add(1)),
    ];
    let rows = session
        .query(WALK, &[&conditions.params()[..], &place].concat())
        .await?;
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

const WALK_CONTINUED: &str = concat!(
    "SELECT i.key, i.execution, ",
    matches!(),
    ", i.tags FROM (
    SELECT * FROM {schema}.instances WHERE execution > 1 AND key >= $9::bigint ORDER BY key LIMIT $10) i
  ORDER BY i.key"
);

/// The index of what has continued as new is read in order of the keys, and no further than the walk may go.
pub(crate) async fn prune_executions(
    session: &Session<'_>,
    request: &PruneExecutions,
) -> Result<PrunedExecutions, Failure> {
    let conditions = Conditions::of(&request.filter);
    let place = [
        P::Int(request.from.map_or(i64::MIN, |from| from.0)),
        P::Int(integer(request.walk_max as u64).saturating_add(1)),
    ];
    let rows = session
        .query(WALK_CONTINUED, &[&conditions.params()[..], &place].concat())
        .await?;
    let mut pruned = PrunedExecutions::default();
    let mut left = request.events_max;
    for (walked, row) in rows.iter().enumerate() {
        let key = InstanceKey(row.try_get(0)?);
        if walked >= request.walk_max || left == 0 {
            pruned.next = Some(key);
            break;
        }
        if !conditions.hold(row, 2, 3)? {
            continue;
        }
        let execution = number(row, 1)?;
        // The first that stays.
        let first = integer((execution + 1).saturating_sub(request.keep).min(execution));
        while let Some(oldest) = oldest_execution(session, key).await?.filter(|oldest| *oldest < first) {
            if left == 0 {
                pruned.next = Some(key);
                return Ok(pruned);
            }
            let gone = session
                .query(
                    "DELETE FROM {schema}.history WHERE instance_key = $1 AND execution = $2 AND event_id IN (
                       SELECT event_id FROM {schema}.history WHERE instance_key = $1 AND execution = $2 ORDER BY event_id DESC LIMIT $3)
                     RETURNING 1",
                    &[P::Int(key.0), P::Int(oldest), P::Int(integer(left as u64))],
                )
                .await?;
            left -= gone.len();
            pruned.deleted += usize::from(oldest_execution(session, key).await? != Some(oldest));
        }
    }
    Ok(pruned)
}

async fn oldest_execution(session: &Session<'_>, key: InstanceKey) -> Result<Option<i64>, Failure> {
    let row = session
        .query_optional(
            "SELECT execution FROM {schema}.history WHERE instance_key = $1 ORDER BY execution LIMIT 1",
            &[P::Int(key.0)],
        )
        .await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Whether anything is left to be swept.
pub(crate) async fn any_left(connection: &Connection) -> Result<bool, Failure> {
    let row = connection
        .query_one("SELECT EXISTS (SELECT FROM {schema}.deleted_instances)", &[])
        .await?;
    Ok(row.try_get(0)?)
}

/// `true`: some of it may be left. What another process sweeps is left to that.
pub(crate) async fn sweep(session: &Session<'_>, limit: usize) -> Result<bool, Failure> {
    let mut left = limit;
    loop {
        let first = session
            .query_optional(
                "SELECT key FROM {schema}.deleted_instances ORDER BY key LIMIT 1 FOR UPDATE SKIP LOCKED",
                &[],
            )
            .await?;
        let Some(first) = first else { return Ok(false) };
        let key = P::Int(first.try_get(0)?);
        let gone = session
            .query(
                "DELETE FROM {schema}.history WHERE instance_key = $1 AND (execution, event_id) IN (
                   SELECT execution, event_id FROM {schema}.history WHERE instance_key = $1
                   ORDER BY execution DESC, event_id DESC LIMIT $2)
                 RETURNING 1",
                &[key, P::Int(integer(left as u64))],
            )
            .await?;
        left -= gone.len();
        if left == 0 {
            return Ok(true);
        }
        session
            .query("DELETE FROM {schema}.deleted_instances WHERE key = $1", &[key])
            .await?;
    }
}
