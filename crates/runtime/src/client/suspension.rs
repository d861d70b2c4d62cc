//! Operations of clients that suspend instances and resume them.

use std::sync::Arc;

use perdure_engine::Payload;
use perdure_provider::{Clock, Outcome, Suspend, Write};

use crate::client::store::{Reply, Store, unexpected};
use crate::error::RuntimeError;
use crate::report::Report;

impl Store {
    /// Suspends an instance until it is resumed, regardless of its owner. This needs neither its code nor its inputs.
    /// An instance that is suspended already stays as it is.
    pub fn suspend(self: &Arc<Self>, id: String, reason: Payload, reply: Reply<()>) {
        let write = Write::Suspend(Suspend {
            id: id.clone(),
            report: Report::of_client(reason).into_text(),
            time_ms: self.clock.now_ms(),
        });
        let this = Arc::clone(self);
        self.write(write, move |outcome| match outcome {
            Ok(Outcome::Suspended { key, epoch, owner }) => {
                this.revoke(key, epoch, owner.as_ref());
                reply(Ok(()));
            }
            Ok(Outcome::NotFound) => reply(Err(RuntimeError::InstanceNotFound { id })),
            Ok(Outcome::Ended { status }) => reply(Err(RuntimeError::NotHeld { id, status })),
            other => reply(Err(unexpected(other))),
        });
    }

    /// Resumes a suspended instance.
    pub fn resume(self: &Arc<Self>, id: String, reply: Reply<()>) {
        let write = Write::Resume {
            id: id.clone(),
            time_ms: self.clock.now_ms(),
        };
        let this = Arc::clone(self);
        self.write(write, move |outcome| match outcome {
            Ok(Outcome::Resumed) => {
                this.work_is_due();
                reply(Ok(()));
            }
            Ok(Outcome::NotFound) => reply(Err(RuntimeError::InstanceNotFound { id })),
            Ok(Outcome::NotSuspended { status } | Outcome::Ended { status }) => {
                reply(Err(RuntimeError::NotSuspended { id, status }))
            }
            other => reply(Err(unexpected(other))),
        });
    }
}
