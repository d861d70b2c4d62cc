//! Instances of a session whose starts are not written yet. The module [`starting`](crate::instance::starting) finishes
//! these starts.

use std::sync::Arc;

use perdure_provider::InstanceKey;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::state::{Instance, Token};

/// Instances whose starts are not written, or not known here to be written.
#[derive(Default)]
pub(crate) struct Starting {
    pub(crate) instances: FxHashMap<Token, Arc<Instance>>,
    /// Keys of instances that were terminated, suspended or acquired again meanwhile. Each instance that is being
    /// started may have one of these keys.
    taken_away: FxHashSet<InstanceKey>,
}

impl Starting {
    pub(crate) fn len(&self) -> usize {
        self.instances.len()
    }

    pub(crate) fn taken_away(&mut self, key: InstanceKey) {
        if !self.instances.is_empty() {
            self.taken_away.insert(key);
        }
    }

    /// Forgets an instance whose start is written or refused. Returns `true` if the instance was taken away already.
    pub(crate) fn remove(&mut self, instance: &Instance) -> bool {
        self.instances.remove(&instance.token);
        let taken_away = self.taken_away.remove(&instance.key());
        if self.instances.is_empty() {
            self.taken_away.clear();
        }
        taken_away
    }
}
