//! Instances of a session whose start is not written yet. [`starting`](crate::turn::starting) brings them to their end.

use std::sync::Arc;

use perdure_provider::InstanceKey;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::instance::{Instance, Token};

/// Instances whose start is not written, or not known here to be.
#[derive(Default)]
pub(crate) struct Starting {
    pub(super) instances: FxHashMap<Token, Arc<Instance>>,
    /// What was terminated, suspended or acquired again meanwhile: any of them may have one of these keys.
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

    /// Forget an instance, whose start is written or refused. `true`: it was taken away already.
    pub(super) fn remove(&mut self, instance: &Instance) -> bool {
        self.instances.remove(&instance.token);
        let taken_away = self.taken_away.remove(&instance.key());
        if self.instances.is_empty() {
            self.taken_away.clear();
        }
        taken_away
    }
}
