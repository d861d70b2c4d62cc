//! Deletions of clients that go on step by step, and that their client may abandon. An abandoned deletion ends before
//! its next step. What was deleted stays deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::client::watch::WaitId;

/// The deletions of a store that are under way, by the number of their request.
#[derive(Default)]
pub(crate) struct Deletions(Mutex<FxHashMap<WaitId, Arc<AtomicBool>>>);

/// A deletion that is under way. It is over when this is dropped.
pub(crate) struct Deletion {
    id: WaitId,
    is_abandoned: Arc<AtomicBool>,
    of: Arc<Deletions>,
}

impl Deletions {
    pub(crate) fn begin(self: &Arc<Self>, id: WaitId) -> Deletion {
        let is_abandoned = Arc::<AtomicBool>::default();
        self.0.lock().insert(id, Arc::clone(&is_abandoned));
        Deletion {
            id,
            is_abandoned,
            of: Arc::clone(self),
        }
    }

    /// Makes a deletion end before its next step.
    pub(crate) fn abandon(&self, id: WaitId) {
        if let Some(is_abandoned) = self.0.lock().get(&id) {
            is_abandoned.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Deletion {
    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.of.0.lock().remove(&self.id);
    }
}
