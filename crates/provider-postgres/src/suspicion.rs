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
use crate::statement::named;
use crate::tasks::parts::give_back;
use crate::text::encode;
use crate::{takeovers, worker};

/// The suspicion of an instance, at least of the step from which on it is tried alone. [`Suspicion`] tells the digits.
macro_rules! isolated {
    () => {
        "suspicion - suspicion % 10 + greatest(suspicion % 10, $isolated)"
    };
}

/// Clears the owner of some instances. `next` is their suspicion from now on, or NULL if it does not change.
/// The instances with enough evidence are suspended. The others rest for each piece of evidence.
macro_rules! release {
    ($next:expr, $which:literal) => {
        concat!(
            "UPDATE {schema}.instances i SET owner = NULL, probation = 0, suspicion = coalesce(s.next, i.suspicion),
  wake_at = CASE WHEN s.evidence >= $enough THEN NULL ELSE coalesce($now, {now}) + coalesce(s.evidence, 0) * $rest END,
  status = CASE WHEN s.evidence >= $enough THEN 'Suspended' ELSE i.status END,
  report = CASE WHEN s.evidence >= $enough THEN $report ELSE i.report END,
  updated_at = CASE WHEN s.evidence >= $enough THEN coalesce($now, {now}) ELSE i.updated_at END
FROM (SELECT key, next, greatest(0, next % 10 - $isolated) + next / 10 AS evidence FROM (
  SELECT key, ",
            $next,
            " AS next FROM {schema}.instances WHERE owner = $owner",
            $which,
            " ORDER BY key FOR NO KEY UPDATE
) locked) s WHERE i.key = s.key RETURNING i.key, i.epoch, i.status, i.id, i.name, i.version, i.execution"
        )
    };
}

/// Releases all instances that a dead worker owned.
const OF_DEAD: &str = release!(
    concat!(
        "CASE WHEN probation = 2 THEN ",
        isolated!(),
        " + 1 WHEN probation = 3 THEN ",
        isolated!(),
        " + 10 WHEN suspicion % 10 < $suspect THEN suspicion + 1 WHEN probation = 1 THEN ",
        isolated!(),
        " ELSE suspicion END"
    ),
    ""
);

/// Releases the instances that a worker releases: all but those that it keeps. One of them may be accused because its
/// turn holds up the thread.
const RELEASED: &str = release!(
    concat!("CASE WHEN key = $key AND epoch = $epoch THEN ", isolated!(), " + 1 END"),
    " AND key <> ALL ($kept::bigint[])"
);

const TASKS_RELEASED: &str = concat!(
    give_back!(),
    " WHERE owner = $owner AND NOT EXISTS (
  SELECT FROM {k}
  WHERE k.instance_key = t.instance_key AND k.execution = t.execution AND k.event_id = t.event_id)"
);

/// Releases a worker that has died, as [`worker::release`] does. Its instances are under suspicion (P14).
pub(crate) async fn take_over(session: &Session<'_>, worker: &WorkerId, report: &str) -> Result<TakenOver, Failure> {
    let removed = session
        .query(
            "DELETE FROM {schema}.workers WHERE id = $1 RETURNING name",
            &[P::Text(&worker.0)],
        )
        .await?;
    if let Some(row) = removed.first() {
        takeovers::note(session, worker, row.try_get(0)?).await?;
    }
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
            "SELECT id FROM {schema}.workers WHERE lease_until <= coalesce($1, {now})
             ORDER BY lease_until, id FOR UPDATE SKIP LOCKED",
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
    let rows = named!(
        session.query,
        OF_DEAD,
        {
            now: session.now(),
            report: P::Text(&report),
            enough: P::Int(Suspicion::EVIDENCE_MAX.into()),
            isolated: P::Int(Suspicion::ISOLATED.0.into()),
            rest: P::Int(REST_MS),
            owner: P::Text(&worker.0),
            suspect: P::Int(Suspicion::SUSPECT.0.into()),
        }
    )
    .await?;
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
    let released = named!(
        session.query,
        RELEASED,
        {
            now: session.now(),
            report: P::Text(&report),
            enough: P::Int(Suspicion::EVIDENCE_MAX.into()),
            isolated: P::Int(Suspicion::ISOLATED.0.into()),
            rest: P::Int(REST_MS),
            owner: P::Text(&request.worker.0),
            key: P::MaybeInt(key.map(|key| key.0)),
            epoch: P::MaybeInt(epoch.map(|epoch| integer(epoch.0))),
            kept: P::Ints(&kept),
        }
    )
    .await?;
    let mut given = ReleasedMost::default();
    for row in released {
        let released = (InstanceKey(row.try_get(0)?), Epoch(number(&row, 1)?));
        given.instances.push(released);
        given.poison_pill = given.poison_pill.or(poison_pill(&row)?);
    }
    let tasks = &request.kept_tasks;
    let keys: Vec<i64> = tasks.iter().map(|task| task.key.0).collect();
    let executions: Vec<i64> = tasks.iter().map(|task| integer(task.execution.0)).collect();
    let events: Vec<i64> = tasks.iter().map(|task| integer(task.scheduled.0)).collect();
    named!(
        session.query,
        TASKS_RELEASED,
        { now: session.now(), owner: P::Text(&request.worker.0) },
        k { instance_key: P::Ints(&keys), execution: P::Ints(&executions), event_id: P::Ints(&events) }
    )
    .await?;
    Ok(given)
}
