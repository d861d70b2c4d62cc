//! The custom status and the state of an instance. Calls find the instance through the map of turns, and what they
//! change is stored with the turn.

use perdure_engine::{Payload, StateChange};

use crate::error::RuntimeError;
use crate::runtime::Runtime;
use crate::state::Token;

impl Runtime {
    /// Sets the custom status, or resets it with `None`. The status is stored with the turn, unless the instance is
    /// replaying.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn set_custom_status(&self, token: Token, value: Payload) -> Result<(), RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.set_custom_status(value))
    }

    /// Changes a value of the state.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn change_state(&self, token: Token, change: &StateChange) -> Result<(), RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.change_state(change))
    }
}
