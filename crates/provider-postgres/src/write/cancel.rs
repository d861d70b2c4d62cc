//! Requests to cancel instances. None of the code of a suspended instance can run, and none of an instance that no
//! worker has acquired yet and that is not due has run (P25). Such an instance ends in the commit that brings the
//! request, without its cleanup, and its children are cancelled with it.

use perdure_engine::{Event, NoteEvent, TerminationEvent};
use perdure_provider::{Affected, Epoch, Status};

use super::end;
use super::found::find_by_key;
use super::mailbox::CancelAtOnce;
use crate::error::Failure;
use crate::session::Session;

/// Ends instances that cannot run as cancelled. Their children are asked to cancel. Children that cannot run end in the
/// same way, one after the other, at any depth.
pub(super) async fn end_at_once(
    session: &Session<'_>,
    mut ending: Vec<CancelAtOnce>,
    time_ms: i64,
    affected: &mut Affected,
) -> Result<(), Failure> {
    while let Some(CancelAtOnce { key, reason }) = ending.pop() {
        let Some(instance) = find_by_key(session, key).await? else {
            continue;
        };
        // Another request of the same commit may have ended the instance. A new instance may be due by now, but its row
        // has been locked since the request was sent.
        let is_new = instance.epoch == Epoch(0) && instance.owner.is_none();
        if instance.status.is_terminal() || instance.status != Status::Suspended && !is_new {
            continue;
        }
        let events = [
            Event::Note(NoteEvent::CancelRequested { reason }),
            Event::Termination(TerminationEvent::ExecutionCancelled { error: None }),
        ];
        ending.extend(end::end(session, &instance, Status::Cancelled, events, None, time_ms, affected).await?);
    }
    Ok(())
}
