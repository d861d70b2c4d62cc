//! Probations of suspects (P14): a probation begins or ends.

use perdure_provider::{Outcome, Probation, ProbationStep, Suspicion};

use crate::error::Failure;
use crate::params::P;
use crate::rows::integer;
use crate::session::Session;

pub(super) async fn note(session: &Session<'_>, probation: &Probation) -> Result<Outcome, Failure> {
    let noted = session
        .query_optional(
            "UPDATE {schema}.instances
             SET probation = $4, suspicion = CASE WHEN $4 = $5 AND suspicion = $6 THEN $7 ELSE suspicion END
             WHERE key = $1 AND owner = $2 AND epoch = $3 RETURNING 1",
            &[
                P::Int(probation.key.0),
                P::Text(&probation.worker.0),
                P::Int(integer(probation.epoch.0)),
                P::Int(probation.step.number().into()),
                P::Int(ProbationStep::End.number().into()),
                P::Int(Suspicion::ISOLATED.0.into()),
                P::Int(Suspicion::ISOLATED.after_probation().0.into()),
            ],
        )
        .await?;
    Ok(noted.map_or(Outcome::Fenced, |_| Outcome::Noted))
}
