//! The effects of a turn on other instances.

use perdure_engine::EventId;

use crate::{NewInstance, NewMessage, TaskOffer};

/// The effects of a turn on other instances: starts, then messages, then cancellations. A refusal is told to the
/// instance by a message of kind `Settled`.
#[derive(Clone, Debug, Default)]
pub struct CrossInstanceEffects {
    /// Instances to start.
    pub starts: Vec<CrossInstanceStart>,
    /// Messages to send.
    pub messages: Vec<CrossInstanceMessage>,
    /// Children of this execution to cancel, by the event that started them. A child that has ended, or never was, is
    /// ignored.
    pub cancelled: Vec<EventId>,
    /// Attempts for other workers. No attempt of the same schedule is offered yet.
    pub offers: Vec<TaskOffer>,
    /// Schedules whose offered attempts are no longer awaited. A schedule without a task is ignored.
    pub withdrawn: Vec<EventId>,
}

/// A start that goes with a turn.
#[derive(Clone, Debug)]
pub struct CrossInstanceStart {
    /// The event that asked for it.
    pub scheduled: EventId,
    /// True if the instance is a child: its end is told to this execution, and the end of this instance cancels it.
    pub is_child: bool,
    /// True if the start is no refusal when an instance has the id and stays.
    pub accepts_other: bool,
    /// The instance to start. It has no first turn.
    pub instance: NewInstance,
}

/// A message that goes with a turn.
#[derive(Clone, Debug)]
pub struct CrossInstanceMessage {
    /// The event that asked for it.
    pub scheduled: EventId,
    /// The message to send.
    pub message: NewMessage,
}
