//! Starts of instances, with the effects of their first turns on other instances.

use perdure_provider::{NewInstance, OnConflict, Outcome};

use super::cross_instance::{self, TurnEffects};
use super::insert::{AllInserted, Inserted, NewInstances, make_room};
use crate::error::Failure;
use crate::session::Session;

/// Returns the outcome of a start, and adds the effects of its first turn on other instances to `effects`.
pub(super) fn outcome<'w>(
    place: usize,
    instance: &'w NewInstance,
    inserted: Option<Inserted>,
    terminated: Option<Outcome>,
    effects: &mut Vec<TurnEffects<'w>>,
) -> Outcome {
    let Some(inserted) = inserted else {
        return Outcome::Exists;
    };
    if let Some(turn) = instance.first_turn.as_deref().filter(|_| inserted.is_claimed) {
        effects.extend(TurnEffects::of(place, turn, inserted.key, None));
    }
    inserted.outcome(instance, terminated)
}

/// Most rounds of a start that replaces any instance. In each round but the last, another start takes the id between
/// the removal and the insertion.
const ROUNDS_MAX: u32 = 16;

/// Runs a start that may replace another instance.
pub(super) async fn restart(session: &Session<'_>, instance: &NewInstance) -> Result<Outcome, Failure> {
    let keys = session.connection().keys(1).await?;
    let starts = NewInstances::of(&keys, [(instance, None)])?;
    for _ in 0..ROUNDS_MAX {
        let terminated = make_room(session, instance, None).await?;
        let rows = session.run(starts.query(session).as_ref()).await?;
        let inserted = AllInserted::of(&rows)?.get(keys[0]);
        if inserted.is_none() && instance.on_conflict == OnConflict::TerminateAndRestart {
            continue;
        }
        let mut effects = Vec::new();
        let mut outcomes = [Some(outcome(0, instance, inserted, terminated, &mut effects))];
        cross_instance::carry_out(session, effects, &mut outcomes).await?;
        let [outcome] = outcomes;
        return outcome.ok_or_else(|| Failure::internal("a start without an outcome"));
    }
    Ok(Outcome::Exists)
}
