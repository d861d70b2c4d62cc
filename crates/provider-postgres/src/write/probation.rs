//! Probations of suspects (P14): a probation begins or ends.

use perdure_provider::{Outcome, Probation, ProbationStep, Suspicion};

use crate::error::Failure;
use crate::params::P;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

pub(super) async fn note(session: &Session<'_>, probation: &Probation) -> Result<Outcome, Failure> {
    let noted = named!(
        session.query_optional,
        "UPDATE {schema}.instances
         SET probation = $step, suspicion = CASE WHEN $step <> $end THEN suspicion
           WHEN suspicion % 10 = $isolated THEN $after ELSE suspicion % 10 END
         WHERE key = $key AND (owner = $owner) IS TRUE AND epoch = $epoch RETURNING 1",
        {
            key: P::Int(probation.key.0),
            owner: P::Text(&probation.worker.0),
            epoch: P::Int(integer(probation.epoch.0)),
            step: P::Int(probation.step.number().into()),
            end: P::Int(ProbationStep::End.number().into()),
            isolated: P::Int(Suspicion::ISOLATED.0.into()),
            after: P::Int(Suspicion::ISOLATED.after_probation().0.into()),
        }
    )
    .await?;
    Ok(noted.map_or(Outcome::Fenced, |_| Outcome::Noted))
}
