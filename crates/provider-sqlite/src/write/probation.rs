//! The begin and the end of a suspect's probation (P14).

use perdure_provider::{Outcome, Probation, ProbationStep, Suspicion};

use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

pub(super) fn note(session: &Session<'_>, probation: &Probation) -> Result<Outcome, Failure> {
    let noted = named!(
        session.execute,
        "UPDATE instances SET probation = $step,
           suspicion = CASE WHEN $step <> $end THEN suspicion
             WHEN suspicion % 10 = $isolated THEN $after ELSE suspicion % 10 END
         WHERE key = $key AND owner = $owner AND epoch = $epoch",
        {
            key: probation.key.0,
            owner: &*probation.worker.0,
            epoch: integer(probation.epoch.0),
            step: probation.step.number(),
            end: ProbationStep::End.number(),
            isolated: Suspicion::ISOLATED.0,
            after: Suspicion::ISOLATED.after_probation().0,
        }
    )?;
    Ok(if noted == 1 { Outcome::Noted } else { Outcome::Fenced })
}
