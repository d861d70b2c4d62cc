//! Ownership: at each renewal of its lease, a worker compares what it owns in the store with what it knows (design:
//! docs/internals/ownership.md).
//!
//! An instance or a task that the store lists as a live worker's, and that the worker does not know, would wait for
//! ever, because no other worker may take it. The cause is a fault that the design does not know, or a wrong answer of
//! the store.
//!
//! - **O1** The worker forgets nothing before the store has released it, except what is [on its way out](Leaving),
//!   which it still knows.
//! - **O2** A request that may make something the worker's holds a [`Claim`] until its answer is carried out.
//! - **O3** An instance or task that the store lists at two looks in a row and the worker does not know is released,
//!   fenced by its epoch. It is not released while a claim is open that was open at the first of the two looks, because
//!   that claim may be the one that brings it.
//! - **O4** An instance that rests here and that the store does not list, at two looks in a row, is forgotten.
//! - **O5** A look costs the store two sums, which come with the renewal. The list is read only if the sums differ, in
//!   pages of [`OWNED_PAGE`].

use std::collections::BTreeSet;
use std::sync::Arc;

use perdure_engine::{Bug, is_planted};
use perdure_provider::{
    Epoch, InstanceKey, Outcome, OwnedDigest, ProviderError, ProviderErrorKind, ReleaseInstance, ReleaseTask, Renewal,
    TaskName, Write,
};
use perdure_scheduler::State;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::commit::committer::Patience;
use crate::log::Level;
use crate::options::{ORPHANS_NAMED, OWNED_PAGE};
use crate::session::session::Session;
use crate::state::attempt::AbortReason;
use crate::state::{Instance, Token};
use crate::worker::owned::Owned;

/// A request to the store that is under way and may make something this worker's (O2).
pub(crate) struct Claim(Arc<Session>, usize);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.ownership.claims.lock().open[self.1] -= 1;
    }
}

/// An instance or a task that is forgotten here while its release is under way (O1).
pub(crate) struct Leaving(Arc<Session>, Owned);

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut leaving = self.0.ownership.leaving.lock();
        if let Some(count) = leaving.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                leaving.remove(&self.1);
            }
        }
    }
}

/// The instances and tasks that a session knows at one moment.
struct Known {
    owned: FxHashSet<Owned>,
    digest: OwnedDigest,
    tasks: u64,
    /// The instances that have nothing to do.
    resting: FxHashMap<Token, (Arc<Instance>, Owned)>,
}

/// The differences that the last look found, to be confirmed by the next one.
#[derive(Default)]
struct Look {
    /// Listed by the store, and not known here.
    unknown: BTreeSet<Owned>,
    /// At rest here, and not listed by the store.
    unlisted: FxHashSet<(Token, Owned)>,
}

/// Compares after each renewal, until the session ends.
pub(crate) async fn run(session: Arc<Session>) {
    let mut last = Look::default();
    loop {
        session.ownership.renewed.notified().await;
        let Some(renewal) = session.ownership.renewal.lock().take() else {
            continue;
        };
        match session.compare(renewal, &mut last).await {
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            // After an error the next renewal is soon enough.
            Err(_) | Ok(()) => {}
        }
    }
}

impl Session {
    /// Opens a claim: something may become this worker's until the claim is dropped.
    pub(crate) fn claim(self: &Arc<Self>) -> Claim {
        let mut claims = self.ownership.claims.lock();
        let era = claims.era;
        claims.open[era] += 1;
        Claim(Arc::clone(self), era)
    }

    /// Notes that an instance or a task is on its way out until the returned value is dropped.
    pub(crate) fn leaving(self: &Arc<Self>, owned: Owned) -> Leaving {
        *self.ownership.leaving.lock().entry(owned).or_default() += 1;
        Leaving(Arc::clone(self), owned)
    }

    /// Returns the tasks whose end is on its way to the store. They are still this worker's, although nothing runs.
    pub(crate) fn leaving_tasks(&self) -> Vec<TaskName> {
        let leaving = self.ownership.leaving.lock();
        let tasks = leaving.keys().filter_map(|owned| match owned {
            Owned::Task(task) => Some(*task),
            Owned::Instance(..) => None,
        });
        tasks.collect()
    }

    /// True if the instance is on its way out.
    pub(crate) fn is_leaving(&self, key: InstanceKey) -> bool {
        let leaving = self.ownership.leaving.lock();
        let mut instances = leaving.keys().filter_map(|owned| match owned {
            Owned::Instance(key, _) => Some(*key),
            Owned::Task(_) => None,
        });
        instances.any(|leaves| leaves == key)
    }

    /// Notes the answer to a renewal of the lease, and wakes the comparison.
    pub(crate) fn renewed(&self, renewal: Renewal) {
        if is_planted(Bug::OwnedNotCompared) {
            return;
        }
        *self.ownership.renewal.lock() = Some(renewal);
        self.ownership.renewed.notify_one();
    }

    /// Releases an instance that is not known here, or no longer. Most often another worker owns it by then. But if the
    /// store lists it as this worker's, no other worker would ever take it.
    pub(crate) fn let_go(self: &Arc<Self>, key: InstanceKey, epoch: Epoch) {
        let write = Write::ReleaseInstance(ReleaseInstance {
            key,
            worker: self.worker.clone(),
            epoch,
        });
        self.give_up(Owned::Instance(key, epoch), write);
    }

    fn let_go_task(self: &Arc<Self>, task: TaskName) {
        let worker = self.worker.clone();
        self.give_up(Owned::Task(task), Write::ReleaseTask(ReleaseTask { worker, task }));
    }

