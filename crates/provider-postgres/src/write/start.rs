//! Starts of instances, with the effects of their first turns on other instances.

use perdure_provider::{NewInstance, Outcome};

use super::cross_instance::{self, TurnEffects};
use super::insert::{AllInserted, Inserted, NewInstances, make_room};
use crate::error::Failure;
use crate::session::Session;

/// Returns the outcome of a start, and adds the effects of its first turn on other instances to `effects`.
pub(super) fn outcome<'w>(
    place: usize,
    instance: &'w NewInstance,
    inserted: Option<Inserted>,
    effects: &mut Vec<TurnEffects<'w>>,
) -> Outcome {
    let Some(inserted) = inserted else {
        return Outcome::Exists;
    };
    if let Some(turn) = instance.first_turn.as_deref().filter(|_| inserted.is_claimed) {
        effects.extend(TurnEffects::of(place, turn, inserted.key, None));
    }
    inserted.outcome(instance)
}

/// Runs a start that may replace an instance that has ended.
pub(super) async fn restart(session: &Session<'_>, instance: &NewInstance) -> Result<Outcome, Failure> {
    make_room(session, instance).await?;
    let keys = session.connection().keys(1).await?;
    let starts = NewInstances::of(&keys, [(instance, None)])?;
    let rows = session.run(starts.query(session).as_ref()).await?;
    let mut effects = Vec::new();
    let inserted = AllInserted::of(&rows)?.get(keys[0]);
    let mut outcomes = [Some(outcome(0, instance, inserted, &mut effects))];
    cross_instance::carry_out(session, effects, &mut outcomes).await?;
    let [outcome] = outcomes;
    outcome.ok_or_else(|| Failure::internal("a start without an outcome"))
}
