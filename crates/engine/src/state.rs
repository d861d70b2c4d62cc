//! The state of an instance: values that its code publishes under names, for readers who do not run the instance.
//!
//! A value is no command and no event. The code computes it from its history, and a replay computes it again. The
//! values that an execution leaves stand in the first event of the next one.

use std::collections::BTreeMap;
use std::mem;

use crate::Payload;

/// The values of a state, by name.
pub type StateValues = BTreeMap<String, Payload>;

/// A change of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// The name has this value now.
    Set {
        /// The name.
        name: String,
        /// The value.
        value: Payload,
    },
    /// The name has no value any more.
    Deleted {
        /// The name.
        name: String,
    },
}

impl StateChange {
    /// The name whose value changes.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Set { name, .. } | Self::Deleted { name } => name,
        }
    }

    /// The new value. `None`: there is none any more, or it is `undefined`.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Set { value, .. } => value.as_deref(),
            Self::Deleted { .. } => None,
        }
    }

    /// Bytes of the name and of the value.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.name().len() + self.value().map_or(0, str::len)
    }

    /// Carries the change out.
    pub fn apply(&self, values: &mut StateValues) {
        match self {
            Self::Set { name, value } => values.insert(name.clone(), value.clone()),
            Self::Deleted { name } => values.remove(name),
        };
    }

    /// Returns the change that sets the value back, in the values before it.
    fn inverse(&self, values: &StateValues) -> Self {
        let name = self.name().to_owned();
        match values.get(&name) {
            Some(value) => Self::Set {
                name,
                value: value.clone(),
            },
            None => Self::Deleted { name },
        }
    }
}

/// The state as the code sees it. An engine without values holds a pointer only.
#[derive(Clone, Debug, Default)]
pub(crate) struct State(Option<Box<Values>>);

#[derive(Clone, Debug, Default)]
struct Values {
    now: StateValues,
    /// For each name that has changed in the turn, the change that sets its former value back.
    before: BTreeMap<String, StateChange>,
}

/// The state without values.
static EMPTY: StateValues = StateValues::new();

impl State {
    pub(crate) fn new(values: StateValues) -> Self {
        let is_empty = values.is_empty();
        let values = Values {
            now: values,
            before: BTreeMap::new(),
        };
        Self((!is_empty).then(|| Box::new(values)))
    }

    pub(crate) fn values(&self) -> &StateValues {
        self.0.as_ref().map_or(&EMPTY, |values| &values.now)
    }

    /// Changes a value. A change that `is_stored` is among those of the turn.
    pub(crate) fn change(&mut self, change: &StateChange, is_stored: bool) {
        let Values { now, before } = &mut **self.0.get_or_insert_default();
        if is_stored && !before.contains_key(change.name()) {
            before.insert(change.name().to_owned(), change.inverse(now));
        }
        change.apply(now);
    }

    /// Ends a turn. Returns what is different from the end of the turn before, in the order of the names.
    pub(crate) fn take_changes(&mut self) -> Vec<StateChange> {
        let Some(values) = &mut self.0 else {
            return Vec::new();
        };
        let changes = mem::take(&mut values.before).into_values();
        let changes = changes.map(|before| (before.inverse(&values.now), before));
        let changes = changes
            .filter(|(now, before)| now != before)
            .map(|(now, _)| now)
            .collect();
        if values.now.is_empty() {
            self.0 = None;
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> StateChange {
        StateChange::Set {
            name: name.into(),
            value: Some(value.into()),
        }
    }

    fn deleted(name: &str) -> StateChange {
        StateChange::Deleted { name: name.into() }
    }

    #[test]
    fn a_turn_leaves_the_last_change_of_each_name() {
        let mut state = State::default();
        for change in [set("b", "1"), set("a", "1"), set("b", "2")] {
            state.change(&change, true);
        }
        assert_eq!(state.take_changes(), [set("a", "1"), set("b", "2")]);
        assert_eq!(state.take_changes(), []);
        state.change(&deleted("a"), true);
        assert_eq!(state.take_changes(), [deleted("a")]);
        assert_eq!(state.values().keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_value_that_is_set_back_has_not_changed() {
        let mut state = State::new(StateValues::from([("a".into(), Some("1".into())), ("u".into(), None)]));
        for change in [
            set("a", "2"),
            set("new", "1"),
            deleted("u"),
            deleted("new"),
            set("a", "1"),
        ] {
            state.change(&change, true);
        }
        state.change(
            &StateChange::Set {
                name: "u".into(),
                value: None,
            },
            true,
        );
        assert_eq!(state.take_changes(), []);
    }

    #[test]
    fn a_value_without_a_text_is_a_value() {
        let mut state = State::default();
        let undefined = StateChange::Set {
            name: "u".into(),
            value: None,
        };
        state.change(&undefined, true);
        assert_eq!(state.take_changes(), [undefined]);
        assert_eq!(state.values().len(), 1);
    }

    #[test]
    fn a_replay_stores_nothing() {
        let mut state = State::default();
        state.change(&set("a", "1"), false);
        assert_eq!(state.take_changes(), []);
        state.change(&set("a", "2"), true);
        state.change(&set("a", "1"), true);
        assert_eq!(state.take_changes(), []);
    }
}
