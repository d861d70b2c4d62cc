//! Requests to cancel suspended instances. None of the code of such an instance can run. So it ends in the commit that
//! brings the request, without its cleanup, and its children are cancelled with it.

use perdure_engine::{Event, NoteEvent, TerminationEvent};
use perdure_provider::{Affected, Status};

use super::end;
use super::found::find_by_key;
use super::mailbox::SuspendedCancel;
use crate::error::Failure;
use crate::session::Session;

/// Ends suspended instances as cancelled. Their children are asked to cancel. Children that are suspended end in the
/// same way, one after the other, at any depth.
pub(super) async fn end_suspended(
    session: &Session<'_>,
    mut suspended: Vec<SuspendedCancel>,
    time_ms: i64,
    affected: &mut Affected,
) -> Result<(), Failure> {
    while let Some(SuspendedCancel { key, reason }) = suspended.pop() {
        // Another request of the same commit may have ended the instance.
        let found = find_by_key(session, key).await?;
        let Some(instance) = found.filter(|found| found.status == Status::Suspended) else {
            continue;
        };
        let events = [
            Event::Note(NoteEvent::CancelRequested { reason }),
            Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        ];
        suspended.extend(end::end(session, &instance, Status::Cancelled, events, None, time_ms, affected).await?);
    }
    Ok(())
}
