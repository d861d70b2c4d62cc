//! What is read from the store for an instance: pages of its history, and messages that came before it was here.

use std::sync::Arc;

use perdure_engine::{Completion, Engine, EventId, MessageSeq, Start};
use perdure_provider::InstanceKey;
use perdure_scheduler::Class;

use crate::activities::AbortReason;
use crate::instance::Instance;
use crate::job::{Level, Queued};
use crate::options::HISTORY_PAGE;
use crate::retry::retrying;
use crate::session::Session;

impl Session {
    /// Read what waits for one instance.
    pub(crate) fn inbox_again(self: &Arc<Self>, key: InstanceKey) {
        let this = Arc::clone(self);
        self.shared.store.tokio.spawn(async move {
            let messages = retrying(|| this.shared.store.provider.read_messages(key)).await;
            for message in messages.unwrap_or_default() {
                this.receive(key, Completion::Message(message));
            }
        });
    }

    /// Read a page of history for a blocked instance; it is ready afterwards.
    pub(crate) fn load(self: &Arc<Self>, instance: Arc<Instance>, from: EventId) {
        let this = Arc::clone(self);
        self.shared.store.tokio.spawn(async move {
            let provider = &this.shared.store.provider;
            let (key, execution) = (instance.key, instance.execution);
            let page = retrying(|| provider.read_history(key, execution, from, HISTORY_PAGE)).await;
            let messages = if from == EventId::FIRST {
                retrying(|| provider.read_messages(key)).await
            } else {
                Ok(Vec::new())
            };
            let (page, messages) = match (page, messages) {
                (Ok(page), Ok(messages)) => (page, messages),
                (Err(error), _) | (_, Err(error)) => {
                    this.shared.log(
                        Level::Error,
                        format!("the history of instance '{}' cannot be read: {error}", instance.id),
                    );
                    return this.forget(&instance, AbortReason::LeaseLost);
                }
            };
            let mut core = instance.lock();
            let complete = page.len() < HISTORY_PAGE;
            let loaded = match &mut core.engine {
                Some(engine) => engine.extend_history(page, complete),
                None => Engine::new(Start {
                    history: page,
                    complete,
                    // An instance is set aside only after a turn was committed.
                    fresh: false,
                    budget: this.shared.options.budget,
                })
                .map(|engine| core.engine = Some(engine)),
            };
            if let Err(problem) = loaded {
                drop(core);
                return this.suspend(&instance, problem.to_string());
            }
            if from == EventId::FIRST {
                // All that waits was just read; what was kept of it meanwhile would come twice.
                core.pending
                    .retain(|c| !matches!(c, Completion::Message(m) if messages.iter().any(|read| read.seq == m.seq)));
                let later = std::mem::take(&mut core.pending);
                core.pending = messages.into_iter().map(Completion::Message).chain(later).collect();
                let last = core.pending.iter().filter_map(|c| match c {
                    Completion::Message(m) => Some(m.seq),
                    _ => None,
                });
                core.seen = last.max().unwrap_or(MessageSeq(0)).max(core.seen);
            }
            if let Some(from) = core.engine.as_ref().and_then(Engine::needs_history) {
                drop(core);
                return this.load(instance, from);
            }
            let ready = core.process.end(true);
            drop(core);
            if ready {
                this.shared.lane.push(Class::First, Queued::Turn(instance));
            }
        });
    }
}
