//! Indexes of instances by other values than their keys. Every entry follows from the row.

use std::sync::Arc;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::InstanceKey;

use crate::rows::{InstanceRow, Parent};
use crate::table::{Journal, Table};

#[derive(Default)]
pub(crate) struct Indexes {
    /// By the user's name of the instance.
    pub(crate) ids: Table<String, InstanceKey>,
    /// Instances that have a due time, by that time.
    pub(crate) due: Table<(i64, InstanceKey), ()>,
    /// Owned instances, by owner.
    pub(crate) owned: Table<(Arc<str>, InstanceKey), ()>,
    /// Children, by the event that started them.
    pub(crate) children: Table<(InstanceKey, ExecutionId, EventId), InstanceKey>,
    /// All instances, by creation.
    pub(crate) created: Table<(i64, InstanceKey), ()>,
    /// Ended instances, by their end.
    pub(crate) ended: Table<(i64, InstanceKey), ()>,
}

impl Indexes {
    /// Follows a row that is inserted, changed, or removed.
    pub(crate) fn follow(&mut self, before: Option<&InstanceRow>, after: Option<&InstanceRow>) {
        if before.map(|row| &row.id) != after.map(|row| &row.id) {
            let id = |row: &InstanceRow| (row.id.clone(), row.key);
            replace(&mut self.ids, before.map(id), after.map(id));
        }
        let due = |row: &InstanceRow| Some(((row.wake_at_ms?, row.key), ()));
        replace(&mut self.due, before.and_then(due), after.and_then(due));
        let owned = |row: &InstanceRow| Some(((Arc::clone(&row.owner.as_ref()?.0), row.key), ()));
        replace(&mut self.owned, before.and_then(owned), after.and_then(owned));
        let child = |row: &InstanceRow| row.parent.map(|parent| (of_parent(parent), row.key));
        replace(&mut self.children, before.and_then(child), after.and_then(child));
        let created = |row: &InstanceRow| ((row.created_at_ms, row.key), ());
        replace(&mut self.created, before.map(created), after.map(created));
        let ended = |row: &InstanceRow| Some(((row.completed_at_ms?, row.key), ()));
        replace(&mut self.ended, before.and_then(ended), after.and_then(ended));
    }

    pub(crate) fn tables(&mut self) -> [&mut dyn Journal; 6] {
        [
            &mut self.ids,
            &mut self.due,
            &mut self.owned,
            &mut self.children,
            &mut self.created,
            &mut self.ended,
        ]
    }
}

fn of_parent(parent: Parent) -> (InstanceKey, ExecutionId, EventId) {
    (parent.key, parent.execution, parent.event)
}

fn replace<K: Ord + Clone, V: PartialEq>(index: &mut Table<K, V>, before: Option<(K, V)>, after: Option<(K, V)>) {
    if before == after {
        return;
    }
    if let Some((key, _)) = before {
        index.remove(&key);
    }
    if let Some((key, value)) = after {
        assert!(!index.contains(&key), "an entry of an index is of one instance");
        index.insert(key, value);
    }
}
