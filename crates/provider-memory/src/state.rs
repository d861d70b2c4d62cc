//! The states of instances: values that their code publishes under names.

use std::ops::Range;

use perdure_engine::{Bug, StateChange, is_planted};
use perdure_provider::{InstanceKey, StateRequest, StateValue, StoredState};

use crate::rows::ValueKey;
use crate::tables::Tables;

fn of_instance(key: InstanceKey) -> Range<ValueKey> {
    (key, String::new())..(InstanceKey(key.0 + 1), String::new())
}

/// Carries out the changes of a turn.
pub(crate) fn change(tables: &mut Tables, key: InstanceKey, changes: &[StateChange]) {
    if changes.is_empty() || is_planted(Bug::StateNotStored) {
        return;
    }
    let version = tables.edit(key, |row| {
        row.state_version += 1;
        row.state_version
    });
    for change in changes {
        let at = (key, change.name().to_owned());
        match change {
            StateChange::Set { name, value } => {
                let value = StateValue {
                    name: name.clone(),
                    value: value.clone(),
                    version,
                };
                tables.state.insert(at, value);
            }
            StateChange::Deleted { .. } => {
                tables.state.remove(&at);
            }
        }
    }
}

/// Removes the state of an instance.
pub(crate) fn remove(tables: &mut Tables, key: InstanceKey) {
    tables.state.remove_range(of_instance(key));
}

/// Returns the state of an instance, or one value of it. `None`: there is no instance of that id.
pub(crate) fn read(tables: &Tables, request: &StateRequest) -> Option<StoredState> {
    let row = tables.find(&request.id)?;
    let values = tables.state.range(of_instance(row.key)).map(|(_, value)| value);
    let asked = values.filter(|value| request.name.as_ref().is_none_or(|name| *name == value.name));
    Some(StoredState {
        key: row.key,
        status: row.status,
        version: row.state_version,
        values: asked.cloned().collect(),
    })
}
