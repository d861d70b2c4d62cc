//! The state of an instance: the values that its code publishes under names.

use perdure_engine::Payload;

use crate::{InstanceKey, Status};

/// A request for the state of an instance.
#[derive(Clone, Debug)]
pub struct StateRequest {
    /// The user's name of the instance.
    pub id: String,
    /// The only name that is asked for; `None`: all.
    pub name: Option<String>,
}

/// A value of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateValue {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: Payload,
    /// The [`StoredState::version`] with which it was set.
    pub version: u64,
}

/// The state of an instance, all at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredState {
    /// The instance.
    pub key: InstanceKey,
    /// Its status.
    pub status: Status,
    /// Number of turns that changed the state.
    pub version: u64,
    /// The values that were asked for, in the order of the bytes of their names.
    pub values: Vec<StateValue>,
}
