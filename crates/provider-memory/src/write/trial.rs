//! The begin and the end of a suspect's trial (P14).

use perdure_provider::{Outcome, Trial, TrialStep};

use crate::tables::Tables;

pub(super) fn say(tables: &mut Tables, trial: &Trial) -> Outcome {
    let row = tables.instance(trial.key);
    if !row.is_some_and(|row| row.is_owned(&trial.worker, trial.epoch)) {
        return Outcome::Fenced;
    }
    tables.edit(trial.key, |row| {
        row.on_trial = trial.step;
        if trial.step == TrialStep::End {
            row.suspicion = row.suspicion.after_acquittal();
        }
    });
    Outcome::Noted
}
