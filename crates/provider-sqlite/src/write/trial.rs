//! The begin and the end of a suspect's trial (P14).

use perdure_provider::{Outcome, Suspicion, Trial, TrialStep};
use rusqlite::params;

use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn say(session: &Session<'_>, trial: &Trial) -> Result<Outcome, Failure> {
    let fence = (trial.key.0, &*trial.worker.0, integer(trial.epoch.0));
    let noted = session.execute(
        "UPDATE instances SET on_trial = ?4, suspicion = CASE WHEN ?4 = ?5 AND suspicion = ?6 THEN ?7 ELSE suspicion END
         WHERE key = ?1 AND owner = ?2 AND epoch = ?3",
        params![
            fence.0,
            fence.1,
            fence.2,
            trial.step.number(),
            TrialStep::End.number(),
            Suspicion::ACCUSED.0,
            Suspicion::ACCUSED.after_acquittal().0,
        ],
    )?;
    Ok(if noted == 1 { Outcome::Noted } else { Outcome::Fenced })
}
