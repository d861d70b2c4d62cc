//! Processes by id.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use crate::control::NextAction;
use crate::process::Process;

/// The processes by id, so that an event finds its process.
pub struct Directory<Id, P, S = RandomState>(HashMap<Id, Arc<P>, S>);

impl<Id, P, S: Default> Default for Directory<Id, P, S> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<Id: Eq + Hash, P: Process, S: BuildHasher> Directory<Id, P, S> {
    /// Sets the process of an id. Returns the previous one.
    pub fn insert(&mut self, id: Id, process: Arc<P>) -> Option<Arc<P>> {
        self.0.insert(id, process)
    }

    /// Removes the process of an id. Returns the process.
    pub fn remove(&mut self, id: &Id) -> Option<Arc<P>> {
        self.0.remove(id)
    }

    /// The process of an id.
    #[must_use]
    pub fn get(&self, id: &Id) -> Option<&Arc<P>> {
        self.0.get(id)
    }

    /// All processes.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<P>> {
        self.0.values()
    }

    /// Takes all processes out.
    pub fn drain(&mut self) -> impl Iterator<Item = Arc<P>> {
        self.0.drain().map(|(_, process)| process)
    }

    /// Number of processes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Sends an event to the process of an id. Returns the process and its next action. `None`: the id has no process.
    #[must_use]
    pub fn send(&self, id: &Id, services: &P::Services, event: P::Event) -> Option<(&Arc<P>, NextAction<P::Need>)> {
        let process = self.0.get(id)?;
        let action = process.send(&mut process.lock(), services, event);
        Some((process, action))
    }

    /// True if all processes wait or are over.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let mut all = self.iter();
        all.all(|process| P::control(&mut process.lock()).state().is_at_rest())
    }
}
