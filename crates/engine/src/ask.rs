//! Asks: messages that get an answer.
//!
//! An ask comes as mail for the queue [`ASKS`], which the code awaits at each of its waits without saying so. The
//! engine offers an ask to the driver before it records anything: an ask that the driver refuses leaves no event. The
//! driver reads the payload, which names the ask, and answers by that name. A replay meets accepted asks alone, and its
//! answers are dropped, because they were written with the turn that gave them.

use std::sync::LazyLock;

use crate::{Mailbox, Payload};

/// Name of the queue of asks.
pub const ASKS: &str = "perdure.asks";

/// The mailbox of asks.
pub(crate) static ASKS_MAILBOX: LazyLock<Mailbox> = LazyLock::new(|| Mailbox::Queue(ASKS.to_owned()));

impl Mailbox {
    /// True if the mail of this mailbox is asks.
    #[must_use]
    pub fn holds_asks(&self) -> bool {
        matches!(self, Self::Queue(name) if name == ASKS)
    }
}

/// The answer to an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value that the handler returned.
    Value(Payload),
    /// The error of the handler, or that of a refusal, as the driver encoded it.
    Error(Payload),
}

impl Answer {
    /// The value or the error.
    #[must_use]
    pub const fn payload(&self) -> &Payload {
        match self {
            Self::Value(payload) | Self::Error(payload) => payload,
        }
    }
}

/// An ask with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredAsk {
    /// Id of the ask, which is unique in its instance.
    pub ask: String,
    /// The answer.
    pub answer: Answer,
}

impl AnsweredAsk {
    /// Bytes of the id and of the answer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ask.len() + self.answer.payload().as_ref().map_or(0, String::len)
    }
}
