//! What is read from the store for an instance: pages of its history, and messages that came before it was here or were left there.

use std::sync::Arc;

use perdure_engine::{Engine, EventId, EventRecord, Start};
use perdure_provider::{ProviderError, ProviderErrorKind};
use tokio::task::JoinHandle;

use crate::activities::AbortReason;
use crate::instance::{Core, Instance};
use crate::options::{HISTORY_PAGE, MESSAGE_PAGE};
use crate::panics::caught;
use crate::report::Report;
use crate::retry::retrying;
use crate::session::Session;

/// The page of an instance's history that follows those it has: it is read while they are replayed. Dropped, it is not.
pub(crate) struct PageAhead {
    from: EventId,
    page: JoinHandle<Result<Vec<EventRecord>, ProviderError>>,
}

impl Drop for PageAhead {
    fn drop(&mut self) {
        self.page.abort();
    }
}

impl Session {
    /// Read all messages that wait for a blocked instance; it is ready afterwards, or reads its history.
    pub(crate) fn load_messages(self: &Arc<Self>, instance: Arc<Instance>) {
        let this = Arc::clone(self);
        self.shared.store.tokio.spawn(async move {
            let left = {
                let mut core = instance.lock();
                core.rereads = false;
                core.backlog.left()
            };
            let provider = &this.shared.store.provider;
            match retrying(|| provider.read_messages(instance.key(), None, MESSAGE_PAGE)).await {
                Ok(page) => {
                    instance.lock().take_messages(page, left);
                    this.loaded(instance);
                }
                Err(error) => this.unreadable(&instance, &error),
            }
        });
    }

    /// Search the store for messages of the mailboxes that a blocked instance waits for (B3); it is ready afterwards.
    pub(crate) fn search(self: &Arc<Self>, instance: Arc<Instance>) {
        let this = Arc::clone(self);
        self.shared.store.tokio.spawn(async move {
            let (mailboxes, left) = {
                let core = instance.lock();
                let awaited = core.engine.as_ref().map(Engine::awaited_mailboxes);
                (awaited.unwrap_or_default().to_vec(), core.backlog.left())
            };
            let provider = &this.shared.store.provider;
            let read = || provider.read_messages(instance.key(), Some(mailboxes.clone()), MESSAGE_PAGE);
            match retrying(read).await {
                Ok(page) => {
                    instance.lock().take_found(page, mailboxes, left);
                    this.loaded(instance);
                }
                Err(error) => this.unreadable(&instance, &error),
            }
        });
    }

    /// Read a page of history for a blocked instance; it is ready afterwards.
    pub(crate) fn load(self: &Arc<Self>, instance: Arc<Instance>, from: EventId) {
        let this = Arc::clone(self);
        self.shared.store.tokio.spawn(async move {
            let provider = &this.shared.store.provider;
            let (key, execution) = (instance.key(), instance.execution);
            let page = this.page(&instance, from).await;
            let left = instance.lock().backlog.left();
            let messages = if from == EventId::FIRST {
                retrying(|| provider.read_messages(key, None, MESSAGE_PAGE))
                    .await
                    .map(Some)
            } else {
                Ok(None)
            };
            let (page, messages) = match (page, messages) {
                (Ok(page), Ok(messages)) => (page, messages),
                (Err(error), _) | (_, Err(error)) => return this.unreadable(&instance, &error),
            };
            let mut core = instance.lock();
            let complete = page.len() < HISTORY_PAGE;
            this.shared.metrics.replayed_events.add(page.len() as u64);
            this.shared.metrics.replays.add(u64::from(core.engine.is_none()));
            let loaded = caught(|| match &mut core.engine {
                Some(engine) => engine.extend_history(page, complete),
                None => Engine::new(Start {
                    execution,
                    history: page,
                    complete,
                    // An instance is set aside only after a turn was committed.
                    fresh: false,
                    budget: this.shared.options.budget,
                })
                .map(|engine| {
                    core.engine = Some(engine.with_limits(this.shared.options.limits));
                    core.reloaded = true;
                }),
            });
            if let Err(problem) = loaded {
                drop(core);
                return this.suspend(&instance, Report::of_problem(&problem));
            }
            if let Some(messages) = messages {
                core.take_messages(messages, left);
            }
            this.read_ahead(&instance, &mut core);
            drop(core);
            this.loaded(instance);
        });
    }

    /// Begin to read the page that the replay of an instance comes to after those it has. One at a time: a second would be memory, and no faster.
    pub(crate) fn read_ahead(&self, instance: &Instance, core: &mut Core) {
        let Some(from) = core.engine.as_ref().and_then(Engine::next_page) else {
            return;
        };
        let provider = Arc::clone(&self.shared.store.provider);
        let (key, execution) = (instance.key(), instance.execution);
        let page = async move { retrying(|| provider.read_history(key, execution, from, HISTORY_PAGE)).await };
        let page = self.shared.store.tokio.spawn(page);
        core.ahead = Some(PageAhead { from, page });
    }

    /// A page of an instance's history.
    async fn page(&self, instance: &Instance, from: EventId) -> Result<Vec<EventRecord>, ProviderError> {
        let ahead = instance.lock().ahead.take();
        if let Some(mut ahead) = ahead.filter(|ahead| ahead.from == from)
            && let Ok(page) = (&mut ahead.page).await
        {
            return page;
        }
        let provider = &self.shared.store.provider;
        retrying(|| provider.read_history(instance.key(), instance.execution, from, HISTORY_PAGE)).await
    }

    /// What an instance was blocked for is here.
    fn loaded(self: &Arc<Self>, instance: Arc<Instance>) {
        let more = instance.lock().engine.as_ref().and_then(Engine::needs_history);
        match more {
            Some(from) => self.load(instance, from),
            None => {
                self.resume(&instance);
            }
        }
    }

    /// The store cannot give what an instance needs: hold it for somebody to look at.
    fn unreadable(self: &Arc<Self>, instance: &Arc<Instance>, error: &ProviderError) {
        if error.kind == ProviderErrorKind::Closed {
            return self.forget(instance, AbortReason::LeaseLost);
        }
        self.suspend(
            instance,
            Report::of_problem(&format!("it cannot be read from the store: {error}")),
        );
    }
}
