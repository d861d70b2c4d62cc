//! Requests to give back that are not answered yet. Invariants B1 to B3 stand in
//! [`giving_back`](crate::worker::giving_back).

use parking_lot::Mutex;
use perdure_provider::{InstanceKey, TaskName};
use tokio::sync::Notify;

use crate::activity::attempt::{ActivityToken, Origin};

/// The requests to give back of a session.
#[derive(Default)]
pub(crate) struct GivingBack {
    pub(super) requests: Mutex<Requests>,
    /// Notified when a request is over.
    pub(super) over: Notify,
}

#[derive(Default)]
pub(super) struct Requests {
    /// The number of requests so far.
    pub(super) count: u64,
    /// The requests that are not answered yet: one for each thread at most.
    pub(super) open: Vec<Open>,
}

pub(super) struct Open {
    pub(super) number: u64,
    /// `None`: the request has not decided yet what it keeps.
    pub(super) kept: Option<Kept>,
    pub(super) withheld: Vec<ActivityToken>,
}

pub(super) struct Kept {
    pub(super) instances: Vec<InstanceKey>,
    pub(super) tasks: Vec<TaskName>,
}

impl Kept {
    pub(super) fn has(&self, origin: &Origin) -> bool {
        match origin {
            Origin::Instance(instance) => self.instances.contains(&instance.key()),
            Origin::Task(borrowed) => self.tasks.contains(&borrowed.task),
        }
    }
}

/// The number of requests so far, at a time when none was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quiet(u64);

impl GivingBack {
    /// Returns `None` while a request is open.
    pub(crate) fn quiet(&self) -> Option<Quiet> {
        let requests = self.requests.lock();
        requests.open.is_empty().then_some(Quiet(requests.count))
    }

    /// Waits until no request is open. Only one caller may wait at a time.
    pub(crate) async fn until_quiet(&self) -> Quiet {
        loop {
            if let Some(quiet) = self.quiet() {
                return quiet;
            }
            self.over.notified().await;
        }
    }
}
