//! Asks: messages that get an answer (P22).

use perdure_engine::Answer;

use crate::NewMessage;

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
    Ended,
}
