//! Trace lines of orchestrations: they find their instance through the map of turns, and are silent in a replay.

use perdure_scheduler::Class;

use crate::error::RuntimeError;
use crate::instance::Token;
use crate::job::{Level, LogRecord, Queued};
use crate::runtime::Runtime;

impl Runtime {
    /// Write a line to the log, unless the instance is replaying. `fields` is JSON text of an object.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn trace(
        &self,
        token: Token,
        level: Level,
        message: String,
        fields: Option<String>,
    ) -> Result<(), RuntimeError> {
        if !self.is_replaying(token)? {
            self.shared.lane.push(
                Class::First,
                Queued::Log(LogRecord {
                    level,
                    message,
                    fields,
                    internal: false,
                }),
            );
        }
        Ok(())
    }

    /// Whether the code is being taken through what it did before.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn is_replaying(&self, token: Token) -> Result<bool, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.is_replaying())
    }
}
