//! Release requests that are not answered yet. Invariants B1 to B3 stand in
//! [`release`](crate::poison::release).

use parking_lot::Mutex;
use perdure_provider::{InstanceKey, TaskName};
use tokio::sync::Notify;

use crate::state::attempt::{ActivityToken, Origin};

/// The release requests of a session.
#[derive(Default)]
pub(crate) struct ReleaseRequests {
    pub(crate) requests: Mutex<Requests>,
    /// Notified when a request is over.
    pub(crate) over: Notify,
}

#[derive(Default)]
pub(crate) struct Requests {
    /// The number of requests so far.
    pub(crate) count: u64,
    /// The requests that are not answered yet: one for each thread at most.
    pub(crate) open: Vec<OpenRequest>,
}

pub(crate) struct OpenRequest {
    pub(crate) number: u64,
    /// `None`: the request has not decided yet what it keeps.
    pub(crate) kept: Option<KeptWork>,
    pub(crate) withheld: Vec<ActivityToken>,
}

pub(crate) struct KeptWork {
    pub(crate) instances: Vec<InstanceKey>,
    pub(crate) tasks: Vec<TaskName>,
}

impl KeptWork {
    pub(crate) fn has(&self, origin: &Origin) -> bool {
        match origin {
            Origin::Instance(instance) => self.instances.contains(&instance.key()),
            Origin::Task(taken) => self.tasks.contains(&taken.task),
        }
    }
}

/// The number of requests so far, at a time when none was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoneOpen(u64);

impl ReleaseRequests {
    /// Returns `None` while a request is open.
    pub(crate) fn none_open(&self) -> Option<NoneOpen> {
        let requests = self.requests.lock();
        requests.open.is_empty().then_some(NoneOpen(requests.count))
    }

    /// Waits until no request is open. Only one caller may wait at a time.
    pub(crate) async fn until_none_open(&self) -> NoneOpen {
        loop {
            if let Some(none_open) = self.none_open() {
                return none_open;
            }
            self.over.notified().await;
        }
    }
}
