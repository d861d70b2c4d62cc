//! Resumption of suspended instances: one by its id, or those that other code did not fit.

use perdure_provider::{InstanceKey, Mismatched, Outcome, ResumeMismatched, Status};
use rusqlite::params;

use super::found::find;
use crate::error::Failure;
use crate::queues;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn resume(session: &mut Session<'_>, id: &str, time_ms: i64) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, id)? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status != Status::Suspended {
        return Ok(Outcome::NotSuspended {
            status: instance.status,
        });
    }
    go_on(session, instance.key, time_ms)?;
    Ok(Outcome::Resumed)
}

/// Reads the index code by code and no further than the limit. Instances that are suspended with the request's own code
/// are stepped over.
pub(crate) fn resume_mismatched(
    session: &mut Session<'_>,
    request: &ResumeMismatched,
) -> Result<Vec<Mismatched>, Failure> {
    let ResumeMismatched {
        name, version, limit, ..
    } = request;
    let (mut code, mut after) = match &request.after {
        Some(last) => (last.code.clone(), last.key.0),
        None => (String::new(), i64::MIN),
    };
    let mut resumed = Vec::new();
    loop {
        if code != request.code {
            let keys: Vec<i64> = session.query_all(
                "SELECT key FROM instances INDEXED BY instances_mismatched
                 WHERE mismatched_code IS NOT NULL AND name = ?1 AND version = ?2 AND mismatched_code = ?3 AND key > ?4
                 ORDER BY key LIMIT ?5",
                params![name, version, code, after, integer((limit - resumed.len()) as u64)],
                |row| row.get(0),
            )?;
            for key in keys.into_iter().map(InstanceKey) {
                go_on(session, key, request.time_ms)?;
                let code = code.clone();
                resumed.push(Mismatched { code, key });
            }
            if resumed.len() == *limit {
                return Ok(resumed);
            }
        }
        let next = session.query_optional(
            "SELECT mismatched_code FROM instances INDEXED BY instances_mismatched
             WHERE mismatched_code IS NOT NULL AND name = ?1 AND version = ?2 AND mismatched_code > ?3
             ORDER BY mismatched_code LIMIT 1",
            params![name, version, code],
            |row| row.get(0),
        )?;
        let Some(next) = next else {
            return Ok(resumed);
        };
        (code, after) = (next, i64::MIN);
    }
}

/// Makes a suspended instance due now or at its start time, or puts it into the line of its queue again. An instance
/// that never had a turn is as it was when it was started.
fn go_on(session: &Session<'_>, key: InstanceKey, time_ms: i64) -> Result<(), Failure> {
    let waits = queues::resume(session, key)?;
    session.execute(
        "UPDATE instances SET status = CASE WHEN turns = 0 AND execution = 1 THEN 'Pending' ELSE 'Running' END,
         wake_at = max(?2, coalesce(start_at, ?2)), start_at = NULL, report = NULL, mismatched_code = NULL,
           suspicion = 0, updated_at = ?3
         WHERE key = ?1",
        params![key.0, (!waits).then_some(session.now_ms()), time_ms],
    )?;
    Ok(())
}
