//! The table of instances that this worker has loaded. It also knows which of them may be evicted.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashlink::LinkedHashMap;
use perdure_engine::{Completion, EventId};
use perdure_provider::{Epoch, InstanceKey};
use perdure_scheduler::{Directory, NextAction};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::lane::process::Services;
use crate::options::{CACHE_KEPT, EARLY_MAX};
use crate::state::{Instance, Token, TurnNeed};

/// Instances by key, and those with a live generator in the order of their last use.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) owned: Directory<InstanceKey, Instance, FxBuildHasher>,
    /// The owned instances by id.
    ids: Ids,
    /// Released instances whose generator was kept, with the epoch and next event id at which they were released.
    released: FxHashMap<InstanceKey, (Arc<Instance>, Epoch, EventId)>,
    /// The released instances by id.
    released_ids: Ids,
    /// Owned and released instances with a generator, least recently used first, and the time of each one's last use,
    /// ms since 1970.
    hot: LinkedHashMap<Token, (Arc<Instance>, i64)>,
    /// True while a look at the first of them is due.
    is_hot_watched: bool,
    early: EarlyReceivers,
}

/// An instance under its id.
struct ById(Arc<Instance>);

impl Borrow<str> for ById {
    fn borrow(&self) -> &str {
        &self.0.id
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

/// Instances by id.
#[derive(Default)]
struct Ids(HashSet<ById>);

impl Ids {
    fn get(&self, id: &str) -> Option<&Arc<Instance>> {
        self.0.get(id).map(|ById(instance)| instance)
    }

    /// Adds an instance, in the place of another one with its id.
    fn put(&mut self, instance: Arc<Instance>) {
        self.0.replace(ById(instance));
    }

    /// Removes this very instance, and not a later one with its id.
    fn remove(&mut self, instance: &Instance) {
        if self.get(&instance.id).is_some_and(|of| of.token == instance.token) {
            self.0.remove(&*instance.id);
        }
    }
}

/// Instances for which messages came before they were in the table. Their waiting messages must be read again when they
/// come.
#[derive(Default)]
struct EarlyReceivers {
    keys: FxHashSet<InstanceKey>,
    /// True if there were more than [`EARLY_MAX`]: any instance may be one of them.
    any: bool,
}

impl Table {
    /// Hands a completion to an instance. Returns the instance and its next step. `None`: the instance is not here, and
    /// its messages are read again when it comes.
    #[must_use]
    pub(crate) fn send(
        &mut self,
        key: InstanceKey,
        services: &Services,
        completion: Completion,
    ) -> Option<(Arc<Instance>, NextAction<TurnNeed>)> {
        if let Some((instance, then)) = self.owned.send(&key, services, completion) {
            return Some((Arc::clone(instance), then));
        }
        self.came_early(key);
        None
    }

    /// Adds an instance that is owned from now on. Returns `true` if messages came for the instance before.
    pub(crate) fn insert(&mut self, instance: Arc<Instance>) -> bool {
        let key = instance.key();
        self.ids.put(Arc::clone(&instance));
        // A replaced instance was released and does not know that yet. Messages that came since may have gone to it.
        let replaced = self.owned.insert(key, instance).is_some();
        self.early.keys.remove(&key) || self.early.any || replaced
    }

    /// Returns true if the instance is owned by a later acquisition. A late result of an earlier acquisition does not
    /// take its place.
    pub(crate) fn has_later(&self, key: InstanceKey, epoch: Epoch) -> bool {
        self.owned.get(&key).is_some_and(|owned| owned.lock().epoch > epoch)
    }

    /// Notes that a message came for an instance that is not here.
    pub(crate) fn came_early(&mut self, key: InstanceKey) {
        if self.early.keys.len() < EARLY_MAX {
            self.early.keys.insert(key);
        } else {
            self.early.any = true;
        }
    }

    pub(crate) fn get(&self, key: InstanceKey) -> Option<&Arc<Instance>> {
        self.owned.get(&key)
    }

    /// Returns an instance that is owned, or whose generator was kept.
    pub(crate) fn any(&self, key: InstanceKey) -> Option<&Arc<Instance>> {
        self.owned
            .get(&key)
            .or_else(|| self.released.get(&key).map(|(instance, _, _)| instance))
    }

    /// Returns true if this very instance is owned, and not a later one with its key.
    pub(crate) fn owns(&self, instance: &Instance) -> bool {
        self.owned
            .get(&instance.key())
            .is_some_and(|i| i.token == instance.token)
    }

    /// Returns true if the instance with this id is owned.
    pub(crate) fn owns_id(&self, id: &str) -> bool {
        self.ids.get(id).is_some()
    }

    fn disown(&mut self, instance: &Instance) {
        if self.owns(instance) {
            self.owned.remove(&instance.key());
        }
        self.ids.remove(instance);
    }

    /// Forgets an instance altogether.
    pub(crate) fn remove(&mut self, instance: &Instance) {
        self.disown(instance);
        if self
            .released
            .get(&instance.key())
            .is_some_and(|(i, _, _)| i.token == instance.token)
        {
            self.released.remove(&instance.key());
            self.released_ids.remove(instance);
        }
        self.hot.remove(&instance.token);
    }

    /// Releases an instance that keeps its generator.
    pub(crate) fn keep_released(&mut self, instance: Arc<Instance>, epoch: Epoch, next_event_id: EventId) {
        self.disown(&instance);
        self.released_ids.put(Arc::clone(&instance));
        self.released.insert(instance.key(), (instance, epoch, next_event_id));
    }

    /// Takes out the kept generator of an instance that was acquired. The flag is true if the generator is still right.
    /// That is so exactly if no worker owned the instance since (this acquisition alone raised the epoch) and nothing
    /// was appended.
    pub(crate) fn take_released(
        &mut self,
        key: InstanceKey,
        epoch: Epoch,
        next_event_id: EventId,
    ) -> Option<(Arc<Instance>, bool)> {
        let (instance, kept_epoch, kept_next) = self.released.remove(&key)?;
        self.released_ids.remove(&instance);
        let valid = kept_epoch.0 + 1 == epoch.0 && kept_next == next_event_id;
        Some((instance, valid))
    }

    /// Returns the released instance with this id, whose generator was kept, if no message has come for it since.
    pub(crate) fn sleeper(&self, id: &str) -> Option<&Arc<Instance>> {
        let instance = self.released_ids.get(id)?;
        let is_early = self.early.any || self.early.keys.contains(&instance.key());
        (!is_early).then_some(instance)
    }

    /// Returns the released instance with this key whose generator was kept, if nothing has changed it since.
    pub(crate) fn kept(&self, key: InstanceKey, epoch: Epoch, next_event_id: EventId) -> Option<&Arc<Instance>> {
        let (instance, kept_epoch, kept_next) = self.released.get(&key)?;
        (*kept_epoch == epoch && *kept_next == next_event_id).then_some(instance)
    }

    /// Returns true if the generator of a released instance was kept.
    pub(crate) fn keeps_any(&self) -> bool {
        !self.released.is_empty()
    }

    /// Takes out a released instance that is woken. Returns the epoch of its next acquisition.
    pub(crate) fn take_sleeper(&mut self, instance: &Instance) -> Option<Epoch> {
        let (_, epoch, _) = self.released.remove(&instance.key())?;
        self.released_ids.remove(instance);
        Some(Epoch(epoch.0 + 1))
    }

    /// Notes that an instance has a generator and is used now. Returns `true` if the caller must see to it that a task
    /// [looks](Self::take_idle) at the cache.
    #[must_use]
    pub(crate) fn touch(&mut self, instance: &Arc<Instance>, now_ms: i64) -> bool {
        self.hot.insert(instance.token, (Arc::clone(instance), now_ms));
        self.hot.len() > CACHE_KEPT && !std::mem::replace(&mut self.is_hot_watched, true)
    }

    /// Takes out the least recently used instance with a generator, if its last use was at `before_ms` or earlier and
    /// there are more than [`CACHE_KEPT`] of these.
    pub(crate) fn take_idle(&mut self, before_ms: i64) -> Option<Arc<Instance>> {
        let used_ms = self.first_surplus()?;
        (used_ms <= before_ms).then(|| self.take_oldest()).flatten()
    }

    /// Returns the last use of the first instance that may be evicted, from which the time of the next look follows.
    /// `None`: no look is needed until the cache is [touched](Self::touch).
    pub(crate) fn look_again(&mut self) -> Option<i64> {
        let first = self.first_surplus();
        self.is_hot_watched = first.is_some();
        first
    }

    /// Returns the last use of the least recently used instance with a generator, if there are more than
    /// [`CACHE_KEPT`] of these.
    fn first_surplus(&self) -> Option<i64> {
        let (_, (_, used_ms)) = self.hot.front().filter(|_| self.hot.len() > CACHE_KEPT)?;
        Some(*used_ms)
    }

    fn take_oldest(&mut self) -> Option<Arc<Instance>> {
        self.hot.pop_front().map(|(_, (instance, _))| instance)
    }

    /// Takes out the least recently used instance with a generator, if there are more than `max` of these.
    pub(crate) fn take_surplus(&mut self, max: usize) -> Option<Arc<Instance>> {
        if self.hot.len() <= max {
            return None;
        }
        self.take_oldest()
    }

    pub(crate) fn is_released(&self, instance: &Instance) -> bool {
        self.released
            .get(&instance.key())
            .is_some_and(|(i, _, _)| i.token == instance.token)
    }

    pub(crate) fn owned(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.owned.iter()
    }

    /// Returns true if no owned instance has a turn, or will have one by itself.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.owned.is_at_rest()
    }

    /// Returns the instances that are owned, or released with their generators kept.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.owned
            .iter()
            .chain(self.released.values().map(|(instance, _, _)| instance))
    }

    pub(crate) fn len(&self) -> usize {
        self.owned.count()
    }

    /// Returns the number of loaded instances: owned, or released with their generators kept.
    pub(crate) fn loaded(&self) -> usize {
        self.owned.count() + self.released.len()
    }

    pub(crate) fn hot_len(&self) -> usize {
        self.hot.len()
    }

    /// Forgets everything. Returns all instances that were loaded.
    pub(crate) fn clear(&mut self) -> Vec<Arc<Instance>> {
        self.hot.clear();
        self.ids = Ids::default();
        self.released_ids = Ids::default();
        let mut all: Vec<_> = self.owned.drain().collect();
        all.extend(self.released.drain().map(|(_, (i, _, _))| i));
        all
    }
}
