//! Asks of clients: messages that get an answer (P22).
//!
//! The wait for the answer begins before the ask is written, so an answer of a worker of this process tells it without
//! a read.

use std::sync::Arc;

use perdure_engine::{ASKS, Mailbox, MessageBody, Payload};
use perdure_provider::{ANSWERS_KEPT, AskName, AskState, Clock, NewMessage, Outcome};

use crate::client::sending::{Sending, Sent, refused};
use crate::client::store::{Reply, StartRequest, Store};
use crate::client::watch::{AwaitingAnswer, WaitId};
use crate::error::RuntimeError;

/// An ask of a client.
#[derive(Debug)]
pub struct AskRequest {
    /// The instance and the id of the ask.
    pub name: AskName,
    /// The input, as the driver encoded it.
    pub payload: Payload,
    /// Most messages that may wait for the instance, the ask among them.
    pub unread_max: u64,
    /// The start of the instance, in the same commit, if there is none of that id, or if the start may replace it.
    /// `None`: it must be there. The start never terminates an instance.
    pub start: Option<StartRequest>,
}

impl Store {
    /// Asks an instance, and replies with the answer, or with [`AskState::Ended`]. An ask of that name which is there
    /// already is the same ask, and starts nothing. A wait that is [abandoned](Self::abandon) has no reply, and the ask
    /// stays.
    pub fn ask(self: &Arc<Self>, wait: WaitId, request: AskRequest, reply: Reply<AskState>) {
        let AskRequest {
            name,
            payload,
            unread_max,
            start,
        } = request;
        let gone = RuntimeError::AnswerGone {
            id: name.instance.clone(),
            ask: name.ask.clone(),
            kept: ANSWERS_KEPT,
        };
        let done = Box::new(move |answer: Result<Option<AskState>, _>| {
            reply(answer.and_then(|state| state.ok_or(gone)));
        });
        self.asks.add(wait, name.clone(), AwaitingAnswer::Unwritten, done);
        let mailbox = Mailbox::Queue(ASKS.to_owned());
        let message = NewMessage {
            instance: name.instance.clone(),
            body: MessageBody::Mail { mailbox, payload },
            unread_max: Some(unread_max),
            time_ms: self.clock.now_ms(),
        };
        let (this, asked) = (Arc::clone(self), name.clone());
        self.hand_over_or_store(Sending {
            message,
            ask: Some(name.ask),
            start: start.map(|start| self.new_instance(start)),
            done: Box::new(move |sent| this.asked(wait, asked, sent)),
        });
    }

    /// Follows up on an ask that was written or refused.
    fn asked(&self, wait: WaitId, name: AskName, sent: Result<Sent, RuntimeError>) {
        let error = match sent {
            // The commit of its turn has told the answer, if there is one already.
            Ok(Sent::HandedOver) => return self.asks.set_awaiting(wait, AwaitingAnswer::Written),
            Ok(Sent::Stored(Outcome::Delivered { owner, .. })) => {
                self.asks.set_awaiting(wait, AwaitingAnswer::Written);
                return self.notify_receivers(&[owner]);
            }
            Ok(Sent::Stored(Outcome::Asked { state: AskState::Open })) => {
                self.asks.set_awaiting(wait, AwaitingAnswer::Written);
                return self.asks.mark_changed(&name);
            }
            Ok(Sent::Stored(Outcome::Asked { state })) => return self.asks.changed(&name, state),
            Ok(Sent::Stored(outcome)) => refused(name.instance, outcome),
            Err(error) => error,
        };
        self.asks.fail(wait, error);
    }
}
