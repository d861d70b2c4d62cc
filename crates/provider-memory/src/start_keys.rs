//! The keys of starts (P26).

use perdure_provider::{InstanceKey, KeyedStart};

use crate::rows::{StartKey, StartKeyRow};
use crate::tables::Tables;

/// Returns the key of a start.
pub(crate) fn of(keyed: &KeyedStart) -> StartKey {
    (keyed.rule.name(), keyed.scope.clone(), keyed.key.clone())
}

/// Gives a key an instance, which has no other key.
pub(crate) fn put(tables: &mut Tables, key: StartKey, row: StartKeyRow) {
    if let Some(before) = tables.start_keys.get(&key).map(|row| row.instance) {
        tables.keys_of_instances.remove(&before);
    }
    tables.keys_of_instances.insert(row.instance, key.clone());
    tables.start_keys.insert(key, row);
}

/// Removes the key of an instance, if it has one.
pub(crate) fn remove(tables: &mut Tables, instance: InstanceKey) {
    if let Some(key) = tables.keys_of_instances.get(&instance).cloned() {
        tables.keys_of_instances.remove(&instance);
        tables.start_keys.remove(&key);
    }
}
