//! Asks: messages that get an answer (P22).

use perdure_engine::Answer;

use crate::{NewMessage, OnConflict, Status};

/// Most answers of an instance that are kept. An answer beyond this drops the oldest.
pub const ANSWERS_KEPT: u64 = 1_000;

/// An ask to send. The input is in the message alone.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Id of the ask, unique in its receiver.
    pub id: String,
    /// The message, which is mail for the queue [`ASKS`](perdure_engine::ASKS).
    pub message: NewMessage,
}

/// The name of an ask among all asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskName {
    /// The user's name of the receiver.
    pub instance: String,
    /// Id of the ask.
    pub ask: String,
}

/// The state of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskState {
    /// It waits for its answer.
    Open,
    /// It was answered.
    Answered(Answer),
    /// Its receiver has ended without an answer.
    Ended {
        /// The status that the receiver ended with.
        status: Status,
    },
}

impl AskState {
    /// Returns true if the ask may be sent again with a start of that kind: its receiver completed, and the start may
    /// replace it. Code that completes has answered each ask that it had taken, so it has not taken this one.
    #[must_use]
    pub const fn may_be_sent_again(&self, on_conflict: OnConflict) -> bool {
        const COMPLETED: Status = Status::Completed;
        matches!(self, Self::Ended { status: COMPLETED }) && on_conflict.replaces(COMPLETED)
    }
}
