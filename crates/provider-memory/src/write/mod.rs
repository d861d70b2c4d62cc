//! The writes of a batch, each in a file of its own. An error in one write rolls the whole batch back (P1).

mod append;
mod ask;
mod attempt;
mod cancel;
mod cross_instance;
mod end;
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

use perdure_provider::{Outcome, ProviderError, Write};

use crate::tables::Tables;
use crate::{deletion, tasks};

pub(crate) use resume::resume_mismatched;

pub(crate) fn run(tables: &mut Tables, write: &Write) -> Result<Outcome, ProviderError> {
    Ok(match write {
        Write::Turn(turn) => return turn::commit(tables, turn, turn.key, turn.epoch),
        Write::Start(instance) => return start::start(tables, instance),
        Write::KeyedStart(keyed) => return keyed_start::start(tables, keyed),
        Write::Message(message) => message::send(tables, message),
        Write::StartWithMessage(both) => return start_with_message::send(tables, both),
        Write::Ask(ask) => return ask::send(tables, ask),
        Write::Terminate(termination) => terminate::terminate(tables, termination),
        Write::Suspend(suspension) => suspend::suspend(tables, suspension),
        Write::Resume { id, time_ms } => resume::resume(tables, id, *time_ms),
        Write::Delete { id } => deletion::delete(tables, id),
        Write::Heartbeat(heartbeat) => heartbeat::keep(tables, heartbeat),
        Write::Append(append) => append::append(tables, append),
        Write::TaskDone(done) => task_done::done(tables, done),
        Write::Probation(probation) => probation::note(tables, probation),
        Write::ReleaseInstance(request) => release::release(tables, request),
        Write::ReleaseTask(request) => tasks::release_one(tables, request),
    })
}
