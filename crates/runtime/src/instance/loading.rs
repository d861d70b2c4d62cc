//! Reads from the store for instances: the stored data of an instance that comes, pages of its history, and messages
//! that came before the instance was here or were left in the store. Histories keep to the worker's
//! [budget](Instances::loads): docs/internals/memory.md.

use std::sync::Arc;

use perdure_engine::{Engine, EventId, EventRecord, Mailbox, Message, MessageBody, Start};
use perdure_provider::{Load, LoadOne, Loaded, ProviderError, ProviderErrorKind};
use perdure_scheduler::State;

use crate::instance::instances::Instances;
use crate::log::Level;
use crate::options::{HISTORY_PAGE, MESSAGE_PAGE, NO_MEMORY_PATIENCE, SEARCHED_MAX};
use crate::platform::byte_budget::Reservation;
use crate::platform::panics::caught;
use crate::platform::retry::{is_final, reading, reading_together};
use crate::report::Report;
use crate::state::attempt::AbortReason;
use crate::state::page_ahead::{Page, PageAhead};
use crate::state::{Core, Instance};

fn bytes_of(events: &[EventRecord]) -> usize {
    events.iter().map(EventRecord::bytes).sum()
}

impl Instances {
    /// Reads all messages that wait for a blocked instance. Afterwards the instance is ready, or reads its history.
    pub(crate) fn load_messages(self: &Arc<Self>, instance: Arc<Instance>) {
        let this = Arc::clone(self);
        self.worker.spawn(async move {
            let left = {
                let mut core = instance.lock();
                core.rereads = false;
                core.backlog.left()
            };
            let provider = &this.shared.store.provider;
            let read = || provider.read_messages(instance.key(), None, MESSAGE_PAGE);
            match reading(read, NO_MEMORY_PATIENCE).await {
                Ok(page) => {
                    instance.lock().take_messages(page, left);
                    this.go_on(&instance);
                }
                Err(error) => this.unreadable(&instance, &error),
            }
        });
    }

    /// Searches the store for messages of the mailboxes that a blocked instance waits for (B3). Afterwards the instance
    /// is ready.
    pub(crate) fn search(self: &Arc<Self>, instance: Arc<Instance>) {
        let this = Arc::clone(self);
        self.worker.spawn(async move {
            match this.found(&instance).await {
                Ok(()) => {
                    this.go_on(&instance);
                }
                Err(error) => this.unreadable(&instance, &error),
            }
        });
    }

    async fn found(&self, instance: &Instance) -> Result<(), ProviderError> {
        let provider = &self.shared.store.provider;
        let (left, is_many) = {
            let core = instance.lock();
            let awaited = core.engine.as_ref().map_or(0, Engine::awaited_mailboxes_len);
            (core.backlog.left(), awaited > SEARCHED_MAX)
        };
        if is_many {
            let read = || provider.read_messages(instance.key(), None, MESSAGE_PAGE);
            let page = reading(read, NO_MEMORY_PATIENCE).await?;
            let mut core = instance.lock();
            let awaits = |message: &Message| match &message.body {
                MessageBody::Mail { mailbox, .. } => core
                    .engine
                    .as_ref()
                    .is_some_and(|engine| engine.awaits_mailbox(mailbox)),
                _ => false,
            };
            if page.messages.iter().any(awaits) {
                core.take_messages(page, left);
                return Ok(());
            }
        }
        let (mailboxes, left) = {
            let core = instance.lock();
            let awaited = core.engine.iter().flat_map(Engine::awaited_mailboxes);
            (awaited.cloned().collect::<Vec<Mailbox>>(), core.backlog.left())
        };
        let read = || provider.read_messages(instance.key(), Some(mailboxes.clone()), MESSAGE_PAGE);
        let page = reading(read, NO_MEMORY_PATIENCE).await?;
        instance.lock().take_found(page, mailboxes, left);
        Ok(())
    }

    /// Reads the stored data of instances that were acquired together. The acquisition limited how much that is.
    /// Afterwards the instances are ready.
    pub(crate) fn load_all(self: &Arc<Self>, instances: Vec<Arc<Instance>>) {
        if instances.is_empty() {
            return;
        }
        let held: Vec<Reservation> = instances
            .iter()
            .map(|instance| self.loads.take(instance.lock().page_bytes))
            .collect();
        let this = Arc::clone(self);
        self.worker
            .spawn(async move { this.read_stored(instances, held).await });
    }

    /// Reads the stored data of one instance when there is room for it.
    pub(crate) fn load_one(self: &Arc<Self>, instance: Arc<Instance>) {
        let this = Arc::clone(self);
        self.worker.spawn(async move {
            let bytes = instance.lock().page_bytes;
            let held = this.loads.reserve(bytes).await;
            this.read_stored(vec![instance], vec![held]).await;
        });
    }

