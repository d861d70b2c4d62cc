//! The alarms of a session.

use std::sync::Weak;

use perdure_engine::EventId;

use crate::state::Instance;
use crate::state::attempt::{ActivityToken, Origin};

/// The reason for an alarm of a session.
pub(crate) enum Alarm {
    /// An awaited timer of an instance that stays in memory.
    Timer(Weak<Instance>),
    /// The time of an attempt that waits: it begins, or it is over.
    Attempt(ActivityToken),
    /// The end of a suspect's probation.
    Probation(Weak<Instance>),
    /// The time from which an activity's heartbeats may be written again.
    Heartbeat(Origin, EventId),
}