    fn give_up(self: &Arc<Self>, owned: Owned, write: Write) {
        let (store, leaving) = (Arc::clone(&self.shared.store), self.leaving(owned));
        let done = Box::new(move |answer: Result<Outcome, ProviderError>| {
            match (answer, owned) {
                (Ok(Outcome::Noted), Owned::Instance(..)) => store.work_is_due(),
                (Ok(Outcome::Noted), Owned::Task(_)) => store.look_at_tasks(),
                // The store did not list it as this worker's. If the store refuses, the next comparison finds it again.
                _ => {}
            }
            drop(leaving);
        });
        self.shared.store.committer.submit(write, Patience::Endless, done);
    }

    async fn compare(self: &Arc<Self>, renewal: Renewal, last: &mut Look) -> Result<(), ProviderError> {
        let before = self.known();
        if (renewal.owned, renewal.tasks) == (before.digest, before.tasks) {
            *last = Look::default();
            return Ok(());
        }
        // This is read before the list: if a claim ends while the list is read, what it brings is in the list, and not
        // in what is known so far.
        let are_settled = self.ownership.claims.lock().are_settled();
        let listed = self.listed().await?;
        let after = self.known();
        let is_known = |owned: &Owned| before.owned.contains(owned) || after.owned.contains(owned);
        let unknown: BTreeSet<Owned> = listed.iter().filter(|owned| !is_known(owned)).copied().collect();
        let unlisted = self.drop_unlisted(&before, &after, &listed, last);
        if !are_settled {
            last.unknown.retain(|owned| unknown.contains(owned));
            last.unlisted = unlisted;
            return Ok(());
        }
        self.ownership.claims.lock().look();
        let (orphans, unknown) = unknown.into_iter().partition(|owned| last.unknown.contains(owned));
        *last = Look { unknown, unlisted };
        self.release_orphans(&orphans);
        Ok(())
    }

    /// Returns the instances and tasks that the store lists as this worker's.
    async fn listed(&self) -> Result<FxHashSet<Owned>, ProviderError> {
        let provider = &self.shared.store.provider;
        let tasks = provider.tasks_of(&self.worker).await?;
        let mut listed: FxHashSet<Owned> = tasks.into_iter().map(Owned::Task).collect();
        let mut last = InstanceKey(i64::MIN);
        loop {
            let page = provider.owned_by(&self.worker, last, OWNED_PAGE).await?;
            let is_last = page.len() < OWNED_PAGE;
            last = page.last().map_or(last, |(key, _)| *key);
            listed.extend(page.into_iter().map(|(key, epoch)| Owned::Instance(key, epoch)));
            if is_last {
                return Ok(listed);
            }
        }
    }

    fn known(&self) -> Known {
        let instances: Vec<Arc<Instance>> = self.table.lock().owned().cloned().collect();
        let tasks = self.activities.lock().borrowed();
        let mut owned: FxHashSet<Owned> = tasks.into_iter().map(Owned::Task).collect();
        owned.extend(self.ownership.leaving.lock().keys());
        let mut resting = FxHashMap::default();
        for instance in instances {
            let (epoch, state) = {
                let core = instance.lock();
                (core.epoch, core.control.state())
            };
            let own = Owned::Instance(instance.key(), epoch);
            owned.insert(own);
            if state == State::Idle {
                resting.insert(instance.token, (instance, own));
            }
        }
        let keys = owned.iter().filter_map(|owned| match owned {
            Owned::Instance(key, _) => Some(*key),
            Owned::Task(_) => None,
        });
        let digest: OwnedDigest = keys.collect();
        Known {
            tasks: owned.len() as u64 - digest.instances,
            digest,
            owned,
            resting,
        }
    }

    /// Forgets the instances that rested here before and after the list was read and are missing from it for the second
    /// time (O4). Returns those that are missing for the first time.
    fn drop_unlisted(
        self: &Arc<Self>,
        before: &Known,
        after: &Known,
        listed: &FxHashSet<Owned>,
        last: &Look,
    ) -> FxHashSet<(Token, Owned)> {
        let mut unlisted = FxHashSet::default();
        for (token, (instance, owned)) in &after.resting {
            let rested = before.resting.get(token).is_some_and(|(_, before)| before == owned);
            if !rested || listed.contains(owned) {
                continue;
            }
            if !last.unlisted.contains(&(*token, *owned)) {
                unlisted.insert((*token, *owned));
                continue;
            }
            let message = format!(
                "instance '{}' is not worker {}'s any more, as the store says; it goes on wherever it is acquired",
                instance.id, self.worker
            );
            self.shared.log_about(&**instance, Level::Warn, message);
            self.forget(instance, AbortReason::LeaseLost);
        }
        unlisted
    }

    fn release_orphans(self: &Arc<Self>, orphans: &BTreeSet<Owned>) {
        if orphans.is_empty() {
            return;
        }
        let named: Vec<String> = orphans.iter().take(ORPHANS_NAMED).map(named).collect();
        let message = format!(
            "worker {} owned {} in the store and did not know of it; what it does not know is released, so that it goes on: {}",
            self.worker,
            orphans.len(),
            named.join(", ")
        );
        self.shared.log(Level::Warn, message);
        for orphan in orphans {
            match orphan {
                Owned::Instance(key, epoch) => self.let_go(*key, *epoch),
                Owned::Task(task) => self.let_go_task(*task),
            }
        }
    }
}

/// Returns a name for the log, by the key of the row: the instance's id is not known here.
fn named(owned: &Owned) -> String {
    match owned {
        Owned::Instance(key, _) => format!("instance with key {}", key.0),
        Owned::Task(task) => format!("activity {} of the instance with key {}", task.scheduled.0, task.key.0),
    }
}
