//! The writes of a batch. They run inside one transaction. An error in one of them rolls back the whole batch (P1).
//!
//! Turns, starts and messages are written many at a time, each kind with one statement over arrays. The others are
//! written one by one. A batch is cut into [layers](Layer), so that the writes of one instance come in the order of the
//! batch. Writes of different instances may come in any order: they are from different callers, and none of these was
//! answered yet.

mod cancel;
mod cross_instance;
mod events;
mod heartbeat;
mod insert;
mod layers;
mod lock;
mod mailbox;
mod probation;
mod release;
mod resume;
pub(crate) mod single_statement;
mod suspend;
mod task_done;
mod terminate;
mod turn;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{Epoch, InstanceKey, Outcome, Status, WorkerId, Write};
use tokio_postgres::Row;

use crate::connection::Ask;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number, status, worker};
use crate::session::Session;
use crate::{deletion, tasks};

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
    let lock = lock::Lock::of(layer);
    let turns = turn::Turns::of(&layer.turns)?;
    let keys = session.connection().keys(layer.starts.len()).await?;
    let starts = insert::Starts::of(&keys, layer.starts.iter().map(|(_, instance)| (*instance, None)))?;
    let messages = mailbox::Messages::to_ids(layer.messages.iter().map(|(_, message)| *message));
    let (lock, turns, starts) = (lock.ask(), turns.ask(session.now()), starts.ask(session));
    let messages = messages.ask(session);
    let asks: Vec<&Ask<'_>> = [&lock, &turns, &starts, &messages].into_iter().flatten().collect();
    session.connection().prepare(&asks).await?;
    // Sent in this order, without waiting for the answers in between.
    let (_, turned, started, sent) = tokio::try_join!(
        biased;
        session.run(lock.as_ref()),
        session.run(turns.as_ref()),
        session.run(starts.as_ref()),
        session.run(messages.as_ref()),
    )?;
    let mut deeds = Vec::new();
    turn::outcomes(&layer.turns, &turned, outcomes, &mut deeds)?;
    let made = insert::AllMade::of(&started)?;
    for ((place, instance), key) in layer.starts.iter().zip(&keys) {
        outcomes[*place] = Some(insert::outcome(*place, instance, made.get(*key), &mut deeds));
    }
    for ((place, message), sent) in layer.messages.iter().zip(mailbox::sent(&sent, layer.messages.len())?) {
        outcomes[*place] = Some(cancel::outcome(session, message, sent).await?);
    }
    cross_instance::carry_out(session, deeds, outcomes).await?;
    turn::tell_status(session, layer, outcomes).await?;
    for (place, write) in &layer.singles {
        outcomes[*place] = Some(run_one(session, write).await?);
    }
    Ok(())
}

async fn run_one(session: &Session<'_>, write: &Write) -> Result<Outcome, Failure> {
    match write {
        Write::Terminate(termination) => terminate::terminate(session, termination).await,
        Write::Resume { id, time_ms } => resume::resume(session, id, *time_ms).await,
        Write::Heartbeat(heartbeat) => heartbeat::keep(session, heartbeat).await,
        Write::TaskDone(done) => task_done::done(session, done).await,
        Write::Probation(probation) => probation::say(session, probation).await,
        Write::ReleaseInstance(request) => release::release(session, request).await,
        Write::ReleaseTask(request) => tasks::release_one(session, request).await,
        Write::Start(instance) => insert::restart(session, instance).await,
        Write::Suspend(suspension) => suspend::suspend(session, suspension).await,
        Write::Delete { id } => deletion::delete(session, id).await,
        Write::Turn(_) | Write::Message(_) => Err(Failure::internal("it is written with others of its sort")),
    }
}

/// An instance, for writes that do not come from its owner. Its row is locked.
struct Found {
    key: InstanceKey,
    status: Status,
    owner: Option<WorkerId>,
    execution: ExecutionId,
    next_event_id: EventId,
    epoch: Epoch,
}

async fn find(session: &Session<'_>, id: &str) -> Result<Option<Found>, Failure> {
    let id = crate::text::encode(id);
    let row = session
        .query_optional(
            "SELECT key, status, owner, execution, next_event_id, epoch FROM {schema}.instances WHERE id = $1 FOR NO KEY UPDATE",
            &[P::Text(&id)],
        )
        .await?;
    row.map(|row| found(&row)).transpose()
}

async fn find_by_key(session: &Session<'_>, key: InstanceKey) -> Result<Option<Found>, Failure> {
    let row = session
        .query_optional(
            "SELECT key, status, owner, execution, next_event_id, epoch FROM {schema}.instances WHERE key = $1 FOR NO KEY UPDATE",
            &[P::Int(key.0)],
        )
        .await?;
    row.map(|row| found(&row)).transpose()
}

fn found(row: &Row) -> Result<Found, Failure> {
    Ok(Found {
        key: InstanceKey(row.try_get(0)?),
        status: status(row, 1)?,
        owner: worker(row, 2)?,
        execution: ExecutionId(number(row, 3)?),
        next_event_id: EventId(number(row, 4)?),
        epoch: Epoch(number(row, 5)?),
    })
}

/// Returns a place among the writes as a column.
fn place(n: usize) -> i64 {
    integer(n as u64)
}
