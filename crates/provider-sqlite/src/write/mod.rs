//! The writes of a batch, each in a file of its own. They run inside the writer's transaction. An error in one write
//! rolls the whole batch back (P1).

mod append;
mod ask;
mod attempt;
mod cancel;
mod cross_instance;
mod end;
mod found;
mod heartbeat;
mod insert;
mod keyed_start;
mod mailbox;
mod message;
mod offer;
mod probation;
mod release;
mod resume;
mod start;
mod start_with_message;
mod suspend;
mod task_done;
mod terminate;
mod turn;

use perdure_provider::{Outcome, Write};

use crate::error::Failure;
use crate::session::Session;
use crate::{deletion, tasks};

pub(crate) use resume::resume_mismatched;

pub(crate) fn run(session: &mut Session<'_>, write: &Write) -> Result<Outcome, Failure> {
    match write {
        Write::Turn(turn) => turn::commit(session, turn, turn.key, turn.epoch),
        Write::Start(instance) => start::start(session, instance),
        Write::KeyedStart(keyed) => keyed_start::start(session, keyed),
        Write::Message(message) => message::send(session, message),
        Write::StartWithMessage(both) => start_with_message::send(session, both),
        Write::Ask(ask) => ask::send(session, ask),
        Write::Terminate(termination) => terminate::terminate(session, termination),
        Write::Suspend(suspension) => suspend::suspend(session, suspension),
        Write::Resume { id, time_ms } => resume::resume(session, id, *time_ms),
        Write::Delete { id } => deletion::delete(session, id),
        Write::Heartbeat(heartbeat) => heartbeat::keep(session, heartbeat),
        Write::Append(append) => append::append(session, append),
        Write::TaskDone(done) => task_done::done(session, done),
        Write::Probation(probation) => probation::note(session, probation),
        Write::ReleaseInstance(request) => release::release(session, request),
        Write::ReleaseTask(request) => tasks::release_one(session, request),
    }
}
