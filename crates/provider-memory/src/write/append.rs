//! Entries that an attempt of an activity appends to a stream (P23).

use perdure_engine::{Bug, is_planted};
use perdure_provider::{ActivityAppend, Outcome};

use super::attempt;
use crate::streams::{self, Writer};
use crate::tables::Tables;

pub(super) fn append(tables: &mut Tables, append: &ActivityAppend) -> Outcome {
    let key = append.key;
    let activity = (key, append.execution, append.scheduled);
    let is_open = || tables.instance(key).is_some_and(|row| !row.status.is_terminal());
    let may_append = attempt::is_run_by(tables, &activity, &append.worker, append.by)
        || is_planted(Bug::LateAttemptAppends) && is_open();
    if !may_append {
        return Outcome::Fenced;
    }
    match streams::append(tables, key, &append.append, Writer::attempt(append)) {
        Some(next) => Outcome::Appended { next },
        None => Outcome::StreamClosed,
    }
}
