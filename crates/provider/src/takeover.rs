//! The takeovers of one instance: the deaths of workers that it lived through.

use perdure_engine::{EventId, ExecutionId};

use crate::WorkerId;

/// Number of takeovers of an instance that are kept: the last ones.
pub const TAKEOVERS_KEPT: usize = 50;

/// The takeover of a dead worker that owned an instance, or that ran an attempt of one of its activities. It is stored
/// with the takeover, so a worker that is shut down in order leaves none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// Time of the takeover, ms since 1970. The worker died before.
    pub time_ms: i64,
    /// Execution of the instance at that time.
    pub execution: ExecutionId,
    /// The event that was to follow in its history.
    pub event: EventId,
    /// The schedule of the activity whose attempt the worker ran for the owner of the instance. `None`: the worker
    /// owned the instance.
    pub activity: Option<EventId>,
    /// The worker that died.
    pub worker: WorkerId,
    /// Its name.
    pub worker_name: String,
}
