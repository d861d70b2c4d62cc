//! The writes of a batch. They run inside one transaction. An error in one of them rolls back the whole batch (P1).
//!
//! Turns, starts and messages are written many at a time, each kind with one statement over arrays. The others are
//! written one by one. A batch is cut into [layers](Layer), so that the writes of one instance come in the order of the
//! batch. Writes of different instances may come in any order: they are from different callers, and none of these was
//! answered yet.

mod append;
mod ask;
mod attempt;
mod batched_starts;
mod cancel;
mod cross_instance;
mod end;
mod events;
mod found;
mod heartbeat;
mod insert;
mod keyed_start;
mod later;
mod layers;
mod lock;
mod mailbox;
mod message;
mod next_state;
mod offer;
mod outgoing;
mod probation;
mod release;
mod resume;
pub(crate) mod single_statement;
mod start;
mod start_with_message;
mod suspend;
mod task_done;
mod terminate;
mod turn;

use perdure_provider::{Outcome, Write};

use crate::error::Failure;
use crate::query::Query;
use crate::session::Session;
use crate::{admission, deletion, tasks};

use layers::Layer;
pub(crate) use resume::resume_mismatched;

/// Runs writes in order. Returns one outcome for each.
pub(crate) async fn run(session: &Session<'_>, writes: &[&Write]) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes: Vec<Option<Outcome>> = writes.iter().map(|_| None).collect();
    for layer in layers::of(writes) {
        run_layer(session, &layer, &mut outcomes).await?;
    }
    let all: Option<Vec<Outcome>> = outcomes.into_iter().collect();
    all.ok_or_else(|| Failure::internal("a write without an outcome"))
}

async fn run_layer(session: &Session<'_>, layer: &Layer<'_>, outcomes: &mut [Option<Outcome>]) -> Result<(), Failure> {
    let (lock, lock_started) = (lock::Lock::of(layer), lock::Lock::of_started(layer));
    for ask in &layer.asks {
        ask.check().map_err(Failure::internal)?;
    }
    for (_, both) in &layer.starting {
        both.check().map_err(Failure::internal)?;
    }
    keyed_start::lock(session, layer).await?;
    let turns = turn::Turns::of(&layer.turns)?;
    let keys = session.connection().keys(layer.starts.len()).await?;
    let all = || layer.starts.iter().map(|(_, instance)| *instance);
    let slots = admission::admit_new(session, all().zip(keys.iter().copied())).await?;
    let starts = insert::Starts::of(&keys, all().map(|instance| (instance, None)), &slots)?;
    let messages = mailbox::Messages::to_ids(layer.messages.iter().map(|(_, outgoing)| *outgoing));
    let (lock, turns, [starts, later]) = (lock.query(), turns.query(session.now()), starts.queries(session));
    let (lock_started, messages) = (lock_started.query(), messages.query(session));
    let queries: Vec<&Query<'_>> = [&lock, &turns, &starts, &later, &lock_started, &messages]
        .into_iter()
        .flatten()
        .collect();
    session.connection().prepare(&queries).await?;
    // Sent in this order, without waiting for the answers in between.
    let (_, turned, started, started_later, _, sent) = tokio::try_join!(
        biased;
        session.run(lock.as_ref()),
        session.run(turns.as_ref()),
        session.run(starts.as_ref()),
        session.run(later.as_ref()),
        session.run(lock_started.as_ref()),
        session.run(messages.as_ref()),
    )?;
    let mut effects = Vec::new();
    turn::outcomes(&layer.turns, &turned, outcomes, &mut effects)?;
    let inserted = insert::AllInserted::of(&started, &started_later)?;
    for ((place, instance), key) in layer.starts.iter().zip(&keys) {
        outcomes[*place] = Some(start::outcome(*place, instance, inserted.get(*key), None, &mut effects));
    }
    for ((place, outgoing), sent) in layer.messages.iter().zip(mailbox::sent(&sent, layer.messages.len())?) {
        outcomes[*place] = Some(ask::outcome(session, *outgoing, sent).await?);
    }
    for (place, both) in &layer.starting {
        // The start was refused, and the instance that had the id was deleted before it was locked.
        if outcomes[*place] == Some(Outcome::NotFound) {
            outcomes[*place] = Some(start_with_message::send(session, both).await?);
        }
    }
    cross_instance::carry_out(session, effects, outcomes).await?;
    turn::tell_status(session, layer, outcomes).await?;
    run_singles(session, &layer.singles, outcomes).await
}

/// Runs writes one after the other, but starts of batches that follow each other together.
async fn run_singles(
    session: &Session<'_>,
    singles: &[(usize, &Write)],
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Failure> {
    let mut of_batches = Vec::new();
    for (place, write) in singles {
        if let Some(start) = batched_starts::of(write) {
            of_batches.push((*place, start));
            continue;
        }
        batched_starts::carry_out(session, std::mem::take(&mut of_batches), outcomes).await?;
        outcomes[*place] = Some(run_one(session, write).await?);
    }
    batched_starts::carry_out(session, of_batches, outcomes).await
}

async fn run_one(session: &Session<'_>, write: &Write) -> Result<Outcome, Failure> {
    match write {
        Write::Terminate(termination) => terminate::terminate(session, termination).await,
        Write::Resume { id, time_ms } => resume::resume(session, id, *time_ms).await,
        Write::Heartbeat(heartbeat) => heartbeat::keep(session, heartbeat).await,
        Write::Append(append) => append::append(session, append).await,
        Write::TaskDone(done) => task_done::done(session, done).await,
        Write::Probation(probation) => probation::note(session, probation).await,
        Write::ReleaseInstance(request) => release::release(session, request).await,
        Write::ReleaseTask(request) => tasks::release_one(session, request).await,
        Write::KeyedStart(keyed) => keyed_start::start(session, keyed).await,
        Write::Start(instance) => start::restart(session, instance).await,
        Write::StartWithMessage(both) => start_with_message::send(session, both).await,
        Write::Suspend(suspension) => suspend::suspend(session, suspension).await,
        Write::Delete { id } => deletion::delete(session, id).await,
        Write::Turn(_) | Write::Message(_) | Write::Ask(_) => {
            Err(Failure::internal("it is written with others of its sort"))
        }
    }
}
