//! Waits for the end of an instance, or for a change of its custom status or its state.
//!
//! If the change happens in this process, the commit that brings it tells the waits. Otherwise the store's sign of a
//! foreign change makes them look. One query serves all waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use perdure_provider::{InstanceStatus, Provider, ProviderError, ProviderErrorKind, Status};
use tokio::sync::Notify;

use crate::options::{RETRY_DELAYS, STATUS_PAGE};
use crate::platform::retry::is_final;

/// The condition that ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaiting {
    /// The instance has ended.
    End,
    /// The instance has ended or is suspended.
    EndOrSuspension,
    /// The version of its custom status is above this one, or the instance has ended.
    StatusAfter(u64),
    /// The version of its state is above this one, or the instance has ended.
    StateAfter(u64),
}

/// The callback that receives the status that ended a wait; `None` if there is no such instance.
pub(crate) type WaitDone = Box<dyn FnOnce(Result<Option<InstanceStatus>, ProviderError>) + Send>;

/// Name of a wait, given by the caller: the caller's number, and the number of the wait there.
pub type WaitId = (u32, u64);

struct Waiter {
    id: WaitId,
    /// Position among all waits. A read that began before this wait came says nothing about it.
    number: u64,
    awaiting: Awaiting,
    done: WaitDone,
}

#[derive(Default)]
struct State {
    waiters: HashMap<String, Vec<Waiter>>,
    instance_of: HashMap<WaitId, String>,
    dirty: BTreeSet<String>,
    /// Instances whose statuses could not be read together. Each of them is read by itself.
    suspects: Vec<String>,
    /// Number of waits that were ever added.
    added: u64,
}

impl State {
    fn take_page(&mut self) -> Vec<String> {
        if let Some(suspect) = self.suspects.pop() {
            return vec![suspect];
        }
        // Instances whose waits were told meanwhile have no waits left.
        let State { waiters, dirty, .. } = self;
        dirty.retain(|id| waiters.contains_key(id));
        let page: Vec<String> = self.dirty.iter().take(STATUS_PAGE).cloned().collect();
        for id in &page {
            self.dirty.remove(id);
        }
        page
    }
}

/// The waits of one process on one store.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
    changed: Notify,
}

impl Watch {
    /// Adds a wait. A [`mark_changed`](Self::mark_changed) must follow, unless it is known that nothing can have
    /// happened yet.
    pub(crate) fn add(&self, id: WaitId, instance: String, awaiting: Awaiting, done: WaitDone) {
        let mut state = self.state.lock();
        let number = state.added;
        state.added += 1;
        state.instance_of.insert(id, instance.clone());
        state.waiters.entry(instance).or_default().push(Waiter {
            id,
            number,
            awaiting,
            done,
        });
    }

    /// Forgets a wait. Its `done` is never called.
    pub(crate) fn remove(&self, id: WaitId) {
        let mut state = self.state.lock();
        let Some(instance) = state.instance_of.remove(&id) else {
            return;
        };
        if let Some(waiters) = state.waiters.get_mut(&instance) {
            waiters.retain(|w| w.id != id);
            if waiters.is_empty() {
                state.waiters.remove(&instance);
            }
        }
    }

    /// Returns true if an instance has waits.
    pub(crate) fn awaits(&self, instance: &str) -> bool {
        self.state.lock().waiters.contains_key(instance)
    }

    /// Tells the waits of an instance its status after a change.
    pub(crate) fn changed(&self, status: InstanceStatus) {
        let id = status.id.clone();
        self.settle(
            &id,
            u64::MAX,
            |awaiting| is_over(awaiting, Some(&status)),
            &Ok(Some(status.clone())),
        );
    }

    /// Marks an instance that may have ended, or changed its custom status or its state.
    pub(crate) fn mark_changed(&self, instance: &str) {
        let mut state = self.state.lock();
        if state.waiters.contains_key(instance) && state.dirty.insert(instance.to_owned()) {
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Marks all instances that have waits, because any of them may have changed.
    pub(crate) fn mark_all_changed(&self) {
        let mut state = self.state.lock();
        if state.waiters.is_empty() {
            return;
        }
        let State { waiters, dirty, .. } = &mut *state;
        dirty.extend(waiters.keys().cloned());
        drop(state);
        self.changed.notify_one();
    }

    /// Serves the waits until the store is closed.
    pub(crate) async fn run(self: Arc<Self>, provider: Arc<dyn Provider>) {
        let mut delay = RETRY_DELAYS.0;
        loop {
            let (page, asked) = {
                let mut state = self.state.lock();
                (state.take_page(), state.added)
            };
            if page.is_empty() {
                self.changed.notified().await;
                continue;
            }
            match provider.statuses(page.clone()).await {
                Ok(statuses) => {
                    delay = RETRY_DELAYS.0;
                    // The answer may cover only the first ids, if more statuses would be too large for one answer.
                    let untold = page.iter().skip(statuses.len()).cloned();
                    self.state.lock().dirty.extend(untold);
                    for (id, status) in page.iter().zip(statuses) {
                        self.settle(
                            id,
                            asked,
                            |awaiting| is_over(awaiting, status.as_ref()),
                            &Ok(status.clone()),
                        );
                    }
                }
                Err(error) if !is_final(&error) => {
                    self.state.lock().dirty.extend(page);
                    crate::platform::time::sleep(delay).await;
                    delay = (delay * 2).min(RETRY_DELAYS.1);
                }
                // One status that cannot be read must not end the waits for the others.
                Err(error) if page.len() > 1 && error.kind != ProviderErrorKind::Closed => {
                    self.state.lock().suspects.extend(page);
                }
                Err(error) => {
                    for id in &page {
                        self.settle(id, asked, |_| true, &Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Ends the waits for an instance that are over, among the first `asked` waits.
    fn settle(
        &self,
        instance: &str,
        asked: u64,
        is_over: impl Fn(Awaiting) -> bool,
        answer: &Result<Option<InstanceStatus>, ProviderError>,
    ) {
        let settled = {
            let mut state = self.state.lock();
            let Some(waiters) = state.waiters.get_mut(instance) else {
                return;
            };
            let settled: Vec<Waiter> = waiters
                .extract_if(.., |w| w.number < asked && is_over(w.awaiting))
                .collect();
            if waiters.is_empty() {
                state.waiters.remove(instance);
            }
            for waiter in &settled {
                state.instance_of.remove(&waiter.id);
            }
            settled
        };
        for waiter in settled {
            (waiter.done)(answer.clone());
        }
    }

    /// Returns the number of waits and of the entries kept for them.
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        state.waiters.len() + state.instance_of.len() + state.dirty.len() + state.suspects.len()
    }
}

fn is_over(awaiting: Awaiting, status: Option<&InstanceStatus>) -> bool {
    let Some(status) = status else { return true };
    status.status.is_terminal()
        || match awaiting {
            Awaiting::End => false,
            Awaiting::EndOrSuspension => status.status == Status::Suspended,
            Awaiting::StatusAfter(version) => status.custom_status_version > version,
            Awaiting::StateAfter(version) => status.state_version > version,
        }
}
