//! Messages and asks of clients.
//!
//! A message to an instance that sleeps in the store, and whose generator a worker of this process has kept, is handed
//! to that worker. The turn that consumes it acquires the instance and is one commit (P20), so the message itself is
//! never written. All other messages go through the store.
//!
//! - **M1** A message is handed over only if no earlier message of this process to the same instance is on its way.
//!   Messages that come meanwhile go through the store after it.
//! - **M2** A message whose turn is not written goes through the store, as if it had never been handed over.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use perdure_engine::{Bug, Mailbox, MessageBody, Payload, is_planted};
use perdure_provider::{Ask, Clock, NewInstance, NewMessage, Outcome, QueueEntry, StartWithMessage, Write};

use crate::client::pending_wake::{PendingWake, WakeCause, WakeEnd};
use crate::client::store::{Reply, StartRequest, Store, unexpected};
use crate::error::RuntimeError;

/// The end of a message that was sent.
pub(crate) enum Sent {
    /// It was handed over, and the turn that consumed it is durable.
    HandedOver,
    /// It went through the store.
    Stored(Outcome),
}

/// The callback that receives the end of a message.
pub(crate) type SentDone = Box<dyn FnOnce(Result<Sent, RuntimeError>) + Send>;

/// A message on its way.
pub(crate) struct Sending {
    pub(crate) message: NewMessage,
    /// Id of the ask, if the message is one.
    pub(crate) ask: Option<String>,
    /// The start of the receiver, if the message starts it.
    pub(crate) start: Option<Box<NewInstance>>,
    pub(crate) done: SentDone,
}

/// The messages of this process to an instance that are on their way.
enum UnderWay {
    /// A number of messages that are being written.
    Stored(usize),
    /// A message that was handed over, and later ones, which wait for its end.
    HandedOver(Vec<Sending>),
}

/// The messages of this process that are on their way, by the id of the instance. Each one has a sender that waits for
/// its reply.
#[derive(Default)]
pub(crate) struct MessagesUnderWay(Mutex<HashMap<String, UnderWay>>);

impl MessagesUnderWay {
    /// Adds a message to those that are being written, or to those that wait. Returns it if it is to be written now,
    /// and true with it if it is the only one.
    fn add(&self, sending: Sending) -> Option<(Sending, bool)> {
        let mut all = self.0.lock();
        match all.entry(sending.message.instance.clone()) {
            Entry::Vacant(none) => {
                none.insert(UnderWay::Stored(1));
                Some((sending, true))
            }
            Entry::Occupied(mut some) => match some.get_mut() {
                UnderWay::Stored(count) => {
                    *count += 1;
                    Some((sending, false))
                }
                UnderWay::HandedOver(waiting) => {
                    waiting.push(sending);
                    None
                }
            },
        }
    }

    /// Notes that the only message on its way is handed over. Returns false if there are others by now.
    fn hand_over(&self, id: &str) -> bool {
        let mut all = self.0.lock();
        let under_way = all.get_mut(id);
        let is_only = matches!(under_way, Some(UnderWay::Stored(1)));
        if let Some(under_way) = under_way.filter(|_| is_only) {
            *under_way = UnderWay::HandedOver(Vec::new());
        }
        is_only
    }

    /// Notes that the message that was handed over is written in another way, or is going to be (`also_it`). Returns
    /// the messages that have waited for it, which are to be written now.
    fn handed_over(&self, id: &str, also_it: bool) -> Vec<Sending> {
        let mut all = self.0.lock();
        let Some(UnderWay::HandedOver(waiting)) = all.remove(id) else {
            return Vec::new();
        };
        let count = waiting.len() + usize::from(also_it);
        if count > 0 {
            all.insert(id.to_owned(), UnderWay::Stored(count));
        }
        waiting
    }

    /// Notes that a message is written or refused.
    fn written(&self, id: &str) {
        let mut all = self.0.lock();
        match all.get_mut(id) {
            Some(UnderWay::Stored(count)) if *count > 1 => *count -= 1,
            _ => drop(all.remove(id)),
        }
    }
}

impl Store {
    /// Sends a message to an instance, for which no more than `unread_max` messages wait then; `None`: any number. A
    /// request to cancel is always taken. A request to cancel an instance that has ended is no error, because nothing
    /// is left to cancel. A suspended instance that is cancelled ends at once, because none of its code can run.
    pub fn send(self: &Arc<Self>, id: String, body: MessageBody, unread_max: Option<u64>, reply: Reply<()>) {
        let is_cancel = matches!(body, MessageBody::Cancel { .. });
        let message = NewMessage {
            instance: id,
            body,
            unread_max: unread_max.filter(|_| !is_cancel),
            time_ms: self.clock.now_ms(),
        };
        let done = self.message_done(&message, reply);
        self.hand_over_or_store(Sending {
            message,
            ask: None,
            start: None,
            done,
        });
    }

