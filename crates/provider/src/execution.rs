//! The executions of an instance, as the first and last events of their histories tell of them.

use perdure_engine::{EventRecord, ExecutionId};

use crate::check::terminal;
use crate::{InstanceKey, PageLimit};

/// A request for a page of the executions of an instance, the newest first.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionsRequest {
    /// The instance.
    pub key: InstanceKey,
    /// The newest execution of the page.
    pub from: ExecutionId,
    /// Bounds of the page. Its rows are executions.
    pub limit: PageLimit,
}

/// One execution, whose history is not read as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionSummary {
    /// Number of the execution.
    pub execution: ExecutionId,
    /// Its first event; the second one if it is `ExecutionBegan`, which tells the version of an execution that was
    /// started without one; and the last one. The last one has its value only if it ends the execution.
    pub events: Vec<EventRecord>,
}

impl ExecutionSummary {
    /// Makes a summary of the first, second and last event, in order, as far as they exist and differ.
    #[must_use]
    pub fn new(execution: ExecutionId, mut events: Vec<EventRecord>) -> Self {
        if let [_, between @ .., last] = &mut events[..] {
            assert!(between.len() <= 1, "a summary has three events at most");
            if terminal(last.kind).is_none() {
                last.payload = None;
            }
        }
        Self { execution, events }
    }

    /// Returns the bytes of its values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.events.iter().map(EventRecord::bytes).sum()
    }
}
