//! Ids of instances by their keys, and of children by the events that scheduled them: what says whose values are in rows that do not say it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hashlink::LruCache;
use parking_lot::Mutex;
use perdure_engine::{EventId, EventRecord, ExecutionId, Message};
use perdure_provider::{InstanceKey, Outcome, PageLimit, Provider, ProviderError, ProviderErrorKind, Write};

use crate::values::{child_of, message_tells_end_of, tells_end_of};

/// So many instances are remembered, and as many children: what is not is asked for.
const REMEMBERED_MAX: usize = 65_536;

/// A child, as its parent knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Child {
    pub(crate) key: InstanceKey,
    pub(crate) execution: ExecutionId,
    pub(crate) scheduled: EventId,
}

/// Those that some values need.
#[derive(Default)]
pub(crate) struct Names {
    ids: HashMap<InstanceKey, Arc<str>>,
    children: HashMap<Child, Arc<str>>,
}

impl Names {
    /// The id of an instance; of one that is gone none.
    pub(crate) fn id(&self, key: InstanceKey) -> Arc<str> {
        self.ids.get(&key).cloned().unwrap_or_default()
    }

    pub(crate) fn child(&self, child: &Child) -> Arc<str> {
        self.children.get(child).cloned().unwrap_or_default()
    }

    /// The key of an instance that has none yet.
    pub(crate) fn unborn(&self) -> InstanceKey {
        InstanceKey(i64::MIN)
    }
}

/// Which are needed.
#[derive(Default)]
pub(crate) struct Needs {
    keys: HashSet<InstanceKey>,
    children: HashSet<Child>,
    /// Scheduled by what is at hand, which may not be in the store yet.
    scheduled: HashMap<Child, Arc<str>>,
}

impl Needs {
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
            Write::TaskDone(done) => self.instance(done.task.key),
            _ => {}
        }
    }
}

/// What is remembered of them.
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

    /// Forgets everything: a store that lost its last commits gives keys and events a second time.
    pub(crate) fn clear(&self) {
        self.ids.lock().clear();
        self.children.lock().clear();
    }

    /// The children that events schedule.
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

    /// What a write has come to. What was fenced off says nothing: another worker may have scheduled other children.
    pub(crate) fn note_outcome(&self, write: &Write, outcome: &Outcome) {
        match (write, outcome) {
            (Write::Start(start), Outcome::Started { key, .. }) => self.note(*key, &start.id),
            (Write::Turn(turn), Outcome::Committed { .. }) => {
                self.note_events(turn.key, turn.execution, &turn.events);
            }
            (Write::Message(message), Outcome::Delivered { key, .. }) => self.note(*key, &message.instance),
            _ => {}
        }
    }

    /// The names that are needed.
    ///
    /// # Errors
    ///
    /// Those of the store that is asked for what is not remembered.
    pub(crate) async fn names(&self, needs: Needs, store: &dyn Provider) -> Result<Names, ProviderError> {
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
                // One that is gone fences off whatever is written for it.
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

    /// Asks for the event that scheduled a child. Of an execution whose history is gone there is none, and nobody reads what its children say.
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

    /// A store that lost its last commits gives keys a second time. A process that remembered whose they were encoded values of the later instance as
    /// those of the lost one, and nobody else could read them.
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
