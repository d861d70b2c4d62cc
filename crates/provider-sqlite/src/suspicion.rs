//! Suspicion against instances (P14): a worker died that owned them, or a turn of one held up its worker's thread.

use perdure_provider::{InstanceKey, PoisonPill, REST_MS, ReleaseMost, ReleasedMost, Suspicion, TakenOver, WorkerId};
use rusqlite::{Row, params};

use crate::error::Failure;
use crate::rows::{integer, number};
use crate::session::Session;
use crate::statement::named;
use crate::worker::{self, id};
use crate::{registration, takeovers};

/// The suspicion of an instance, at least of the step from which on it is tried alone. [`Suspicion`] tells the digits.
macro_rules! isolated {
    () => {
        "suspicion - suspicion % 10 + max(suspicion % 10, $isolated)"
    };
}

/// Builds the update that clears the owner of some instances and sets their suspicion to `next`. The instances with
/// enough evidence are suspended. The others rest for each piece of evidence.
macro_rules! release {
    ($next:expr, $which:literal) => {
        concat!(
            "UPDATE instances SET owner = NULL, probation = 0, suspicion = s.next,
               wake_at = CASE WHEN s.evidence < $enough THEN $now + s.evidence * $rest END,
               status = CASE WHEN s.evidence < $enough THEN status ELSE 'Suspended' END,
               report = CASE WHEN s.evidence < $enough THEN report ELSE $report END,
               updated_at = CASE WHEN s.evidence < $enough THEN updated_at ELSE $now END
             FROM (SELECT seen, next, max(0, next % 10 - $isolated) + next / 10 AS evidence
               FROM (SELECT key AS seen, ",
            $next,
            " AS next FROM instances WHERE ",
            $which,
            ")) s WHERE key = s.seen RETURNING status, id, name, version, execution"
        )
    };
}

/// All instances that a dead worker owned.
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
    "owner = $owner"
);

/// The instance whose turn holds up a thread.
const STALLED: &str = release!(
    concat!(isolated!(), " + 1"),
    "key = $key AND owner = $owner AND epoch = $epoch"
);

/// Does the same as [`worker::release`] for a worker that has died. The instances that it owned come under suspicion
/// (P14).
pub(crate) fn take_over(session: &mut Session<'_>, worker: &WorkerId, report: &str) -> Result<TakenOver, Failure> {
    let was_registered = registration::is_registered(session, worker)?;
    takeovers::note(session, worker)?;
    let poison_pills = release_of_dead(session, worker, report)?;
    worker::release(session, worker)?;
    Ok(TakenOver {
        workers: was_registered.then(|| worker.clone()).into_iter().collect(),
        poison_pills,
    })
}

/// Does the same as [`take_over`] for each worker whose lease has ended by the store's clock (P9).
pub(crate) fn take_over_expired(session: &mut Session<'_>, report: &str) -> Result<TakenOver, Failure> {
    // The table has a few rows, one for each running process, so no index is kept.
    let mut statement = session
        .connection()
        .prepare_cached("SELECT id FROM workers WHERE lease_until <= ?1 ORDER BY lease_until, id")?;
    let expired: Vec<WorkerId> = statement
        .query_map(params![session.now_ms()], |row| id(row, 0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut all = TakenOver::default();
    for worker in &expired {
        let TakenOver { workers, poison_pills } = take_over(session, worker, report)?;
        all.workers.extend(workers);
        all.poison_pills.extend(poison_pills);
    }
    Ok(all)
}

/// Releases the instances of a dead worker, which fences off the former owner from all of them. Returns the instances
/// that are suspended by that.
pub(crate) fn release_of_dead(
    session: &Session<'_>,
    worker: &WorkerId,
    report: &str,
) -> Result<Vec<PoisonPill>, Failure> {
    let poison_pills = named!(
        session.query_all,
        OF_DEAD,
        {
            now: session.now_ms(),
            report: report,
            enough: Suspicion::EVIDENCE_MAX,
            isolated: Suspicion::ISOLATED.0,
            rest: REST_MS,
            owner: &*worker.0,
            suspect: Suspicion::SUSPECT.0,
        },
        poison_pill
    )?;
    Ok(poison_pills.into_iter().flatten().collect())
}

/// Returns the poison pill of a row, or `None` if the instance was not suspended and is only due again.
fn poison_pill(row: &Row<'_>) -> rusqlite::Result<Option<PoisonPill>> {
    if row.get_ref(0)?.as_str()? != "Suspended" {
        return Ok(None);
    }
    Ok(Some(PoisonPill {
        id: row.get(1)?,
        name: row.get(2)?,
        version: row.get(3)?,
        execution: number(row, 4)?,
    }))
}

pub(crate) fn release_most(session: &mut Session<'_>, request: &ReleaseMost) -> Result<ReleasedMost, Failure> {
    let worker = &*request.worker.0;
    let mut given = ReleasedMost::default();
    if let Some((key, epoch)) = request.stalled {
        let stalled = named!(
            session.query_optional,
            STALLED,
            {
                now: session.now_ms(),
                report: request.report,
                enough: Suspicion::EVIDENCE_MAX,
                isolated: Suspicion::ISOLATED.0,
                rest: REST_MS,
                key: key.0,
                owner: worker,
                epoch: integer(epoch.0),
            },
            poison_pill
        )?;
        if let Some(poison_pill) = stalled {
            given.instances.push((key, epoch));
            given.poison_pill = poison_pill;
        }
    }
    let owned = session.query_all(
        "SELECT key, epoch FROM instances WHERE owner = ?1",
        params![worker],
        |row| Ok((InstanceKey(row.get(0)?), perdure_provider::Epoch(number(row, 1)?))),
    )?;
    for (key, epoch) in owned {
        if !request.kept.contains(&key) {
            session.execute(
                "UPDATE instances SET owner = NULL, probation = 0, wake_at = ?2 WHERE key = ?1",
                params![key.0, session.now_ms()],
            )?;
            given.instances.push((key, epoch));
        }
    }
    for task in crate::tasks::of_worker(session.connection(), &request.worker)? {
        if !request.kept_tasks.contains(&task) {
            crate::tasks::give_back(session, &request.worker, &task)?;
        }
    }
    Ok(given)
}
