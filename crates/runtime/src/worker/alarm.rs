//! What the alarms of a session are for.

use std::sync::Weak;

use perdure_engine::EventId;

use crate::activity::attempt::{ActivityToken, Origin};
use crate::instance::Instance;

/// What an alarm of a session is for.
pub(crate) enum Alarm {
    /// An awaited timer of an instance that stays in memory.
    Timer(Weak<Instance>),
    /// The time has come for an attempt that waits: to begin, or to be over.
    Attempt(ActivityToken),
    /// A suspect has run for long enough.
    Trial(Weak<Instance>),
    /// An activity's heartbeats may be written again.
    Heartbeat(Origin, EventId),
}
