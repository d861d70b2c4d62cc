//! Suspicion against instances (P14): a worker that owned them died, or a turn of one of them held up its worker's
//! thread.

use perdure_provider::{
    Epoch, InstanceKey, PoisonPill, REST_MS, ReleaseMost, ReleasedMost, Suspicion, TakenOver, WorkerId,
};
use tokio_postgres::Row;

use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number, text, worker as id};
use crate::session::Session;
use crate::text::encode;
use crate::worker;

/// Clears the owner of some instances. `next` is their suspicion from now on, or NULL if it does not change.
/// Parameters: 1 now, 2 the report, 3 the suspicion that suspends an instance, 4 the most suspicion without evidence, 5
/// the rest for each piece of evidence, 6 the owner.
macro_rules! release {
    ($next:literal, $which:literal) => {
        concat!(
            "UPDATE {schema}.instances i SET owner = NULL, probation = 0, suspicion = coalesce(s.next, i.suspicion),
  wake_at = CASE WHEN s.next >= $3 THEN NULL ELSE coalesce($1, {now}) + greatest(0, s.next - $4) * $5 END,
  status = CASE WHEN s.next >= $3 THEN 'Suspended' ELSE i.status END,
  report = CASE WHEN s.next >= $3 THEN $2 ELSE i.report END,
  updated_at = CASE WHEN s.next >= $3 THEN coalesce($1, {now}) ELSE i.updated_at END
FROM (
  SELECT key, ",
            $next,
            " AS next FROM {schema}.instances WHERE owner = $6",
            $which,
            " ORDER BY key FOR NO KEY UPDATE
) s WHERE i.key = s.key RETURNING i.key, i.epoch, i.status, i.id, i.name, i.version, i.execution"
        )
    };
}

/// Releases all instances that a dead worker owned.
const OF_DEAD: &str = release!(
    "CASE WHEN probation = 2 THEN greatest(suspicion, $4) + 1 WHEN suspicion < $7 THEN suspicion + 1
    WHEN probation = 1 THEN greatest(suspicion, $4) ELSE suspicion END",
    ""
);

/// Releases the instances that a worker releases: all but those that it keeps. One of them may be accused because its
/// turn holds up the thread.
const RELEASED: &str = release!(
    "CASE WHEN key = $7 AND epoch = $8 THEN greatest(suspicion, $4) + 1 END",
    " AND key <> ALL ($9::bigint[])"
);

const TASKS_RELEASED: &str = "UPDATE {schema}.tasks t SET owner = NULL WHERE owner = $1 AND NOT EXISTS (
  SELECT FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS k (instance_key, execution, event_id)
  WHERE k.instance_key = t.instance_key AND k.execution = t.execution AND k.event_id = t.event_id)";

/// Returns the first parameters of both statements.
fn params<'p>(session: &Session<'_>, worker: &'p WorkerId, report: &'p str) -> Vec<P<'p>> {
    vec![
        session.now(),
        P::Text(report),
        P::Int(Suspicion::MAX.0.into()),
        P::Int(Suspicion::ISOLATED.0.into()),
        P::Int(REST_MS),
        P::Text(&worker.0),
    ]
}

/// Releases a worker that has died, as [`worker::release`] does. Its instances are under suspicion (P14).
pub(crate) async fn take_over(session: &Session<'_>, worker: &WorkerId, report: &str) -> Result<TakenOver, Failure> {
    let removed = session
        .query(
            "DELETE FROM {schema}.workers WHERE id = $1 RETURNING 1",
            &[P::Text(&worker.0)],
        )
        .await?;
    let poison_pills = release_of_dead(session, worker, report).await?;
    worker::release(session, worker).await?;
    Ok(TakenOver {
        workers: removed.first().map(|_| worker.clone()).into_iter().collect(),
        poison_pills,
    })
}

/// Takes over ([`take_over`]) each worker whose lease has ended, unless another process is about to.
pub(crate) async fn take_over_expired(session: &Session<'_>, report: &str) -> Result<TakenOver, Failure> {
    let rows = session
        .query(
            "SELECT id FROM {schema}.workers WHERE lease_until <= coalesce($1, {now}) ORDER BY lease_until, id FOR UPDATE SKIP LOCKED",
            &[session.now()],
        )
        .await?;
    let mut expired = Vec::new();
    for row in &rows {
        expired.extend(id(row, 0)?);
    }
    let mut all = TakenOver::default();
    for worker in &expired {
        let TakenOver { workers, poison_pills } = take_over(session, worker, report).await?;
        all.workers.extend(workers);
        all.poison_pills.extend(poison_pills);
    }
    Ok(all)
}

/// Releases the instances of a dead worker, which is fenced off from all of them. Returns the instances that are
/// suspended by that.
pub(crate) async fn release_of_dead(
    session: &Session<'_>,
    worker: &WorkerId,
    report: &str,
) -> Result<Vec<PoisonPill>, Failure> {
    let report = encode(report);
    let mut params = params(session, worker, &report);
    params.push(P::Int(Suspicion::SUSPECT.0.into()));
    let rows = session.query(OF_DEAD, &params).await?;
    let poison_pills: Result<Vec<_>, _> = rows.iter().map(poison_pill).collect();
    Ok(poison_pills?.into_iter().flatten().collect())
}

/// Returns `None` if the instance was not suspended. It is as it was, but due.
fn poison_pill(row: &Row) -> Result<Option<PoisonPill>, Failure> {
    if row.try_get::<_, &str>(2)? != "Suspended" {
        return Ok(None);
    }
    Ok(Some(PoisonPill {
        id: text(row, 3)?,
        name: text(row, 4)?,
        version: text(row, 5)?,
        execution: number(row, 6)?,
    }))
}

pub(crate) async fn release_most(session: &Session<'_>, request: &ReleaseMost) -> Result<ReleasedMost, Failure> {
    let report = encode(&request.report);
    let kept: Vec<i64> = request.kept.iter().map(|key| key.0).collect();
    let (key, epoch) = request.stalled.unzip();
    let mut params = params(session, &request.worker, &report);
    params.extend([
        P::MaybeInt(key.map(|key| key.0)),
        P::MaybeInt(epoch.map(|epoch| integer(epoch.0))),
        P::Ints(&kept),
    ]);
    let mut given = ReleasedMost::default();
    for row in session.query(RELEASED, &params).await? {
        let released = (InstanceKey(row.try_get(0)?), Epoch(number(&row, 1)?));
        given.instances.push(released);
        given.poison_pill = given.poison_pill.or(poison_pill(&row)?);
    }
    let tasks = &request.kept_tasks;
    let keys: Vec<i64> = tasks.iter().map(|task| task.key.0).collect();
    let executions: Vec<i64> = tasks.iter().map(|task| integer(task.execution.0)).collect();
    let events: Vec<i64> = tasks.iter().map(|task| integer(task.scheduled.0)).collect();
    let params = [
        P::Text(&request.worker.0),
        P::Ints(&keys),
        P::Ints(&executions),
        P::Ints(&events),
    ];
    session.query(TASKS_RELEASED, &params).await?;
    Ok(given)
}
