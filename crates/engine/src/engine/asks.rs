//! Asks: the engine offers them to the driver, and takes in the answers.

use super::turn::OfferedAsk;
use super::{Engine, Phase};
use crate::ask::ASKS_MAILBOX;
use crate::{Answer, AnsweredAsk, Delivery, DeliveryEvent, Fault, Payload, Step};

impl Engine {
    /// Offers an ask. Nothing is recorded before the driver has accepted it.
    pub(super) fn offer_ask(&mut self, ask: OfferedAsk) -> Step {
        let payload = ask.payload.clone();
        self.turn.asks.get_or_insert_default().offered = Some(ask);
        Step::Deliver {
            delivery: Delivery::Asked { payload },
            time_ms: self.time_ms,
        }
    }

    /// Accepts the ask that was offered last: it is recorded as a message. Returns the delivery; `None` if no ask is
    /// offered.
    ///
    /// # Errors
    ///
    /// [`Fault`] if a limit is reached; the engine is broken from then on (E4).
    pub fn accept_ask(&mut self, now_ms: i64) -> Result<Option<Step>, Fault> {
        let Some(OfferedAsk { seq, payload }) = self.take_offered() else {
            return Ok(None);
        };
        self.turn.consumed.push(seq);
        let mailbox = ASKS_MAILBOX.clone();
        let now_ms = self.monotonic(now_ms);
        Ok(Some(self.deliver(
            DeliveryEvent::MessageReceived { mailbox, payload },
            now_ms,
        )?))
    }

    /// Refuses the ask that was offered last. Nothing is recorded, and the answer goes with the turn.
    pub fn refuse_ask(&mut self, ask: String, error: Payload) {
        let Some(OfferedAsk { seq, .. }) = self.take_offered() else {
            return;
        };
        self.turn.consumed.push(seq);
        self.turn.deliveries += 1;
        self.answer_ask(ask, Answer::Error(error));
    }

    fn take_offered(&mut self) -> Option<OfferedAsk> {
        self.turn.asks.as_mut()?.offered.take()
    }

    /// Answers an accepted ask. The answer goes with the turn, unless this is a replay: then it is stored already.
    pub fn answer_ask(&mut self, ask: String, answer: Answer) {
        if matches!(self.phase, Phase::Live) {
            let asks = self.turn.asks.get_or_insert_default();
            asks.answers.push(AnsweredAsk { ask, answer });
        }
    }

    /// Takes no more asks from now on: the code is about to end. Asks that wait stay in the store, for the execution
    /// that follows.
    pub fn close_asks(&mut self) {
        self.inbox.close_asks();
    }
}