    async fn read_stored(self: &Arc<Self>, instances: Vec<Arc<Instance>>, held: Vec<Reservation>) {
        let mut left = Vec::with_capacity(instances.len());
        let mut to_load = Vec::with_capacity(instances.len());
        for instance in &instances {
            let mut core = instance.lock();
            core.rereads = false;
            left.push(core.backlog.left());
            to_load.push(LoadOne {
                key: instance.key(),
                execution: instance.execution,
                next_event_id: core.next_event_id,
                history: core.engine.is_none(),
            });
        }
        let request = Load {
            instances: to_load,
            history_page: HISTORY_PAGE,
            message_page: MESSAGE_PAGE,
        };
        let provider = &self.shared.store.provider;
        let is_alone = instances.len() == 1;
        let with_history: Vec<bool> = request.instances.iter().map(|one| one.history).collect();
        let load = || provider.load(request.clone());
        let loaded = if is_alone {
            reading(load, NO_MEMORY_PATIENCE).await
        } else {
            reading_together(load).await
        };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            // One of the instances may be too large, or fail the server, while the others do not.
            Err(error) if !is_final(&error) && !is_alone => {
                let message = format!(
                    "{} instances could not be read together; each is read alone: {error}",
                    instances.len()
                );
                self.shared.log(Level::Warn, message);
                drop(held);
                return instances.into_iter().for_each(|instance| self.load_one(instance));
            }
            Err(error) => return instances.iter().for_each(|instance| self.unreadable(instance, &error)),
        };
        let read = with_history.into_iter().zip(loaded);
        for (((instance, (has_history, loaded)), held), left) in instances.into_iter().zip(read).zip(held).zip(left) {
            // The instance has lost its code since the read began.
            let lacks_history = !has_history && instance.lock().engine.is_none();
            match loaded {
                Ok(_) if lacks_history => self.load_one(instance),
                Ok(loaded) => self.take_stored(&instance, loaded, held, left),
                Err(error) => self.unreadable(&instance, &error),
            }
        }
    }

    /// Takes in the stored data of an instance.
    fn take_stored(self: &Arc<Self>, instance: &Arc<Instance>, mut loaded: Loaded, mut held: Reservation, left: u64) {
        let mut core = instance.lock();
        let engine = if core.engine.is_none() {
            let history = std::mem::take(&mut loaded.history);
            let bytes = bytes_of(&history);
            held.set(bytes);
            if !core.is_fresh {
                self.shared.metrics.replays.add(1);
                self.shared.metrics.replayed_events.add(history.len() as u64);
            }
            let start = Start {
                execution: instance.execution,
                complete: !HISTORY_PAGE.is_reached(history.len(), bytes),
                history,
                fresh: core.is_fresh,
                budget: self.shared.options.budget,
            };
            match caught(|| Engine::new(start)) {
                Ok(engine) => Some(
                    engine
                        .with_limits(self.shared.options.limits)
                        .with_version(&instance.version),
                ),
                Err(problem) => {
                    drop(core);
                    return self.suspend(instance, Report::of_problem(&problem));
                }
            }
        } else {
            None
        };
        core.take_stored(loaded, left);
        if let Some(engine) = engine {
            instance.set_incarnation(engine.incarnation());
            core.engine = Some(engine);
            core.reloaded = true;
            core.held = Some(held);
            self.read_ahead(instance, &mut core);
        }
        drop(core);
        self.go_on(instance);
    }

    /// Reads a page of history for a blocked instance. Afterwards the instance is ready.
    pub(crate) fn load(self: &Arc<Self>, instance: Arc<Instance>, from: EventId) {
        let this = Arc::clone(self);
        self.worker.spawn(async move {
            let Page { events, held, is_last } = match this.page(&instance, from).await {
                Ok(page) => page,
                Err(error) => return this.unreadable(&instance, &error),
            };
            let mut core = instance.lock();
            this.shared.metrics.replayed_events.add(events.len() as u64);
            let loaded = caught(|| match &mut core.engine {
                Some(engine) => engine.extend_history(events, is_last),
                None => Ok(()),
            });
            if let Err(problem) = loaded {
                drop(core);
                return this.suspend(&instance, Report::of_problem(&problem));
            }
            match &mut core.held {
                Some(all) => all.add(held),
                none => *none = Some(held),
            }
            this.read_ahead(&instance, &mut core);
            drop(core);
            this.go_on(&instance);
        });
    }

    /// Begins to read the next page for the replay of an instance, if there is room for it. Only one page is read
    /// ahead: a second one would take memory and be no faster.
    fn read_ahead(&self, instance: &Instance, core: &mut Core) {
        let Some(from) = core.engine.as_ref().and_then(Engine::next_page) else {
            return;
        };
        if self.loads.room() == 0 {
            return;
        }
        let page = self.read_page(instance, from);
        let page = self.shared.store.tokio.spawn(page);
        core.ahead = Some(PageAhead { from, page });
    }

    /// Reads a page of an instance's history. The read does not wait for room, because the instance holds some already
    /// (Y3).
    fn read_page(
        &self,
        instance: &Instance,
        from: EventId,
    ) -> impl Future<Output = Result<Page, ProviderError>> + Send + use<> {
        let provider = Arc::clone(&self.shared.store.provider);
        let (key, execution) = (instance.key(), instance.execution);
        let mut held = self.loads.take(HISTORY_PAGE.bytes);
        async move {
            let read = || provider.read_history(key, execution, from, HISTORY_PAGE);
            let events = reading(read, NO_MEMORY_PATIENCE).await?;
            let bytes = bytes_of(&events);
            held.set(bytes);
            Ok(Page {
                held,
                is_last: !HISTORY_PAGE.is_reached(events.len(), bytes),
                events,
            })
        }
    }

    async fn page(&self, instance: &Instance, from: EventId) -> Result<Page, ProviderError> {
        let ahead = instance.lock().ahead.take();
        if let Some(mut ahead) = ahead.filter(|ahead| ahead.from == from)
            && let Ok(page) = (&mut ahead.page).await
        {
            return page;
        }
        self.read_page(instance, from).await
    }

    /// Goes on with an instance whose need is met: provides its next need, or queues its turn. Returns `false` if the
    /// instance is over meanwhile.
    pub(crate) fn go_on(self: &Arc<Self>, instance: &Arc<Instance>) -> bool {
        let lacks = {
            let core = instance.lock();
            if core.control.state() == State::Complete {
                return false;
            }
            core.lacks()
        };
        match lacks {
            Some(needs) => {
                self.provide(Arc::clone(instance), needs);
                true
            }
            None => self.resume(instance),
        }
    }

    /// Suspends an instance whose data the store cannot provide, so that an operator can look at it.
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
