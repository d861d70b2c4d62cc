//! Starts that depend on the instance that their key has: singletons, throttled and debounced starts, and batches
//! (P26).

use std::sync::Arc;

use perdure_engine::{Mailbox, MessageBody, Payload};
use perdure_provider::{KeyedStart, Outcome, StartRule, Write};

use crate::client::store::{Reply, StartRequest, Store, not_started};

/// A client's request to start an instance under a key.
#[derive(Clone, Debug)]
pub struct KeyedStartRequest {
    /// The start.
    pub start: StartRequest,
    /// The keys that it may meet: within the rule, those of this name. Clients give the name of the orchestration.
    pub scope: String,
    /// The key.
    pub key: String,
    /// The rule that decides about the start if the key has an instance.
    pub rule: StartRule,
    /// The queue and the value of the input, if the rule is that of a batch.
    pub input: Option<(String, Payload)>,
}

/// The answer to a start under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyedAnswer {
    /// The instance is there.
    Started,
    /// The instance of this id stands for it.
    Joined(String),
    /// The client has to send the start again with this id, and with the input encoded for that instance.
    Readdress(String),
}

impl Store {
    /// Starts an instance, unless its key has one that stands for it. No worker takes it at once.
    pub fn start_keyed(self: &Arc<Self>, request: KeyedStartRequest, reply: Reply<KeyedAnswer>) {
        let KeyedStartRequest {
            start,
            scope,
            key,
            rule,
            input,
        } = request;
        let (id, conflict) = (start.id.clone(), start.conflict);
        let mut start = *self.new_instance(start);
        if let Some(due) = rule.due() {
            start.due = due;
        }
        let queue = start.queue.clone();
        let this = Arc::clone(self);
        let write = Write::KeyedStart(Box::new(KeyedStart {
            start,
            scope,
            key,
            rule,
            input: input.map(|(queue, payload)| MessageBody::Mail {
                mailbox: Mailbox::Queue(queue),
                payload,
            }),
        }));
        self.write(write, move |outcome| {
            reply(match outcome {
                Ok(started @ Outcome::Started { .. }) => {
                    this.started(&started);
                    Ok(KeyedAnswer::Started)
                }
                Ok(Outcome::Joined { id }) => {
                    // The due time may be earlier than before: the delay of this start may be shorter, or its batch is
                    // full.
                    if rule.moves_due_time() {
                        this.work_is_due();
                    }
                    Ok(KeyedAnswer::Joined(id))
                }
                Ok(Outcome::Readdress { id }) => Ok(KeyedAnswer::Readdress(id)),
                refused => not_started(refused, &id, conflict, queue).map(|()| KeyedAnswer::Joined(id)),
            });
        });
    }
}
