//! The codec of a provider with its memory: encodes batches, and decodes whole answers of the store.

use std::collections::HashMap;
use std::sync::Arc;

use perdure_engine::{EventRecord, ExecutionId};
use perdure_provider::{
    Due, DueInstance, ExecutionSummary, Inbox, InstanceKey, InstanceStatus, Loaded, MessagePage, Outcome, PageLimit,
    Provider, ProviderError, StreamChunk, StreamName, StreamPage, StreamRequest, Write,
};

use crate::codec::{self, TextCodec};
use crate::names::{Memory, Names, NeededIds};
use crate::slot::Values;
use crate::values::{self, Owner};

pub(crate) struct Inner {
    pub(crate) codec: Arc<dyn TextCodec>,
    pub(crate) memory: Memory,
}

/// A page of the store with its entries decoded.
struct DecodedPage {
    page: StreamPage,
    /// True if it was not full in the store.
    is_last: bool,
}

fn bytes_of(chunks: &[StreamChunk]) -> usize {
    chunks.iter().map(|chunk| chunk.entries.len()).sum()
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

    /// Reads a page of a stream, which ends by the bytes of the decoded entries: they differ from those in the store.
    pub(crate) async fn read_stream(
        &self,
        store: &dyn Provider,
        request: StreamRequest,
    ) -> Result<Option<StreamPage>, ProviderError> {
        let StreamRequest { name, from, limit } = request;
        let Some(mut page) = self.read_chunks(store, &name, from, limit).await? else {
            return Ok(None);
        };
        loop {
            let bytes = bytes_of(&page.page.chunks);
            let last = page.page.chunks.last().map(|chunk| chunk.first + chunk.count);
            let next = last.filter(|_| !page.is_last && !limit.is_reached(page.page.chunks.len(), bytes));
            let Some(next) = next else {
                return Ok(Some(page.page));
            };
            let rest = PageLimit {
                rows: limit.rows - page.page.chunks.len(),
                bytes: limit.bytes - bytes,
            };
            let Some(mut more) = self.read_chunks(store, &name, next, rest).await? else {
                return Ok(None);
            };
            if more.page.state.key == page.page.state.key {
                page.page.chunks.append(&mut more.page.chunks);
                more.page.chunks = page.page.chunks;
                page = more;
            } else {
                // The instance was replaced meanwhile.
                let Some(again) = self.read_chunks(store, &name, from, limit).await? else {
                    return Ok(None);
                };
                page = again;
            }
        }
    }

    async fn read_chunks(
        &self,
        store: &dyn Provider,
        name: &StreamName,
        from: u64,
        limit: PageLimit,
    ) -> Result<Option<DecodedPage>, ProviderError> {
        let request = StreamRequest {
            name: name.clone(),
            from,
            limit,
        };
        let Some(mut page) = store.read_stream(request).await? else {
            return Ok(None);
        };
        let is_last = !limit.is_reached(page.chunks.len(), bytes_of(&page.chunks));
        let mut values = Values::new();
        values::of_chunks(name, &mut page.chunks, &mut values);
        codec::decode(&*self.codec, values).await?;
        Ok(Some(DecodedPage { page, is_last }))
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

    pub(crate) async fn decode_due(&self, store: &dyn Provider, due: &mut Due) -> Result<(), ProviderError> {
        let mut needs = NeededIds::default();
        for DueInstance { key, messages, .. } in &due.instances {
            needs.instance(*key);
            needs.messages(*key, messages.iter().flatten());
        }
        let names = self.memory.names(needs, store).await?;
        let mut values = Values::new();
        for DueInstance { key, messages, .. } in &mut due.instances {
            if let Some(messages) = messages {
                values::of_messages(*key, &names.id(*key), messages, &names, &mut values);
            }
        }
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
