//! The termination of an instance, with any owner or none.

use perdure_engine::{Event, TerminationEvent};
use perdure_provider::{Affected, Outcome, Status, Terminate};

use super::cancel;
use super::end;
use super::found::find;
use crate::error::Failure;
use crate::session::Session;

pub(super) async fn terminate(session: &Session<'_>, termination: &Terminate) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, &termination.id).await? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status.is_terminal() {
        return Ok(Outcome::Ended {
            status: instance.status,
        });
    }
    let (reason, time_ms) = (|| termination.reason.clone(), termination.time_ms);
    let event = Event::Termination(TerminationEvent::ExecutionTerminated { reason: reason() });
    let mut affected = Affected::default();
    let ending = end::end(
        session,
        &instance,
        Status::Terminated,
        [event],
        reason(),
        time_ms,
        &mut affected,
    )
    .await?;
    cancel::end_at_once(session, ending, time_ms, &mut affected).await?;
    Ok(affected.terminated(instance.key, instance.owner))
}
