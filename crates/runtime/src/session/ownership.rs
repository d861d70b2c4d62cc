//! Ownership: at each renewal of its lease, a worker compares what it owns in the store with what it knows (design:
//! docs/internals/ownership.md).
//!
//! An instance or a task that the store lists as a live worker's, and that the worker does not know, would wait for
//! ever, because no other worker may take it. The cause is a fault that the design does not know, or a wrong answer of
//! the store.
//!
//! - **O1** The worker forgets nothing before the store has released it, except what is
//!   [being released](crate::worker::owned::Releasing), which it still knows.
//! - **O2** A request that may make something the worker's holds a [`Claim`](crate::worker::owned::Claim) until its
//!   answer is carried out.
//! - **O3** An instance that the store lists at two looks in a row and the worker does not know is released, fenced by
//!   its epoch. It is not released while a claim is open that was open at the first of the two looks, because that
//!   claim may be the one that brings it.
//! - **O4** An instance that rests here and that the store does not list, at two looks in a row, is forgotten.
//! - **O5** A look costs the store two sums, which come with the renewal. The list is read only if the sums differ, in
//!   pages of [`OWNED_PAGE`].
//! - **O6** A task that the store lists and the worker does not know is released between two requests for tasks. A task
//!   has no epoch, and can be released and taken again between two looks. Between two requests none is on its way.

use std::collections::BTreeSet;
use std::sync::Arc;

use perdure_provider::{InstanceKey, OwnedDigest, ProviderError, ProviderErrorKind, Renewal};
use perdure_scheduler::State;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::instance::instances::Instances;
use crate::log::Level;
use crate::options::OWNED_PAGE;
use crate::state::attempt::AbortReason;
use crate::state::{Instance, Token};
use crate::worker::owned::Owned;

/// The instances that a session knows at one moment.
struct KnownInstances {
    owned: FxHashSet<Owned>,
    digest: OwnedDigest,
    /// The instances that have nothing to do.
    resting: FxHashMap<Token, (Arc<Instance>, Owned)>,
}

impl KnownInstances {
    fn of(instances: &Instances) -> Self {
        let all: Vec<Arc<Instance>> = instances.table.lock().owned().cloned().collect();
        let mut owned: FxHashSet<Owned> = instances.worker.ownership.releasing.lock().keys().copied().collect();
        owned.retain(|owned| matches!(owned, Owned::Instance(..)));
        let mut resting = FxHashMap::default();
        for instance in all {
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
        Self { owned, digest, resting }
    }
}

/// The differences that a look finds, to be confirmed by the next one.
#[derive(Default)]
struct Differences {
    /// Listed by the store, and not known here.
    unknown: BTreeSet<Owned>,
    /// At rest here, and not listed by the store.
    unlisted: FxHashSet<(Token, Owned)>,
}

/// The comparison of a worker, with the differences of its last look.
struct Comparison {
    instances: Arc<Instances>,
    last: Differences,
}

/// Compares after each renewal, until the session ends.
pub(crate) async fn run(instances: Arc<Instances>) {
    let ownership = &instances.worker.ownership;
    let mut comparison = Comparison {
        instances: Arc::clone(&instances),
        last: Differences::default(),
    };
    loop {
        ownership.renewed.notified().await;
        let Some(renewal) = ownership.renewal.lock().take() else {
            continue;
        };
        match comparison.compare(renewal).await {
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            // After an error the next renewal is soon enough.
            Err(_) | Ok(()) => {}
        }
    }
}

impl Comparison {
    async fn compare(&mut self, renewal: Renewal) -> Result<(), ProviderError> {
        let instances = &self.instances;
        let before = KnownInstances::of(instances);
        if renewal.tasks != instances.activities.known_tasks().len() as u64 {
            instances.activities.compare_tasks();
        }
        if renewal.owned == before.digest {
            self.last = Differences::default();
            return Ok(());
        }
        // This is read before the list: if a claim ends while the list is read, what it brings is in the list, and not
        // in what is known so far.
        let are_settled = instances.worker.ownership.claims.lock().are_settled();
        let listed = self.listed().await?;
        let after = KnownInstances::of(instances);
        let is_known = |owned: &Owned| before.owned.contains(owned) || after.owned.contains(owned);
        let unknown: BTreeSet<Owned> = listed.iter().filter(|owned| !is_known(owned)).copied().collect();
        let unlisted = self.drop_unlisted(&before, &after, &listed);
        if !are_settled {
            self.last.unknown.retain(|owned| unknown.contains(owned));
            self.last.unlisted = unlisted;
            return Ok(());
        }
        instances.worker.ownership.claims.lock().begin_era();
        let (orphans, unknown) = unknown.into_iter().partition(|owned| self.last.unknown.contains(owned));
        self.last = Differences { unknown, unlisted };
        drop(instances.worker.release_orphans(&orphans));
        Ok(())
    }

    /// Returns the instances that the store lists as this worker's.
    async fn listed(&self) -> Result<FxHashSet<Owned>, ProviderError> {
        let (provider, worker) = (&self.instances.shared.store.provider, &self.instances.worker.id);
        let mut listed = FxHashSet::default();
        let mut last = InstanceKey(i64::MIN);
        loop {
            let page = provider.owned_by(worker, last, OWNED_PAGE).await?;
            let is_last = page.len() < OWNED_PAGE;
            last = page.last().map_or(last, |(key, _)| *key);
            listed.extend(page.into_iter().map(|(key, epoch)| Owned::Instance(key, epoch)));
            if is_last {
                return Ok(listed);
            }
        }
    }

    /// Forgets the instances that rested here before and after the list was read and are missing from it for the second
    /// time (O4). Returns those that are missing for the first time.
    fn drop_unlisted(
        &self,
        before: &KnownInstances,
        after: &KnownInstances,
        listed: &FxHashSet<Owned>,
    ) -> FxHashSet<(Token, Owned)> {
        let mut unlisted = FxHashSet::default();
        for (token, (instance, owned)) in &after.resting {
            let rested = before.resting.get(token).is_some_and(|(_, before)| before == owned);
            if !rested || listed.contains(owned) {
                continue;
            }
            if !self.last.unlisted.contains(&(*token, *owned)) {
                unlisted.insert((*token, *owned));
                continue;
            }
            let message = format!(
                "instance '{}' is no longer owned by worker {}, according to the store; its next owner continues it",
                instance.id, self.instances.worker.id
            );
            self.instances.shared.log_for(&**instance, Level::Warn, message);
            self.instances.forget(instance, AbortReason::LeaseLost);
        }
        unlisted
    }
}
