//! Entries that an attempt of an activity appends to a stream (P23).

use perdure_provider::{ActivityAppend, Outcome};

use super::attempt::{self, Activity};
use crate::error::Failure;
use crate::session::Session;
use crate::streams::{self, Append};

pub(super) async fn append(session: &Session<'_>, append: &ActivityAppend) -> Result<Outcome, Failure> {
    let activity = Activity::of(append.key, append.execution, append.scheduled);
    if !attempt::is_run_by(session, activity, &append.worker, append.by).await? {
        return Ok(Outcome::Fenced);
    }
    let next = streams::append(session, &[Append::of_attempt(append)]).await?;
    Ok(next
        .first()
        .map_or(Outcome::StreamClosed, |next| Outcome::Appended { next: *next }))
}
