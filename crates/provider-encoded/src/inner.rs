//! The codec of a provider with its memory: encodes batches, and decodes whole answers of the store.

use std::collections::HashMap;
use std::sync::Arc;

use perdure_engine::{EventRecord, ExecutionId};
use perdure_provider::{
    ExecutionSummary, Inbox, InstanceKey, InstanceStatus, Loaded, MessagePage, Outcome, Provider, ProviderError, Write,
};

use crate::codec::{self, TextCodec};
use crate::names::{Memory, Names, NeededIds};
use crate::values::{self, Owner, Values};

pub(crate) struct Inner {
    pub(crate) codec: Arc<dyn TextCodec>,
    pub(crate) memory: Memory,
}

impl Inner {
    /// Encodes all values of a batch (C1).
    pub(crate) async fn encoded(&self, store: &dyn Provider, batch: &[Write]) -> Result<Vec<Write>, ProviderError> {
        let mut needs = NeededIds::default();
        for write in batch {
            needs.write(write);
        }
        let names = self.memory.names(needs, store).await?;
        let mut batch = batch.to_vec();
        let mut values = Values::new();
        for write in &mut batch {
            values::of_write(write, &names, &mut values);
        }
        codec::encode(&*self.codec, values).await?;
        Ok(batch)
    }

    /// Decodes the statuses and the answers in the outcomes of a batch.
    pub(crate) async fn decode_outcomes(&self, batch: &[Write], outcomes: &mut [Outcome]) -> Result<(), ProviderError> {
        let mut values = Values::new();
        for (write, outcome) in batch.iter().zip(outcomes) {
            match outcome {
                Outcome::Asked { state } => {
                    if let Some(name) = write.ask_name() {
                        values::of_ask(&name, state, &mut values);
                    }
                }
                Outcome::Started { turn: Some(turn), .. } => of_committed(turn, &mut values),
                outcome => of_committed(outcome, &mut values),
            }
        }
        codec::decode(&*self.codec, values).await
    }

    pub(crate) async fn decode_statuses<'s>(
        &self,
        statuses: impl Iterator<Item = &'s mut InstanceStatus>,
    ) -> Result<(), ProviderError> {
        let mut values = Values::new();
        for status in statuses {
            self.memory.note(status.key, &status.id);
            values::of_status(status, &mut values);
        }
        codec::decode(&*self.codec, values).await
    }

    /// Decodes the events of one execution, and remembers the children that they schedule.
    pub(crate) async fn decode_events(
        &self,
        store: &dyn Provider,
        key: InstanceKey,
        execution: ExecutionId,
        events: &mut [EventRecord],
    ) -> Result<(), ProviderError> {
        self.memory.note_events(key, execution, events);
        let mut needs = NeededIds::default();
        needs.instance(key);
        needs.events(key, execution, events);
        let names = self.memory.names(needs, store).await?;
        let id = names.id(key);
        let owner = Owner {
            key,
            id: &id,
            execution,
        };
        let mut values = Values::new();
        values::of_events(owner, events, &names, &mut values);
        codec::decode(&*self.codec, values).await
    }

    pub(crate) async fn decode_loaded(
        &self,
        store: &dyn Provider,
        asked: &[(InstanceKey, ExecutionId)],
        loaded: &mut [Result<Loaded, ProviderError>],
    ) -> Result<(), ProviderError> {
        let mut needs = NeededIds::default();
        for ((key, execution), one) in asked.iter().zip(&*loaded) {
            let Ok(one) = one else { continue };
            self.memory.note_events(*key, *execution, &one.history);
            needs.instance(*key);
            needs.events(*key, *execution, &one.history);
            needs.messages(*key, &one.messages.messages);
        }
        let names = self.memory.names(needs, store).await?;
        let ids: HashMap<_, _> = asked.iter().map(|(key, _)| (*key, names.id(*key))).collect();
        let mut values = Values::new();
        for ((key, execution), one) in asked.iter().zip(loaded) {
            let Ok(one) = one else { continue };
            let owner = Owner {
                key: *key,
                id: &ids[key],
                execution: *execution,
            };
            values::of_loaded(owner, one, &names, &mut values);
        }
        codec::decode(&*self.codec, values).await
    }

    pub(crate) async fn decode_executions(
        &self,
        store: &dyn Provider,
        key: InstanceKey,
        page: &mut [ExecutionSummary],
    ) -> Result<(), ProviderError> {
        let mut needs = NeededIds::default();
        needs.instance(key);
        let names = self.memory.names(needs, store).await?;
        let id = names.id(key);
        let mut values = Values::new();
        for ExecutionSummary { execution, events } in page {
            let execution = *execution;
            // Only the first event and an end have values, so no event refers to a child.
            values::of_events(
                Owner {
                    key,
                    id: &id,
                    execution,
                },
                events,
                &names,
                &mut values,
            );
        }
        codec::decode(&*self.codec, values).await
    }

    pub(crate) async fn decode_messages(
        &self,
        store: &dyn Provider,
        key: InstanceKey,
        page: &mut MessagePage,
    ) -> Result<(), ProviderError> {
        let mut needs = NeededIds::default();
        needs.instance(key);
        needs.messages(key, &page.messages);
        let names = self.memory.names(needs, store).await?;
        let mut values = Values::new();
        values::of_messages(key, &names.id(key), &mut page.messages, &names, &mut values);
        codec::decode(&*self.codec, values).await
    }

    pub(crate) async fn decode_inbox(&self, store: &dyn Provider, inbox: &mut Inbox) -> Result<(), ProviderError> {
        let mut needs = NeededIds::default();
        for (key, message) in &inbox.messages {
            needs.instance(*key);
            needs.messages(*key, message);
        }
        let names: Names = self.memory.names(needs, store).await?;
        let mut values = Values::new();
        for (key, message) in &mut inbox.messages {
            if let Ok(message) = message {
                values::of_body(*key, &names.id(*key), &mut message.body, &names, &mut values);
            }
        }
        codec::decode(&*self.codec, values).await
    }
}

/// Adds the values of the status in the outcome of a turn.
fn of_committed<'a>(outcome: &'a mut Outcome, to: &mut Values<'a>) {
    if let Outcome::Committed {
        status: Some(status), ..
    } = outcome
    {
        values::of_status(status, to);
    }
}
