//! Queues of instances, as requests and replies of a store. `js/binding/store.ts` is the other side.

use std::sync::Arc;

use perdure_provider::{QueueInfo, QueueSettings};
use perdure_runtime::{RuntimeError, Store};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::caller::Caller;

/// The limits of a queue.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetQueue {
    name: String,
    /// The limits, in the form in which stores keep them: [`QueueSettings::to_text`].
    settings: Value,
}

/// The pause of a queue, or its end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseQueue {
    pub(crate) name: String,
    pub(crate) paused: bool,
}

/// The queue that a request is about.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueName {
    pub(crate) name: String,
}

/// Names of queues.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queues {
    /// `None`: all queues.
    name: Option<String>,
}

impl SetQueue {
    pub(crate) fn make(self, store: &Arc<Store>, caller: &Caller<'_>) -> Result<(), RuntimeError> {
        let settings = QueueSettings::read(&self.settings.to_string());
        let settings = settings.ok_or_else(|| RuntimeError::Argument("these are no limits of a queue".into()))?;
        store.set_queue(self.name, settings, caller.done());
        Ok(())
    }
}

impl Queues {
    pub(crate) fn make(self, store: &Arc<Store>, caller: &Caller<'_>) {
        store.queues(self.name, caller.text(|queues: Vec<QueueInfo>| text(&queues)));
    }
}

fn text(queues: &[QueueInfo]) -> String {
    let queues = queues.iter().map(|queue| {
        json!({
            "name": queue.name,
            "settings": serde_json::from_str::<Value>(&queue.settings.to_text()).unwrap_or_default(),
            "pausedMs": queue.paused_at_ms,
            "waiting": queue.waiting,
            "delayed": queue.delayed,
            "running": queue.running,
            "tokens": queue.tokens,
            "oldestMs": queue.oldest_ms,
        })
    });
    Value::Array(queues.collect()).to_string()
}
