//! The writes of a batch, each in a file of its own. They run inside the writer's transaction. An error in one write
//! rolls the whole batch back (P1).

mod cancel;
mod cross_instance;
mod heartbeat;
mod message;
mod probation;
mod release;
mod resume;
mod start;
mod suspend;
mod task_done;
mod terminate;
mod turn;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{Epoch, InstanceKey, Outcome, Status, WorkerId, Write};
use rusqlite::{Row, params};

use crate::error::Failure;
use crate::rows::{integer, number, status};
use crate::session::Session;
use crate::{deletion, tasks};

pub(crate) use resume::resume_mismatched;

pub(crate) fn run(session: &mut Session<'_>, write: &Write) -> Result<Outcome, Failure> {
    match write {
        Write::Turn(turn) => turn::commit(session, turn, turn.key, turn.epoch),
        Write::Start(instance) => start::start(session, instance, None),
        Write::Message(message) => message::send(session, message),
        Write::Terminate(termination) => terminate::terminate(session, termination),
        Write::Suspend(suspension) => suspend::suspend(session, suspension),
        Write::Resume { id, time_ms } => resume::resume(session, id, *time_ms),
        Write::Delete { id } => deletion::delete(session, id),
        Write::Heartbeat(heartbeat) => heartbeat::keep(session, heartbeat),
        Write::TaskDone(done) => task_done::done(session, done),
        Write::Probation(probation) => probation::say(session, probation),
        Write::ReleaseInstance(request) => release::release(session, request),
        Write::ReleaseTask(request) => tasks::release_one(session, request),
    }
}

/// An instance as the writes that do not come from its owner need it.
struct Found {
    key: InstanceKey,
    status: Status,
    owner: Option<WorkerId>,
    epoch: Epoch,
    execution: ExecutionId,
    next_event_id: EventId,
    unread: u64,
}

macro_rules! found_where {
    ($which:literal) => {
        concat!(
            "SELECT key, status, owner, execution, next_event_id, unread, epoch FROM instances WHERE ",
            $which
        )
    };
}

fn find(session: &Session<'_>, id: &str) -> Result<Option<Found>, Failure> {
    session.query_optional(found_where!("id = ?1"), params![id], found)
}

fn find_by_key(session: &Session<'_>, key: InstanceKey) -> Result<Option<Found>, Failure> {
    session.query_optional(found_where!("key = ?1"), params![key.0], found)
}

/// Returns the children of an instance that have not ended: all of them, or that of one event of an execution.
fn find_children(
    session: &Session<'_>,
    parent: InstanceKey,
    of: Option<(ExecutionId, EventId)>,
) -> Result<Vec<Found>, Failure> {
    let mut children = match of {
        None => session.query_all(found_where!("parent_key = ?1"), params![parent.0], found),
        Some((execution, event)) => session.query_all(
            found_where!("parent_key = ?1 AND parent_execution = ?2 AND parent_event = ?3"),
            params![parent.0, integer(execution.0), integer(event.0)],
            found,
        ),
    }?;
    children.retain(|child| !child.status.is_terminal());
    Ok(children)
}

fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    Ok(Found {
        key: InstanceKey(row.get(0)?),
        status: status(row, 1)?,
        owner: row.get::<_, Option<String>>(2)?.map(|owner| WorkerId(owner.into())),
        execution: ExecutionId(number(row, 3)?),
        next_event_id: EventId(number(row, 4)?),
        unread: number(row, 5)?,
        epoch: Epoch(number(row, 6)?),
    })
}
