//! The begin and the end of a suspect's probation (P14).

use perdure_provider::{Outcome, Probation, ProbationStep, Suspicion};
use rusqlite::params;

use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn note(session: &Session<'_>, probation: &Probation) -> Result<Outcome, Failure> {
    let fence = (probation.key.0, &*probation.worker.0, integer(probation.epoch.0));
    let noted = session.execute(
        "UPDATE instances SET probation = ?4, suspicion = CASE WHEN ?4 = ?5 AND suspicion = ?6 THEN ?7 ELSE suspicion END
         WHERE key = ?1 AND owner = ?2 AND epoch = ?3",
        params![
            fence.0,
            fence.1,
            fence.2,
            probation.step.number(),
            ProbationStep::End.number(),
            Suspicion::ISOLATED.0,
            Suspicion::ISOLATED.after_probation().0,
        ],
    )?;
    Ok(if noted == 1 { Outcome::Noted } else { Outcome::Fenced })
}
