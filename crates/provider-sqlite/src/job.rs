//! The jobs of the writer thread.

use std::sync::Arc;

use perdure_provider::{CommitDone, Outcome, ProviderError, Write};
use tokio::sync::oneshot;

use crate::error::Failure;
use crate::session::Session;
use crate::write;

/// One job of the writer. It runs inside a transaction that it may share with others, and is answered once that is
/// durable.
pub(crate) trait Job: Send {
    /// Returns the number of writes that the job counts for.
    fn writes(&self) -> usize;

    /// Runs the job. It runs again, alone, when the transaction was rolled back because of another job.
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Failure>;

    /// Answers the caller, on the writer thread, with no lock held and no transaction open.
    fn answer(self: Box<Self>, result: Result<(), ProviderError>);
}

/// A batch of writes.
pub(crate) struct Batch {
    writes: Arc<Vec<Write>>,
    outcomes: Vec<Outcome>,
    done: CommitDone,
}

impl Batch {
    pub(crate) fn new(writes: Arc<Vec<Write>>, done: CommitDone) -> Self {
        Self {
            writes,
            outcomes: Vec::new(),
            done,
        }
    }
}

impl Job for Batch {
    fn writes(&self) -> usize {
        self.writes.len()
    }

    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        self.outcomes.clear();
        self.outcomes.reserve_exact(self.writes.len());
        for write in self.writes.iter() {
            self.outcomes.push(write::run(session, write)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, result: Result<(), ProviderError>) {
        let Self { writes, outcomes, done } = *self;
        // The caller may keep the batch in case the write fails. It is the only holder again when it gets the result.
        drop(writes);
        done(result.map(|()| outcomes));
    }
}

/// A single operation whose caller awaits its value.
pub(crate) struct Call<T, F> {
    work: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, ProviderError>>,
}

impl<T, F> Call<T, F>
where
    F: Fn(&mut Session<'_>) -> Result<T, Failure> + Send,
{
    pub(crate) fn new(work: F) -> (Self, oneshot::Receiver<Result<T, ProviderError>>) {
        let (reply, answer) = oneshot::channel();
        (
            Self {
                work,
                value: None,
                reply,
            },
            answer,
        )
    }
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: Fn(&mut Session<'_>) -> Result<T, Failure> + Send,
{
    fn writes(&self) -> usize {
        1
    }

    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        self.value = Some((self.work)(session)?);
        Ok(())
    }

    fn answer(self: Box<Self>, result: Result<(), ProviderError>) {
        let Self { value, reply, .. } = *self;
        // The caller may be gone. Then there is no task to tell.
        let _ = reply.send(result.map(|()| value.expect("a job that ran has its value")));
    }
}
