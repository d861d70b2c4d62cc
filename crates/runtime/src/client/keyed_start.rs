//! Starts that depend on the instance that their key has: singletons, throttled starts and debounced ones (P26).

use std::sync::Arc;

use perdure_engine::StartConflict;
use perdure_provider::{KeyedStart, Outcome, QueueEntry, StartRule, StartTime, Write};

use crate::client::store::{Reply, StartRequest, Store, unexpected};
use crate::error::RuntimeError;

/// A client's request to start an instance under a key.
#[derive(Clone, Debug)]
pub struct KeyedStartRequest {
    /// The start.
    pub start: StartRequest,
    /// The keys that it may meet: within the rule, those of this name. Clients give the name of the orchestration.
    pub scope: String,
    /// The key.
    pub key: String,
    /// What becomes of the start if the key has an instance.
    pub rule: StartRule,
}

/// What became of a start under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyedAnswer {
    /// The instance is there.
    Started,
    /// The instance of this id stands for it.
    Joined(String),
    /// It has to be sent again with this id, and with its input encoded for that instance.
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
        } = request;
        let (id, conflict) = (start.id.clone(), start.conflict);
        let mut start = *self.new_instance(start);
        if let StartRule::Debounce { delay_ms, .. } = rule {
            start.due = StartTime::After(delay_ms);
        }
        let entry = start.queue.clone();
        let this = Arc::clone(self);
        let write = Write::KeyedStart(Box::new(KeyedStart {
            start,
            scope,
            key,
            rule,
        }));
        self.write(write, move |outcome| {
            reply(this.keyed_answer(outcome, id, conflict, entry));
        });
    }

    fn keyed_answer(
        &self,
        outcome: Result<Outcome, RuntimeError>,
        id: String,
        conflict: StartConflict,
        entry: Option<QueueEntry>,
    ) -> Result<KeyedAnswer, RuntimeError> {
        match outcome {
            Ok(started @ Outcome::Started { .. }) => {
                self.started(&started);
                Ok(KeyedAnswer::Started)
            }
            Ok(Outcome::Joined { id }) => {
                // A debounced instance may be due earlier than before: the delay of this start may be shorter.
                self.work_is_due();
                Ok(KeyedAnswer::Joined(id))
            }
            Ok(Outcome::Readdress { id }) => Ok(KeyedAnswer::Readdress(id)),
            Ok(Outcome::NoQueue) => Err(RuntimeError::QueueNotFound {
                queue: entry.map(|entry| entry.queue).unwrap_or_default(),
            }),
            Ok(Outcome::Exists) if conflict.accepts_other() => Ok(KeyedAnswer::Joined(id)),
            Ok(Outcome::Exists) => Err(RuntimeError::InstanceExists { id }),
            other => Err(unexpected(other)),
        }
    }
}
