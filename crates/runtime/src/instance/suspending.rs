//! Suspensions by the worker that owns the instance, when its code or its history is not fit to go on.
//!
//! The instance is forgotten at once, and counts as [being released](crate::worker::owned::Releasing) until the store
//! has written the suspension. A suspension that the store refuses is tried [a few times](SUSPENSION_TRIES), without
//! the parts that the store may be refusing. Then the instance is released.

use std::sync::Arc;

use perdure_provider::{AfterTurn, Outcome, ProviderError, ProviderErrorKind, Status, TurnCommit, Write};

use crate::commit::committer::Patience;
use crate::instance::instances::Instances;
use crate::log::Level;
use crate::options::{RETRY_DELAYS, SUSPENSION_TRIES};
use crate::report::Report;
use crate::state::Instance;
use crate::state::attempt::AbortReason;
use crate::worker::owned::{Owned, Releasing};

/// A suspension that is to be written.
struct Suspension {
    instance: Arc<Instance>,
    commit: TurnCommit,
    /// The line for the log. It is written once the store has answered: an instance that was replaced meanwhile cannot
    /// be read, and is not suspended.
    message: Option<String>,
    /// The number of times that the store refused it.
    refused: u32,
    releasing: Releasing,
}

impl Instances {
    /// Suspends an instance whose code or history is not fit to go on. Nothing of its turn is stored.
    pub(crate) fn suspend(self: &Arc<Self>, instance: &Arc<Instance>, report: Report) {
        let start = instance.lock().start.take();
        if let Some(start) = start {
            return self.suspend_start(instance, start, report);
        }
        if instance.lock().is_waking {
            // The instance is not this worker's. The worker that acquires it will see if the problem remains.
            return self.give_up_wake(instance);
        }
        if self.worker.has_ended() {
            // The problem may come from the end of the session. Another worker will see if it remains.
            return;
        }
        let message = format!("instance '{}' is suspended: {}", instance.id, report.message());
        let mismatched_code = report.is_mismatch().then(|| {
            let registry = self.shared.registry.lock();
            registry.code(&instance.name, &instance.version).map(str::to_owned)
        });
        let commit = self.suspension(instance, report, mismatched_code.flatten());
        let suspension = Suspension {
            releasing: self.worker.releasing(Owned::Instance(commit.key, commit.epoch)),
            instance: Arc::clone(instance),
            commit,
            message: Some(message),
            refused: 0,
        };
        self.forget(instance, AbortReason::Cancelled);
        self.write_suspension(suspension);
    }

    fn suspension(&self, instance: &Instance, report: Report, mismatched_code: Option<String>) -> TurnCommit {
        let core = instance.lock();
        TurnCommit {
            key: instance.key(),
            worker: self.worker.id.clone(),
            epoch: core.epoch,
            execution: instance.execution,
            next_event_id: core.next_event_id,
            events: Vec::new(),
            consumed: Vec::new(),
            seen: core.seen,
            heartbeats_over: Vec::new(),
            custom_status: None,
            state: Vec::new(),
            answers: Vec::new(),
            appends: Vec::new(),
            open_work: None,
            logs: None,
            cross_instance: None,
            after: AfterTurn::Suspend {
                report: report.into_text(),
                mismatched_code,
            },
            tell_status: false,
            wakes: false,
            asked: None,
            time_ms: self.now_ms(),
        }
    }

    fn write_suspension(self: &Arc<Self>, suspension: Suspension) {
        let write = Write::Turn(Box::new(suspension.commit.clone()));
        let this = Arc::clone(self);
        let done = Box::new(move |answer| this.suspended(suspension, answer));
        self.shared.store.committer.submit(write, Patience::Endless, done);
    }

    fn suspended(self: &Arc<Self>, mut suspension: Suspension, answer: Result<Outcome, ProviderError>) {
        let message = suspension.message.take();
        if let (Ok(Outcome::Committed { .. }) | Err(_), Some(message)) = (&answer, message) {
            self.shared.log_for(&*suspension.instance, Level::Error, message);
        }
        let instance = &suspension.instance;
        match answer {
            Ok(Outcome::Committed { .. }) => {
                self.shared.ended(instance, Status::Suspended, None);
                self.shared.store.mark_changed(&instance.id);
            }
            // The instance is another worker's by now, or the store has lost a write that it had acknowledged.
            Ok(_) => {
                self.worker
                    .release_instance(suspension.commit.key, suspension.commit.epoch);
                self.shared.store.mark_changed(&instance.id);
            }
            Err(error) if error.kind == ProviderErrorKind::Closed => {}
            Err(error) => self.suspend_again(suspension, &error),
        }
    }

    /// Tries a suspension again that the store refused for good, perhaps because of its report.
    fn suspend_again(self: &Arc<Self>, suspension: Suspension, error: &ProviderError) {
        let Suspension {
            instance,
            mut commit,
            refused,
            releasing,
            ..
        } = suspension;
        let then = if refused + 1 < SUSPENSION_TRIES {
            "the suspension is retried without its report"
        } else {
            "the instance is released for another worker"
        };
        let message = format!("instance '{}' could not be suspended; {then}: {error}", instance.id);
        self.shared.log_for(&*instance, Level::Error, message);
        if refused + 1 >= SUSPENSION_TRIES {
            return self.worker.release_instance(commit.key, commit.epoch);
        }
        commit.after = AfterTurn::Suspend {
            report: Report::of_problem("the store refused the report of its suspension").into_text(),
            mismatched_code: None,
        };
        let suspension = Suspension {
            instance,
            commit,
            message: None,
            refused: refused + 1,
            releasing,
        };
        let this = Arc::clone(self);
        self.worker.spawn(async move {
            crate::platform::time::sleep(RETRY_DELAYS.1).await;
            this.write_suspension(suspension);
        });
    }
}
