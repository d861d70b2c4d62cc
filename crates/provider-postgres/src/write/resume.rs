//! Suspended instances are resumed: one by its id, or those that other code did not fit.

use perdure_provider::{InstanceKey, Mismatched, Outcome, ResumeMismatched, Status};

use super::found::find;
use crate::error::Failure;
use crate::params::P;
use crate::queues::{in_queue, is_fair};
use crate::rows::{integer, text};
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

/// Makes suspended instances due now or at their start time, or puts them into the lines of their queues again. An
/// instance that never had a turn is pending, as it was started. One whose start time came while it was suspended gets
/// its place in a fair line only now.
async fn make_due(session: &Session<'_>, keys: &[i64], time_ms: i64) -> Result<(), Failure> {
    named!(
        session.query,
        concat!(
            "WITH waiting AS (
           UPDATE {schema}.queue_places x SET place = CASE WHEN queued_at > coalesce($now, {now}) THEN 3 ELSE 0 END,
             turn = CASE WHEN x.turn = 0 AND queued_at <= coalesce($now, {now}) THEN (
               SELECT CASE WHEN ",
            is_fair!("q.settings"),
            " THEN greatest(q.turn, (
                   SELECT max(o.turn) FROM {schema}.queue_places o
                   WHERE ",
            in_queue!("o.", "x.queue"),
            " AND o.queue_key = x.queue_key)) + 1 ELSE 0 END
               FROM {schema}.queues q WHERE q.name = x.queue) ELSE x.turn END
           WHERE x.key = ANY ($keys::bigint[]) AND place <> 2 RETURNING x.key
         )
         UPDATE {schema}.instances
         SET status = CASE WHEN turns = 0 AND execution = 1 THEN 'Pending' ELSE 'Running' END,
         wake_at = CASE WHEN key NOT IN (SELECT w.key FROM waiting w)
             THEN greatest(start_at, coalesce($now, {now})) END,
           start_at = NULL, report = NULL, mismatched_code = NULL, suspicion = 0, updated_at = $time
         WHERE key = ANY ($keys::bigint[])"
        ),
        { now: session.now(), time: P::Int(time_ms), keys: P::Ints(keys) }
    )
    .await?;
    Ok(())
}

pub(super) async fn resume(session: &Session<'_>, id: &str, time_ms: i64) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, id).await? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status != Status::Suspended {
        return Ok(Outcome::NotSuspended {
            status: instance.status,
        });
    }
    make_due(session, &[instance.key.0], time_ms).await?;
    Ok(Outcome::Resumed)
}

/// Resumes instances that other code did not fit. The index is read code by code, and no further than the limit.
/// Instances that are suspended with the request's own code are skipped.
pub(crate) async fn resume_mismatched(
    session: &Session<'_>,
    request: &ResumeMismatched,
) -> Result<Vec<Mismatched>, Failure> {
    let (name, version) = (encode(&request.name), encode(&request.version));
    let (mut code, mut after) = match &request.after {
        Some(last) => (last.code.clone(), last.key.0),
        None => (String::new(), i64::MIN),
    };
    let mut resumed = Vec::new();
    loop {
        if code != request.code {
            let left = integer((request.limit - resumed.len()) as u64);
            let rows = named!(
                session.query,
                "SELECT key FROM {schema}.instances
                 WHERE mismatched_code IS NOT NULL AND name = $name AND version = $version AND mismatched_code = $code
                 AND key > $after
                 ORDER BY key LIMIT $limit FOR NO KEY UPDATE",
                {
                    name: P::Text(&name),
                    version: P::Text(&version),
                    code: P::Text(&encode(&code)),
                    after: P::Int(after),
                    limit: P::Int(left),
                }
            )
            .await?;
            let keys: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
            make_due(session, &keys, request.time_ms).await?;
            resumed.extend(keys.into_iter().map(|key| Mismatched {
                code: code.clone(),
                key: InstanceKey(key),
            }));
            if resumed.len() == request.limit {
                return Ok(resumed);
            }
        }
        let next = named!(
            session.query_optional,
            "SELECT mismatched_code FROM {schema}.instances
             WHERE mismatched_code IS NOT NULL AND name = $name AND version = $version AND mismatched_code > $code
             ORDER BY mismatched_code LIMIT 1",
            { name: P::Text(&name), version: P::Text(&version), code: P::Text(&encode(&code)) }
        )
        .await?;
        let Some(next) = next else {
            return Ok(resumed);
        };
        (code, after) = (text(&next, 0)?, i64::MIN);
    }
}
