//! The end of an instance, as far as it is the same in every store.

use perdure_engine::{ChildFailure, Payload, Settlement};

use crate::{InstanceKey, Outcome, Receivers, Status, WorkerId};

/// The workers that are affected by a write to instances of others.
#[derive(Default)]
pub struct Affected {
    /// Owners of the instances that got a message.
    pub receivers: Receivers,
    /// Workers that run attempts which are no longer awaited.
    pub stopped: Vec<WorkerId>,
    /// True if instances have ended.
    pub ended: bool,
}

impl Affected {
    /// Returns the outcome of a write that ended an instance.
    #[must_use]
    pub fn terminated(self, key: InstanceKey, owner: Option<WorkerId>) -> Outcome {
        Outcome::Terminated {
            key,
            owner,
            receivers: self.receivers,
            stopped: self.stopped,
        }
    }
}

/// Returns the settlement that tells a parent of a child that ended as `status`, with `result`.
#[must_use]
pub fn settlement(status: Status, result: Payload) -> Settlement {
    match status {
        Status::Failed => Settlement::Failed(ChildFailure::Failed, result),
        Status::Cancelled => Settlement::Failed(ChildFailure::Cancelled, result),
        Status::Terminated => Settlement::Failed(ChildFailure::Terminated, result),
        _ => Settlement::Completed(result),
    }
}
