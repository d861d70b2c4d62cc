//! The custom status of an instance. Calls find the instance through the map of turns, and the status is stored with
//! the turn.

use perdure_engine::Payload;

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
}
