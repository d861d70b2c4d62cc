//! Entries that an attempt of an activity appends to a stream (P23).

use perdure_provider::{ActivityAppend, Outcome};

use super::attempt;
use crate::error::Failure;
use crate::session::Session;
use crate::streams::{self, Writer};

pub(super) fn append(session: &Session<'_>, append: &ActivityAppend) -> Result<Outcome, Failure> {
    let activity = (append.key, append.execution, append.scheduled);
    if !attempt::is_run_by(session, activity, &append.worker, append.by)? {
        return Ok(Outcome::Fenced);
    }
    let next = streams::append(session, append.key, &append.append, Writer::attempt(append))?;
    Ok(match next {
        Some(next) => Outcome::Appended { next },
        None => Outcome::StreamClosed,
    })
}
