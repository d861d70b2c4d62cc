//! Log lines of orchestrations. Calls find the instance through the map of turns, and write nothing in a replay.

use perdure_scheduler::Class;

use crate::error::RuntimeError;
use crate::lane::job::Queued;
use crate::log::{Level, LogRecord};
use crate::runtime::Runtime;
use crate::state::Token;

impl Runtime {
    /// Writes a line to the log, unless the instance is replaying. `fields` is JSON text of an object.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn log(&self, token: Token, level: Level, message: String, fields: Option<String>) -> Result<(), RuntimeError> {
        let turn = self.turn(token)?;
        if turn.with_engine(|engine| engine.is_replaying())? {
            return Ok(());
        }
        let record = LogRecord {
            level,
            message,
            fields,
            internal: false,
            error: None,
        };
        match &mut turn.instance.lock().start {
            // The start may still be refused, so there may be no such instance.
            Some(start) => start.logs.push(record),
            None => self.shared.push(Class::First, Queued::Log(record)),
        }
        Ok(())
    }

    /// Returns true if the code is being replayed.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn is_replaying(&self, token: Token) -> Result<bool, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.is_replaying())
    }
}