    /// Sends mail to the instance of a start, which it starts if there is none, or if the start may replace it. Both
    /// are one commit. The start never terminates an instance. A start whose id is in use is no error.
    pub fn send_with_start(
        self: &Arc<Self>,
        start: StartRequest,
        mailbox: Mailbox,
        payload: Payload,
        unread_max: u64,
        reply: Reply<()>,
    ) {
        let start = self.new_instance(start);
        let message = NewMessage {
            instance: start.id.clone(),
            body: MessageBody::Mail { mailbox, payload },
            unread_max: Some(unread_max),
            time_ms: start.first_event.time_ms,
        };
        let done = self.message_done(&message, reply);
        self.hand_over_or_store(Sending {
            message,
            ask: None,
            start: Some(start),
            done,
        });
    }

    /// Hands a message to a worker of this process, or puts it into the store.
    pub(crate) fn hand_over_or_store(self: &Arc<Self>, sending: Sending) {
        let Some((sending, is_only)) = self.messages.add(sending) else {
            return;
        };
        if is_only && let MessageBody::Mail { mailbox, payload } = &sending.message.body {
            let id = &sending.message.instance;
            let worker = self.workers().into_iter().find(|worker| worker.can_wake(id, mailbox));
            if let Some(worker) = worker
                && self.messages.hand_over(id)
            {
                let (id, mailbox, payload) = (id.clone(), mailbox.clone(), payload.clone());
                return worker.wake(&id, self.wake_by(mailbox, payload, sending));
            }
        }
        self.store_message(sending);
    }

    /// Returns the wake by a message that is handed over.
    fn wake_by(self: &Arc<Self>, mailbox: Mailbox, payload: Payload, sending: Sending) -> PendingWake {
        let this = Arc::clone(self);
        let ask = sending.ask.clone();
        let done = Box::new(move |end| {
            let id = sending.message.instance.clone();
            let is_given_up = matches!(end, WakeEnd::GivenUp);
            let waiting = this.messages.handed_over(&id, is_given_up);
            match end {
                WakeEnd::Written => (sending.done)(Ok(Sent::HandedOver)),
                WakeEnd::GivenUp if is_planted(Bug::GivenUpWakeForgotten) => (sending.done)(Ok(Sent::HandedOver)),
                WakeEnd::GivenUp => this.store_message(sending),
                WakeEnd::Failed(error) => (sending.done)(Err(error.into())),
            }
            for sending in waiting {
                this.store_message(sending);
            }
        });
        PendingWake::new(WakeCause::Message { mailbox, payload }, ask, done)
    }

    /// Puts a message into the store.
    fn store_message(self: &Arc<Self>, sending: Sending) {
        let Sending {
            message,
            ask,
            start,
            done,
        } = sending;
        let id = message.instance.clone();
        let entry = start.as_ref().and_then(|start| start.queue.clone());
        let write = match (start, ask) {
            (Some(start), ask) => Write::StartWithMessage(Box::new(StartWithMessage {
                start: *start,
                message,
                ask,
            })),
            (None, Some(id)) => Write::Ask(Box::new(Ask { id, message })),
            (None, None) => Write::Message(message),
        };
        let this = Arc::clone(self);
        self.write(write, move |outcome| {
            this.messages.written(&id);
            done(match (outcome, entry) {
                (Ok(Outcome::NoQueue), Some(QueueEntry { queue, .. })) => Err(RuntimeError::QueueNotFound { queue }),
                (outcome, _) => outcome.map(Sent::Stored),
            });
        });
    }

    /// Returns what follows up on a message that is no ask, and replies to its sender.
    fn message_done(self: &Arc<Self>, message: &NewMessage, reply: Reply<()>) -> SentDone {
        let (id, is_cancel) = (
            message.instance.clone(),
            matches!(message.body, MessageBody::Cancel { .. }),
        );
        let this = Arc::clone(self);
        Box::new(move |sent| {
            reply(match sent {
                Ok(Sent::HandedOver) => Ok(()),
                Ok(Sent::Stored(Outcome::Delivered { owner, .. })) => {
                    this.notify_receivers(&[owner]);
                    Ok(())
                }
                Ok(Sent::Stored(Outcome::Terminated { receivers, stopped, .. })) => {
                    this.ended_from_outside(&receivers, !stopped.is_empty());
                    Ok(())
                }
                Ok(Sent::Stored(Outcome::Ended { .. })) if is_cancel => Ok(()),
                Ok(Sent::Stored(outcome)) => Err(refused(id, outcome)),
                Err(error) => Err(error),
            });
        })
    }
}

/// Returns the error for the sender of a message or an ask that the store has refused.
pub(crate) fn refused(id: String, outcome: Outcome) -> RuntimeError {
    match outcome {
        Outcome::MailboxFull { max } => RuntimeError::MailboxFull { id, max },
        Outcome::NotFound => RuntimeError::InstanceNotFound { id },
        Outcome::Ended { status } => RuntimeError::InstanceEnded { id, status },
        other => unexpected(Ok(other)),
    }
}
