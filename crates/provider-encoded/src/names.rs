//! Ids of instances by their keys, and of children by the events that scheduled them. They tell which instance the
//! values of a row belong to, where the row itself does not.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hashlink::LruCache;
use parking_lot::Mutex;
use perdure_engine::{EventId, EventRecord, ExecutionId, Message};
use perdure_provider::{InstanceKey, Outcome, PageLimit, Provider, ProviderError, ProviderErrorKind, Write};

use crate::values::{child_of, message_tells_end_of, tells_end_of};

/// The most instances that are remembered, and the most children. The store is asked for the others.
const REMEMBERED_MAX: usize = 65_536;

/// A child, as its parent identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Child {
    pub(crate) key: InstanceKey,
    pub(crate) execution: ExecutionId,
    pub(crate) scheduled: EventId,
}

/// The ids that some values need.
#[derive(Default)]
pub(crate) struct Names {
    ids: HashMap<InstanceKey, Arc<str>>,
    children: HashMap<Child, Arc<str>>,
}

impl Names {
    /// Returns the id of an instance, or an empty id if the instance is gone.
    pub(crate) fn id(&self, key: InstanceKey) -> Arc<str> {
        self.ids.get(&key).cloned().unwrap_or_default()
    }

    pub(crate) fn child(&self, child: &Child) -> Arc<str> {
        self.children.get(child).cloned().unwrap_or_default()
    }

    /// Returns the key for an instance that has none yet.
    pub(crate) fn placeholder_key(&self) -> InstanceKey {
        InstanceKey(i64::MIN)
    }
}

/// The instances and children whose ids are needed.
#[derive(Default)]
pub(crate) struct NeededIds {
    keys: HashSet<InstanceKey>,
    children: HashSet<Child>,
    /// Children that the events at hand schedule. These events may not be in the store yet.
    scheduled: HashMap<Child, Arc<str>>,
}

impl NeededIds {
    pub(crate) fn instance(&mut self, key: InstanceKey) {
        self.keys.insert(key);
    }

    pub(crate) fn events(&mut self, key: InstanceKey, execution: ExecutionId, events: &[EventRecord]) {
        let child = |scheduled| Child {
            key,
            execution,
            scheduled,
        };
        self.children.extend(events.iter().filter_map(tells_end_of).map(child));
        let scheduled = events
            .iter()
            .filter_map(|event| Some((child(event.event_id), child_of(event)?)));
        self.scheduled.extend(scheduled);
    }

    pub(crate) fn messages<'m>(&mut self, key: InstanceKey, messages: impl IntoIterator<Item = &'m Message>) {
        let told = messages
            .into_iter()
            .filter_map(|message| message_tells_end_of(&message.body));
        self.children.extend(told.map(|(execution, scheduled)| Child {
            key,
            execution,
            scheduled,
        }));
    }

    pub(crate) fn write(&mut self, write: &Write) {
        match write {
            Write::Turn(turn) => {
                self.instance(turn.key);
                self.events(turn.key, turn.execution, &turn.events);
            }
            Write::Heartbeat(heartbeat) => self.instance(heartbeat.key),
            Write::Append(append) => self.instance(append.key),
            Write::TaskDone(done) => self.instance(done.task.key),
            _ => {}
        }
    }
}

/// The ids that are remembered.
pub(crate) struct Memory {
    ids: Mutex<LruCache<InstanceKey, Arc<str>>>,
    children: Mutex<LruCache<Child, Arc<str>>>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            ids: Mutex::new(LruCache::new(REMEMBERED_MAX)),
            children: Mutex::new(LruCache::new(REMEMBERED_MAX)),
        }
    }
}

impl Memory {
    pub(crate) fn note(&self, key: InstanceKey, id: &str) {
        let mut ids = self.ids.lock();
        if ids.get(&key).is_none_or(|known| **known != *id) {
            ids.insert(key, id.into());
        }
    }

    /// Forgets everything. A store that lost its last commits gives out keys and event ids a second time.
    pub(crate) fn clear(&self) {
        self.ids.lock().clear();
        self.children.lock().clear();
    }

