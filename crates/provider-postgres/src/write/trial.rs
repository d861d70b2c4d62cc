//! Trials of suspects (P14): a trial begins or ends.

use perdure_provider::{Outcome, Suspicion, Trial, TrialStep};

use crate::error::Failure;
use crate::params::P;
use crate::rows::integer;
use crate::session::Session;

pub(super) async fn say(session: &Session<'_>, trial: &Trial) -> Result<Outcome, Failure> {
    let noted = session
        .query_optional(
            "UPDATE {schema}.instances
             SET on_trial = $4, suspicion = CASE WHEN $4 = $5 AND suspicion = $6 THEN $7 ELSE suspicion END
             WHERE key = $1 AND owner = $2 AND epoch = $3 RETURNING 1",
            &[
                P::Int(trial.key.0),
                P::Text(&trial.worker.0),
                P::Int(integer(trial.epoch.0)),
                P::Int(trial.step.number().into()),
                P::Int(TrialStep::End.number().into()),
                P::Int(Suspicion::ACCUSED.0.into()),
                P::Int(Suspicion::ACCUSED.after_acquittal().0.into()),
            ],
        )
        .await?;
    Ok(noted.map_or(Outcome::Fenced, |_| Outcome::Noted))
}
