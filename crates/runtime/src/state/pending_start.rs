//! A start that is not written yet.

use std::sync::Arc;

use perdure_provider::{NewInstance, Write};

use crate::commit::committer::{Committer, Patience, WriteDone};
use crate::log::LogRecord;

/// A start that waits for the first turn of its instance. A dropped start is written without a turn.
pub(crate) struct PendingStart {
    /// The start; `None`: it was taken.
    start: Option<(Box<NewInstance>, WriteDone)>,
    /// Lines that the turn logged.
    pub(crate) logs: Vec<LogRecord>,
    committer: Arc<Committer>,
}

impl PendingStart {
    pub(crate) fn new(new: Box<NewInstance>, done: WriteDone, committer: Arc<Committer>) -> Self {
        Self {
            start: Some((new, done)),
            logs: Vec::new(),
            committer,
        }
    }

    /// Takes the start, which the caller must write.
    pub(crate) fn take(mut self) -> (Box<NewInstance>, WriteDone, Vec<LogRecord>) {
        let (new, done) = self.start.take().expect("it is taken once");
        (new, done, std::mem::take(&mut self.logs))
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        if let Some((mut new, done)) = self.start.take() {
            new.claim = None;
            self.committer.submit(Write::Start(new), Patience::Limited, done);
        }
    }
}
