//! Processes by id.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use crate::control::Then;
use crate::process::Process;

/// Where an event finds the process that it is for.
pub struct Directory<Id, P, S = RandomState>(HashMap<Id, Arc<P>, S>);

impl<Id, P, S: Default> Default for Directory<Id, P, S> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<Id: Eq + Hash, P: Process, S: BuildHasher> Directory<Id, P, S> {
    /// The process of an id from now on; the one that was.
    pub fn insert(&mut self, id: Id, process: Arc<P>) -> Option<Arc<P>> {
        self.0.insert(id, process)
    }

    /// An id is no process's any more; the one that was.
    pub fn remove(&mut self, id: &Id) -> Option<Arc<P>> {
        self.0.remove(id)
    }

    /// The process of an id.
    #[must_use]
    pub fn get(&self, id: &Id) -> Option<&Arc<P>> {
        self.0.get(id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<P>> {
        self.0.values()
    }

    /// Take all of them out.
    pub fn drain(&mut self) -> impl Iterator<Item = Arc<P>> {
        self.0.drain().map(|(_, process)| process)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Send an event to the process of an id: which one that is, and what becomes of it. `None`: there is none.
    #[must_use]
    pub fn send(&self, id: &Id, around: &P::Around, event: P::Event) -> Option<(&Arc<P>, Then<P::Need>)> {
        let process = self.0.get(id)?;
        let then = process.send(&mut process.lock(), around, event);
        Some((process, then))
    }

    /// Whether all of them wait or are over.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let mut all = self.iter();
        all.all(|process| P::control(&mut process.lock()).state().is_at_rest())
    }
}
