//! The begin and the end of a suspect's probation (P14).

use perdure_provider::{Outcome, Probation, ProbationStep};

use crate::tables::Tables;

pub(super) fn note(tables: &mut Tables, probation: &Probation) -> Outcome {
    let row = tables.instance(probation.key);
    if !row.is_some_and(|row| row.is_owned(&probation.worker, probation.epoch)) {
        return Outcome::Fenced;
    }
    tables.edit(probation.key, |row| {
        row.probation = probation.step;
        if probation.step == ProbationStep::End {
            row.suspicion = row.suspicion.after_probation();
        }
    });
    Outcome::Noted
}
