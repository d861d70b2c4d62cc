//! The writes of a batch, each in a file of its own. They run inside the writer's transaction; an error in one rolls the
//! batch back whole (P1).

mod message;
mod start;
mod terminate;
mod turn;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, Outcome, Status, WorkerId, Write};
use rusqlite::params;

use crate::error::Failure;
use crate::rows::{number, status};
use crate::session::Session;

pub(crate) fn run(session: &mut Session<'_>, write: &Write) -> Result<Outcome, Failure> {
    match write {
        Write::Turn(turn) => turn::commit(session, turn, turn.key, turn.epoch),
        Write::Start(instance) => start::start(session, instance),
        Write::Message(message) => message::send(session, message),
        Write::Terminate(termination) => terminate::terminate(session, termination),
        Write::Resume { id, time_ms } => terminate::resume(session, id, *time_ms),
    }
}

/// An instance as the writes that name it by its id need it.
struct Found {
    key: InstanceKey,
    status: Status,
    owner: Option<WorkerId>,
    execution: ExecutionId,
    next_event_id: EventId,
}

fn find(session: &Session<'_>, id: &str) -> Result<Option<Found>, Failure> {
    session.query_optional(
        "SELECT key, status, owner, execution, next_event_id FROM instances WHERE id = ?1",
        params![id],
        |row| {
            Ok(Found {
                key: InstanceKey(row.get(0)?),
                status: status(row, 1)?,
                owner: row.get::<_, Option<String>>(2)?.map(|owner| WorkerId(owner.into())),
                execution: ExecutionId(number(row, 3)?),
                next_event_id: EventId(number(row, 4)?),
            })
        },
    )
}