    /// Remembers the children that events schedule.
    pub(crate) fn note_events(&self, key: InstanceKey, execution: ExecutionId, events: &[EventRecord]) {
        for event in events {
            if let Some(id) = child_of(event) {
                let child = Child {
                    key,
                    execution,
                    scheduled: event.event_id,
                };
                self.children.lock().insert(child, id);
            }
        }
    }

    /// Remembers the ids that the outcome of a write confirms. A write that was fenced off confirms none: another
    /// worker may have scheduled other children.
    pub(crate) fn note_outcome(&self, write: &Write, outcome: &Outcome) {
        match (write, outcome) {
            (Write::Start(start), Outcome::Started { key, .. }) => self.note(*key, &start.id),
            (Write::KeyedStart(keyed), Outcome::Started { key, .. }) => self.note(*key, &keyed.start.id),
            (Write::Turn(turn), Outcome::Committed { .. }) => {
                self.note_events(turn.key, turn.execution, &turn.events);
            }
            (Write::Message(message), Outcome::Delivered { key, .. }) => self.note(*key, &message.instance),
            (Write::Ask(ask), Outcome::Delivered { key, .. }) => self.note(*key, &ask.message.instance),
            (Write::StartWithMessage(both), Outcome::Delivered { key, .. }) => self.note(*key, &both.start.id),
            _ => {}
        }
    }

    /// Returns the ids that are needed.
    ///
    /// # Errors
    ///
    /// Errors of the store, which is asked for the ids that are not remembered.
    pub(crate) async fn names(&self, needs: NeededIds, store: &dyn Provider) -> Result<Names, ProviderError> {
        let mut names = Names::default();
        let mut unknown = Vec::new();
        for key in needs.keys {
            let known = self.ids.lock().get(&key).cloned();
            match known {
                Some(id) => drop(names.ids.insert(key, id)),
                None => unknown.push(key),
            }
        }
        if !unknown.is_empty() {
            let ids = store.ids_of(unknown.clone()).await?;
            for (key, id) in unknown.into_iter().zip(ids) {
                // No id is needed for an instance that is gone: each write for it is fenced off.
                let Some(id) = id else { continue };
                self.note(key, &id);
                names.ids.insert(key, id.into());
            }
        }
        for child in needs.children {
            let at_hand = needs.scheduled.get(&child).cloned();
            let known = at_hand.or_else(|| self.children.lock().get(&child).cloned());
            let id = match known {
                Some(id) => id,
                None => self.scheduled(child, store).await?,
            };
            names.children.insert(child, id);
        }
        Ok(names)
    }

    /// Asks the store for the event that scheduled a child, and returns the id of the child. If the history of the
    /// execution is gone, the id is empty: nothing reads the results of its children then.
    async fn scheduled(&self, child: Child, store: &dyn Provider) -> Result<Arc<str>, ProviderError> {
        let Child {
            key,
            execution,
            scheduled,
        } = child;
        let read = store.read_history(key, execution, scheduled, PageLimit::rows(1)).await;
        let events = match read {
            Err(error) if error.kind == ProviderErrorKind::Corrupt => Vec::new(),
            read => read?,
        };
        self.note_events(key, execution, &events);
        let id = events
            .first()
            .filter(|event| event.event_id == scheduled)
            .and_then(child_of);
        Ok(id.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that lost its last commits gives out keys a second time. A process that remembered the former instance
    /// of a key encoded values of the later instance as values of the lost one, and no other process could read them.
    #[test]
    fn a_key_that_is_given_again_is_the_later_instance_s() {
        let memory = Memory::default();
        memory.note(InstanceKey(1), "lost");
        memory.note(InstanceKey(1), "later");
        assert_eq!(memory.ids.lock().get(&InstanceKey(1)).map(|id| &**id), Some("later"));
        memory.clear();
        assert!(memory.ids.lock().get(&InstanceKey(1)).is_none());
    }
}
