//! Requests that start instances, or send them messages and asks.

use std::sync::Arc;

use perdure_engine::{Admission, Mailbox, MessageBody, Payload, StartConflict};
use perdure_provider::{AskName, StartRule};
use perdure_runtime::{AskRequest, KeyedAnswer, KeyedStartRequest, Reply, StartRequest, Store};
use serde::Deserialize;
use serde_json::json;

use crate::caller::Caller;
use crate::listing;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Start {
    id: String,
    name: String,
    version: Option<String>,
    /// JSON of an object of strings.
    tags: Option<String>,
    priority: i32,
    on_conflict: StartConflict,
    admission: Option<Box<Admission>>,
    trace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyedStart {
    request: Start,
    /// The keys that it may meet: within the rule, those of this name.
    scope: String,
    key: String,
    rule: Rule,
    /// The input of the instance, if the rule is that of a batch. The value is then that of the message.
    batch: Option<BatchStart>,
}

/// The parts of a start of a batch beside its value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchStart {
    /// Queue of the inputs.
    queue: String,
    /// Input of the instance.
    input: Payload,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
enum Rule {
    Skip,
    Cancel,
    Throttle { per_ms: u64 },
    Debounce { delay_ms: u64, max_ms: Option<u64> },
    Batch { within_ms: u64, max: u32 },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Send {
    id: String,
    mailbox: MailboxKind,
    name: String,
    /// Most messages that may wait for the instance, this one among them.
    unread_max: u64,
    /// The start of the receiver, if the message starts it.
    start: Option<ReceiverStart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Ask {
    id: String,
    /// Id of the ask, unique in the instance.
    ask: String,
    /// Most messages that may wait for the instance, this one among them.
    unread_max: u64,
    /// The start of the instance, if the ask starts it.
    start: Option<ReceiverStart>,
}

/// The start of the receiver of a message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReceiverStart {
    request: Start,
    input: Payload,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum MailboxKind {
    Event,
    Queue,
}

impl KeyedStart {
    pub(crate) fn make(self, store: &Arc<Store>, value: Payload, caller: &Caller<'_>) {
        let (own, input) = match self.batch {
            Some(batch) => (batch.input, Some((batch.queue, value))),
            None => (value, None),
        };
        let request = KeyedStartRequest {
            start: self.request.with(own),
            input,
            scope: self.scope,
            key: self.key,
            rule: match self.rule {
                Rule::Skip => StartRule::Skip,
                Rule::Cancel => StartRule::Cancel,
                Rule::Throttle { per_ms } => StartRule::Throttle { per_ms },
                Rule::Debounce { delay_ms, max_ms } => StartRule::Debounce { delay_ms, max_ms },
                Rule::Batch { within_ms, max } => StartRule::Batch { within_ms, max },
            },
        };
        let text = |answer| match answer {
            KeyedAnswer::Started => None,
            KeyedAnswer::Joined(id) => Some(json!({ "kind": "joined", "id": id }).to_string()),
            KeyedAnswer::Readdress(id) => Some(json!({ "kind": "readdress", "id": id }).to_string()),
        };
        store.start_keyed(request, caller.replies.to(caller.request, text));
    }
}

impl Send {
    pub(crate) fn make(self, store: &Arc<Store>, value: Payload, reply: Reply<()>) {
        let mailbox = self.mailbox.named(self.name);
        match self.start {
            Some(start) => {
                store.send_with_start(start.into_request(), mailbox, value, self.unread_max, reply);
            }
            None => {
                let body = MessageBody::Mail {
                    mailbox,
                    payload: value,
                };
                store.send(self.id, body, Some(self.unread_max), reply);
            }
        }
    }
}

impl Ask {
    pub(crate) fn make(self, store: &Arc<Store>, value: Payload, caller: &Caller<'_>) {
        let request = AskRequest {
            name: AskName {
                instance: self.id,
                ask: self.ask,
            },
            payload: value,
            unread_max: self.unread_max,
            start: self.start.map(ReceiverStart::into_request),
        };
        store.ask(caller.wait_id(), request, caller.text(listing::answer_text));
    }
}

impl ReceiverStart {
    fn into_request(self) -> StartRequest {
        self.request.with(self.input)
    }
}

impl Start {
    pub(crate) fn with(self, input: Payload) -> StartRequest {
        StartRequest {
            id: self.id,
            name: self.name,
            version: self.version,
            input,
            tags: self.tags,
            priority: self.priority,
            trace: self.trace,
            conflict: self.on_conflict,
            admission: self.admission,
        }
    }
}

impl MailboxKind {
    const fn named(self, name: String) -> Mailbox {
        match self {
            Self::Event => Mailbox::Event(name),
            Self::Queue => Mailbox::Queue(name),
        }
    }
}
