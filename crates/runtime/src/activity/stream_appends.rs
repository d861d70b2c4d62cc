//! Entries that attempts append to streams (P23). The host gathers the entries of an attempt, appends them one batch
//! after the other, and reports the end of the attempt after the last one. So a later attempt never appends before an
//! earlier one.

use std::sync::Arc;

use perdure_engine::StreamAppend;
use perdure_provider::{ActivityAppend, Outcome, Reporter, Status, StreamName, StreamState, Write};
use perdure_scheduler::State;

use crate::activity::activities::Activities;
use crate::client::store::Reply;
use crate::commit::committer::Patience;
use crate::error::RuntimeError;
use crate::state::attempt::{ActivityToken, Attempt, Origin};

/// The end of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The entries are durable.
    Written,
    /// The stream takes no entries any more.
    Closed,
    /// The attempt is over, or is no longer this worker's. Nothing was written.
    Refused,
}

impl Appended {
    /// Returns the end as the host names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Closed => "closed",
            Self::Refused => "refused",
        }
    }
}

impl Activities {
    /// Appends entries of a running attempt. `begins` is true for the first append of the attempt to the stream.
    pub(crate) fn append(
        self: &Arc<Self>,
        token: ActivityToken,
        append: StreamAppend,
        begins: bool,
        reply: Reply<Appended>,
    ) {
        let attempt = self.attempts.lock().get(token).cloned();
        let by = attempt.as_ref().and_then(reporter);
        let (Some(attempt), Some(by)) = (attempt, by) else {
            return reply(Ok(Appended::Refused));
        };
        let Attempt {
            origin, task, number, ..
        } = attempt;
        let append = ActivityAppend {
            key: origin.key(),
            worker: self.worker.id.clone(),
            by,
            execution: origin.execution(),
            scheduled: task.scheduled,
            attempt: number,
            begins,
            append,
            time_ms: self.worker.now_ms(),
        };
        let name = StreamName {
            instance: origin.instance_id().to_owned(),
            stream: append.append.stream.clone(),
        };
        let (store, key) = (Arc::clone(&self.shared.store), append.key);
        let done = Box::new(move |answer| {
            let appended = match answer {
                Ok(Outcome::Appended { next }) => {
                    // Readers look at the index alone.
                    let (status, is_closed) = (Status::Running, false);
                    store.streams.changed(
                        &name,
                        StreamState {
                            key,
                            status,
                            next,
                            is_closed,
                        },
                    );
                    Ok(Appended::Written)
                }
                Ok(Outcome::StreamClosed) => Ok(Appended::Closed),
                Ok(_) => Ok(Appended::Refused),
                Err(error) => Err(RuntimeError::from(error)),
            };
            reply(appended);
        });
        let write = Write::Append(Box::new(append));
        self.shared.store.committer.submit(write, Patience::Endless, done);
    }
}

/// Returns the role in which the worker reports for an attempt. `None`: the attempt is over.
fn reporter(attempt: &Attempt) -> Option<Reporter> {
    match &attempt.origin {
        Origin::Instance(instance) => {
            let core = instance.lock();
            let is_given_up = |engine: &perdure_engine::Engine| !engine.may_await_activity(attempt.task.scheduled);
            let is_over = core.control.state() == State::Complete || core.engine.as_ref().is_some_and(is_given_up);
            (!is_over).then_some(Reporter::Owner(core.epoch))
        }
        Origin::Task(_) => Some(Reporter::Runner {
            attempt: attempt.number,
        }),
    }
}
