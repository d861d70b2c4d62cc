//! The time for which an instance may run.

use serde::{Deserialize, Serialize};

use crate::{Bug, is_planted};

/// The time for which an instance may run, over all its executions. Once it is over, the instance is cancelled, as by a
/// request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeLimit {
    /// The time from the first turn on, ms.
    pub timeout_ms: u64,
    /// The time for which the cleanup may last then, ms; `None`: as long as the code allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// The time at which it is over, ms since 1970; `None` in the first execution, whose first turn sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

/// The time limit of a running execution.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    /// The limit, with the time at which it is over.
    pub(crate) limit: TimeLimit,
    /// The time at which it is over, ms since 1970.
    pub(crate) at_ms: i64,
    /// True once the instance was cancelled because of it.
    pub(crate) has_passed: bool,
}

impl Deadline {
    /// Returns the deadline of an execution that begins at a time.
    pub(crate) fn new(limit: TimeLimit, began_ms: i64) -> Self {
        let mut deadline = Self {
            limit,
            at_ms: 0,
            has_passed: false,
        };
        deadline.count_from(began_ms);
        deadline
    }

    /// The first turn of the execution was at this time.
    pub(crate) fn count_from(&mut self, began_ms: i64) {
        let timeout_ms = i64::try_from(self.limit.timeout_ms).unwrap_or(i64::MAX);
        let early_ms = if is_planted(Bug::EarlyLimit) { 20 } else { 0 };
        let at_ms = began_ms.saturating_add(timeout_ms - early_ms);
        self.at_ms = self.limit.deadline_ms.unwrap_or(at_ms);
    }

    /// Returns the limit for the execution that follows.
    pub(crate) fn for_next(&self) -> TimeLimit {
        TimeLimit {
            deadline_ms: Some(self.at_ms),
            ..self.limit.clone()
        }
    }
}
