//! Checks of writes that no store may take. Such a write is refused before anything is written.

use perdure_engine::{EventId, EventKind, EventRecord, MessageBody};

use crate::{
    AfterTurn, Ask, InstanceKey, KeyedStart, NewInstance, NewMessage, OnConflict, StartRule, StartWithMessage, Status,
    TurnCommit,
};

/// A write that is a defect of its caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWrite {
    /// A turn.
    #[error("a turn of instance {} {what}", key.0)]
    Turn {
        /// Instance of the turn.
        key: InstanceKey,
        /// The defect of the turn.
        what: String,
    },
    /// A start that does not begin with `ExecutionStarted`.
    #[error("a start with event {event} ({kind}) as its first")]
    Start {
        /// Id of the first event.
        event: EventId,
        /// Kind of the first event.
        kind: EventKind,
    },
    /// A start that a worker claims and that is not due, or has a queue.
    #[error("a claim of '{id}', which is not due yet")]
    Claim {
        /// Id of the instance.
        id: String,
    },
    /// A start whose first turn is not that of the execution which it starts.
    #[error("a first turn that does not fit its start")]
    FirstTurn,
    /// A start of a batch that brings no mail or lets none in, or one of another rule that brings mail.
    #[error("a start of '{id}' with an input that does not fit its rule")]
    Batch {
        /// Id of the instance.
        id: String,
    },
    /// A message with a start that is not the start of its receiver, or that does more than that.
    #[error("a message for '{receiver}' with a start that does not fit it")]
    StartWithMessage {
        /// Id of the receiver.
        receiver: String,
    },
    /// An ask whose message is not mail for the queue of asks.
    #[error("an ask of '{receiver}' that is no mail for its asks")]
    Ask {
        /// Id of the receiver.
        receiver: String,
    },
}

/// The result of a terminal event.
#[derive(PartialEq)]
pub(crate) enum End {
    Instance(Status),
    /// The execution ends, and the next one follows.
    Execution,
}

pub(crate) fn terminal(kind: EventKind) -> Option<End> {
    match kind {
        EventKind::ExecutionCompleted => Some(End::Instance(Status::Completed)),
        EventKind::ExecutionFailed => Some(End::Instance(Status::Failed)),
        EventKind::ExecutionCancelled => Some(End::Instance(Status::Cancelled)),
        EventKind::ExecutionTerminated => Some(End::Instance(Status::Terminated)),
        EventKind::ExecutionContinuedAsNew => Some(End::Execution),
        _ => None,
    }
}

/// Returns true if an event can be the first of an execution.
fn is_start(event: &EventRecord) -> bool {
    event.event_id == EventId::FIRST && event.kind == EventKind::ExecutionStarted
}

impl NewInstance {
    /// Checks that a start begins with `ExecutionStarted`, and that one with a claim
    /// [may have it](Self::may_be_claimed).
    ///
    /// # Errors
    ///
    /// The first event is another one, or the claim does not fit, which is a defect of the caller.
    pub fn check(&self) -> Result<(), BadWrite> {
        let first = &self.first_event;
        if !is_start(first) {
            return Err(BadWrite::Start {
                event: first.event_id,
                kind: first.kind,
            });
        }
        if self.claim.is_some() && !self.may_be_claimed() {
            return Err(BadWrite::Claim { id: self.id.clone() });
        }
        Ok(())
    }
}

impl KeyedStart {
    /// Checks that the start has no claim, and that it brings mail exactly if it is one of a batch.
    ///
    /// # Errors
    ///
    /// The start does not fit, which is a defect of the caller.
    pub fn check(&self) -> Result<(), BadWrite> {
        if self.start.claim.is_some() {
            return Err(BadWrite::Claim {
                id: self.start.id.clone(),
            });
        }
        let fits = match (self.rule, &self.input) {
            (StartRule::Batch { max, .. }, Some(MessageBody::Mail { .. })) => max > 0,
            (StartRule::Batch { .. }, _) | (_, Some(_)) => false,
            (_, None) => true,
        };
        if !fits {
            return Err(BadWrite::Batch {
                id: self.start.id.clone(),
            });
        }
        self.start.check()
    }
}

impl StartWithMessage {
    /// Checks that the start is that of the receiver and has no claim, that it terminates nothing, and that the message
    /// is mail: for the queue of asks, if it is an ask.
    ///
    /// # Errors
    ///
    /// The start or the message does not fit, which is a defect of the caller.
    pub fn check(&self) -> Result<(), BadWrite> {
        let Self { start, message, ask } = self;
        let fits = start.id == message.instance
            && start.claim.is_none()
            && start.first_turn.is_none()
            && start.on_conflict != OnConflict::TerminateAndRestart
            && matches!(message.body, MessageBody::Mail { .. });
        if !fits {
            return Err(BadWrite::StartWithMessage {
                receiver: message.instance.clone(),
            });
        }
        if ask.is_some() {
            check_ask(message)?;
        }
        start.check()
    }
}

impl Ask {
    /// Checks that the message is mail for the queue of asks.
    ///
    /// # Errors
    ///
    /// The message is another one, which is a defect of the caller.
    pub fn check(&self) -> Result<(), BadWrite> {
        check_ask(&self.message)
    }
}

fn check_ask(message: &NewMessage) -> Result<(), BadWrite> {
    match &message.body {
        MessageBody::Mail { mailbox, .. } if mailbox.holds_asks() => Ok(()),
        _ => Err(BadWrite::Ask {
            receiver: message.instance.clone(),
        }),
    }
}

impl TurnCommit {
    /// Checks a turn. Returns the id after its last event.
    ///
    /// # Errors
    ///
    /// The event ids have a gap, the terminal event is not the last one, not the only one or does not fit `after`, the
    /// turn consumed a message that its worker has not seen, or it sends an ask and wakes no instance.
    pub fn check(&self) -> Result<EventId, BadWrite> {
        let refuse = |what: String| Err(BadWrite::Turn { key: self.key, what });
        let mut next = self.next_event_id;
        for event in &self.events {
            if event.event_id != next {
                return refuse(format!("has event {} where event {next} belongs", event.event_id));
            }
            next = next.next();
        }
        let end = self
            .events
            .iter()
            .enumerate()
            .find_map(|(place, event)| Some((place + 1 == self.events.len(), event.kind, terminal(event.kind)?)));
        match (&self.after, end) {
            (AfterTurn::End { status }, Some((true, kind, end))) => {
                if end != End::Instance(*status) {
                    return refuse(format!("ends as {status} with {kind}"));
                }
            }
            (AfterTurn::ContinueAsNew(next), Some((true, kind, end))) => {
                let first = &next.first_event;
                if end != End::Execution || !is_start(first) {
                    return refuse(format!("continues as new with {kind} and {}", first.kind));
                }
            }
            (AfterTurn::End { .. } | AfterTurn::ContinueAsNew(_), _) => {
                return refuse("ends, and its last event is not the only one that says so".into());
            }
            (_, Some(_)) => return refuse("goes on after a terminal event".into()),
            (_, None) => {}
        }
        if self.consumed.iter().any(|seq| *seq > self.seen) {
            return refuse("consumed a message that its worker has not seen".into());
        }
        if self.asked.is_some() && !self.wakes {
            return refuse("sends an ask, and does not wake its instance".into());
        }
        Ok(next)
    }
}
