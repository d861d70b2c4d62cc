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
    revoked: FxHashSet<InstanceKey>,
}

impl Starting {
    pub(crate) fn len(&self) -> usize {
        self.instances.len()
    }

    pub(crate) fn revoke(&mut self, key: InstanceKey) {
        if !self.instances.is_empty() {
            self.revoked.insert(key);
        }
    }

    /// Forgets an instance whose start is written or refused. Returns `true` if the instance was taken away already.
    pub(crate) fn remove(&mut self, instance: &Instance) -> bool {
        self.instances.remove(&instance.token);
        let is_revoked = self.revoked.remove(&instance.key());
        if self.instances.is_empty() {
            self.revoked.clear();
        }
        is_revoked
    }
}
