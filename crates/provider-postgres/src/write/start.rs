//! Starts of instances, with the effects of their first turns on other instances.

use perdure_provider::{NewInstance, OnConflict, Outcome};

use super::cross_instance::{self, TurnEffects};
use super::insert::{Inserted, Starts, make_room};
use crate::admission::NewSlots;
use crate::error::Failure;
use crate::session::Session;

/// Returns the outcome of a start, and adds the effects of its first turn on other instances to `effects`.
pub(super) fn outcome<'w>(
    place: usize,
    instance: &'w NewInstance,
    inserted: Result<Inserted, Outcome>,
    terminated: Option<Outcome>,
    effects: &mut Vec<TurnEffects<'w>>,
) -> Outcome {
    let inserted = match inserted {
        Ok(inserted) => inserted,
        Err(refused) => return refused,
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
    let starts = Starts::of(&keys, [(instance, None)], &NewSlots::new())?;
    for _ in 0..ROUNDS_MAX {
        let terminated = make_room(session, instance, None).await?;
        let inserted = starts.insert(session).await?.get(keys[0]);
        let is_in_use = matches!(inserted, Err(Outcome::Exists));
        if is_in_use && instance.on_conflict == OnConflict::TerminateAndRestart {
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
